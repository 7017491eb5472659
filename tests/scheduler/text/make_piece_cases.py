"""Makes tests/scheduler/text/piece_cases.json: small vocabularies that Google's sentencepiece trains, and the ids that
it gives texts with them. Committed, so that tests need neither it nor a download.

    python tests/scheduler/text/make_piece_cases.py tests/scheduler/text/piece_cases.json

Needs sentencepiece and Debian's /usr/share/common-licenses/GPL-3.
"""
import io
import json
import random
import sys

import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as proto

TEXTS = ["", "the program", " the program", "  two  spaces ", "a\nb\n\nc\n\n\nd", "\tx\t\ty", "General Public License",
         "freedomfreedomfreedom", "\u00e9\u4e2d\U0001f600", "a\u00e9b", "\x00\x7f", "<mark>x<mark>", "<0x41>", "</s>", "<unk>",
         "\u2581\u2581under", "you may, however, not: \u201cconvey\u201d", "zzzzqqqq", " ", "   ", "software\u00a0software"]


def random_texts():
    draw = random.Random(5)
    words = ["the", "license", "work", "of", " ", "  ", "\n", "\n\n", "copy", "ing", "\u00e9", "\u4e2d\u6587", "ab", "<mark>", "."]
    for _ in range(40):
        yield "".join(draw.choice(words) for _ in range(draw.randrange(1, 15)))


def train(add_dummy_prefix):
    out = io.BytesIO()
    with open("/usr/share/common-licenses/GPL-3", encoding="utf-8") as text:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(text.read().split("\n\n")), model_writer=out, model_type="bpe", vocab_size=700,
            byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
            add_dummy_prefix=add_dummy_prefix, user_defined_symbols=["\n", "\n\n", "<mark>", "\u2581\u2581\u2581"],
            character_coverage=1.0, num_threads=1, minloglevel=2)
    model = proto.ModelProto()
    model.ParseFromString(out.getvalue())
    return model


def main():
    vocabularies = []
    for prefix in (False, True):
        model = train(prefix)
        processor = sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())
        cases = []
        for text in TEXTS + list(random_texts()):
            spaced = text.replace("\u2581", " ")
            if prefix and (spaced.startswith("  ") or any(symbol in spaced for symbol in ("\n", "<mark>", "   "))):
                continue  # llama.cpp and we put a space behind each such symbol, sentencepiece in front of the text
            cases.append({"text": text, "ids": processor.encode(text)})
        vocabularies.append({"add_space_prefix": prefix, "pieces": [[p.piece, p.score, p.type] for p in model.pieces],
                             "cases": cases})
    with open(sys.argv[1], "w", encoding="ascii") as out:
        json.dump(vocabularies, out)
        out.write("\n")


if __name__ == "__main__":
    main()
