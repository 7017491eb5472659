"""The vocabulary of a GGUF file as a model for Google's sentencepiece, the program that such vocabularies are made
for. It shares nothing with llama.cpp's reading of the file, or with ours."""
import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as proto

UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 2, 3, 4, 5, 6  # as in GGUF, and in the proto


def sentencepiece_of(reader, parse_special=True):
    """`reader`: gguf.GGUFReader. sentencepiece never reads control tokens in a text; with `parse_special` they are
    user-defined symbols, which it does read."""
    def contents(key):
        return reader.fields[f"tokenizer.ggml.{key}"].contents()

    texts, scores, types = contents("tokens"), contents("scores"), contents("token_type")
    model = proto.ModelProto()
    unknown = contents("unknown_token_id")
    for i, (text, score, kind) in enumerate(zip(texts, scores, types)):
        piece = model.pieces.add()
        piece.score = score
        piece.piece = text.replace(" ", "\u2581") if kind == USER_DEFINED else text
        if i == unknown:
            kind = UNKNOWN
        elif kind == CONTROL and parse_special:
            kind = USER_DEFINED
        piece.type = kind
    model.trainer_spec.model_type = proto.TrainerSpec.BPE
    model.trainer_spec.vocab_size = len(texts)
    model.trainer_spec.byte_fallback = True
    model.trainer_spec.unk_id = unknown
    model.trainer_spec.bos_id, model.trainer_spec.eos_id = contents("bos_token_id"), contents("eos_token_id")
    model.trainer_spec.pad_id = contents("padding_token_id")
    for name, piece_id in (("unk", unknown), ("bos", model.trainer_spec.bos_id), ("eos", model.trainer_spec.eos_id),
                           ("pad", model.trainer_spec.pad_id)):
        setattr(model.trainer_spec, f"{name}_piece", texts[piece_id])
    model.normalizer_spec.name = "identity"
    model.normalizer_spec.precompiled_charsmap = b""
    model.normalizer_spec.add_dummy_prefix = bool(contents("add_space_prefix"))
    model.normalizer_spec.remove_extra_whitespaces = False
    model.normalizer_spec.escape_whitespaces = True
    return sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())
