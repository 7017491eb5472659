"""Makes tests/data/reference/gemma3_tokenize.jsonl: token ids of Gemma 3's vocabulary by Google's sentencepiece.

    python tests/scheduler/text/make_gemma3_tokenize.py MODEL.gguf tests/data/reference/gemma3_tokenize.jsonl

Needs gguf, sentencepiece and tokenizers. Per line: name, text, parse_special, ids (nothing added), decoded. Hugging
Face's tokenizers, with merges made from the scores as its converter makes them, must agree on every text.
"""
import json
import pathlib
import random
import sys

import gguf
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers

from gemma_pieces import CONTROL, USER_DEFINED, sentencepiece_of

ROOT = pathlib.Path(__file__).resolve().parents[3]
OWN = {
    "newlines": "\n", "newlines-2": "a\n\nb", "newlines-31": "x" + "\n" * 31 + "y", "newlines-40": "\n" * 40,
    "newline-space": "a\n b\n  c\n   d", "space-newline": "a \nb  \nc   \n", "crlf": "a\r\nb\r\n\r\nc",
    "tabs": "\tif x:\n\t\treturn\t1", "tabs-35": "\t" * 35, "tab-space": "\t \t  \t",
    "spaces-2": "a  b", "spaces-3": "a   b", "spaces-31": "a" + " " * 31 + "b", "spaces-33": "a" + " " * 33 + "b",
    "leading-1": " a", "leading-2": "  a", "leading-3": "   a", "trailing-1": "a ", "trailing-2": "a  ",
    "only-1": " ", "only-2": "  ", "only-100": " " * 100, "piece-sign": "a\u2581b", "piece-signs": "\u2581\u2581a \u2581",
    "piece-sign-mixed": " \u2581 \u2581\u2581x", "unknown-text": "<unk>", "byte-text": "<0x0A><0xFF>", "byte-text-cut": "<0x0",
    "turns": "<bos><start_of_turn>user\nHi!<end_of_turn>\n<start_of_turn>model\n", "turn-cut": "<start_of_turn",
    "turn-twice": "<end_of_turn><end_of_turn>", "turn-case": "<Start_of_turn>", "image": "a<start_of_image>b<end_of_image>",
    "html": "<table><tr><td>1</td></tr></table><h1>T</h1><br><p>", "multimodal": "x[multimodal]y", "unused": "<unused5> <unused99>",
    "mask": "<mask><pad><eos>", "digits": "1234567890 3.14159 1,000,000", "digits-wide": "\uff11\uff12\u0663\u0967",
    "control": "\x00\x01\x02\x1b[0m\x7f\x85", "private": "\ue000\uf8ff\U000f0000", "rare-cjk": "\U0002a6a5\U00030000\u9fff",
    "emoji-zwj": "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f1e9\U0001f1ea \U0001f44d\U0001f3fd",
    "emoji-new": "\U0001fae8\U0001faf8\U0001f6dc", "cuneiform": "\U00012000\U00012001", "hieroglyph": "\U00013000",
    "musical": "\U0001d11e", "tags": "\U000e0067\U000e0062", "cjk": "\u4eca\u5929\u5929\u6c14\u5f88\u597d\u3002", "korean": "\uc548\ub155\ud558\uc138\uc694",
    "thai": "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01", "arabic": "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645",
    "hindi": "\u0928\u092e\u0938\u094d\u0924\u0947", "combining": "e\u0301 n\u0303 \u1e9b\u0323", "ligature": "\ufb01 \u210c \u00bd \u2460",
    "replacement": "\ufffd\ufffd", "bom": "\ufeffa", "nbsp": "a\u00a0b\u3000c\u2003d", "line-separators": "a\u2028b\u2029c\x0bd\x0ce",
    "code": "for (int i = 0; i < n; ++i) {\n    sum += a[i] * b[i];  // dot\n}\n", "url": "https://example.com/a?b=c&d=%20e#f",
    "long-word": "Donaudampfschifffahrtsgesellschaftskapit\u00e4n" * 8, "repeat-a": "a" * 300, "repeat-ab": "ab" * 200,
    "repeat-emoji": "\U0001f600" * 50, "empty": "", "case": "HELLO Hello hello hELLO", "quotes": "\u201cHe said \u2018no\u2019\u201d \u2014 it\u2019s",
    "math": "\u2200x\u2208\u211d: \u2211\u1d62 x\u1d62\u00b2 \u2265 0 \u21d2 \u221e", "mixed": "abc\u0434\u0435\u0444\u4e2d\u6587\U0001f600 123\n\n  end",
}


def random_texts(count):
    draw = random.Random(3)
    alphabets = ["abcdefghij  \n\t", "\u2581 a\n", "\u00e0\u00e9\u00fc\u00df \u0142", "\u4e00\u4e8c\u4e09\u56db\u3042\u3044 ", "<>/0x_startofunedmk "]
    for i in range(count):
        text = ""
        for _ in range(draw.randrange(1, 40)):
            if draw.random() < 0.2:
                point = draw.randrange(0x20, 0x1FFFF)
                text += chr(point) if not 0xD800 <= point < 0xE000 else "\u00a4"
            else:
                text += draw.choice(alphabets[i % len(alphabets)])
        yield f"random-{i}", text


def hugging_face(reader, parse_special):
    """Merges in the order of the scores of what they give, then of the lengths of their parts."""
    def contents(key):
        return reader.fields[f"tokenizer.ggml.{key}"].contents()

    texts, scores, types = contents("tokens"), contents("scores"), contents("token_type")
    vocab = {text: i for i, text in enumerate(texts)}
    merges = []
    for text, i in vocab.items():
        if types[i] in (CONTROL, 6):
            continue
        for cut in range(1, len(text)):
            left, right = text[:cut], text[cut:]
            if left in vocab and right in vocab:
                merges.append((-scores[i], len(left), len(right), left, right))
    merges.sort()
    tokenizer = Tokenizer(models.BPE(vocab, [(m[3], m[4]) for m in merges], byte_fallback=True, fuse_unk=True,
                                     unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    wanted = (USER_DEFINED, CONTROL) if parse_special else (USER_DEFINED,)
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text, kind in zip(texts, types) if kind in wanted])
    return tokenizer


def main():
    reader = gguf.GGUFReader(sys.argv[1])
    texts = [(name, text) for name, text in OWN.items()]
    with open(ROOT / "tests/data/reference/tokenize.jsonl", encoding="utf-8") as lines:
        texts += [(case["name"], case["text"]) for case in map(json.loads, lines)]
    texts += random_texts(60)
    agreed = 0
    with open(sys.argv[2], "w", encoding="ascii") as out:
        for parse_special in (False, True):
            processor, other = sentencepiece_of(reader, parse_special), hugging_face(reader, parse_special)
            for name, text in texts:
                if parse_special and ("<" not in text or name == "unknown-text"):  # sentencepiece knows no "<unk>"
                    continue
                ids = processor.encode(text)
                # tokenizers looks for added tokens before it makes spaces U+2581.
                if "\u2581" not in text:
                    assert other.encode(text, add_special_tokens=False).ids == ids, (name, ids)
                    agreed += 1
                out.write(json.dumps({"name": name, "text": text, "parse_special": parse_special, "ids": ids,
                                      "decoded": text.replace("\u2581", " ")}) + "\n")  # every byte has a token
    print(f"both programs agree on {agreed} texts")


if __name__ == "__main__":
    main()
