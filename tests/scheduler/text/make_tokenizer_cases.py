"""Writes tokenizer_cases.json: small vocabularies and what Hugging Face `tokenizers` makes of texts.

Usage: make_tokenizer_cases.py OUT.json      (needs: pip install tokenizers; made with 0.23.3)

Each vocabulary is trained on the texts themselves, so that merges happen in all of them. The file
is committed; run this again only to change the cases.
"""
import json
import random
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers import trainers

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|" + TAIL
QWEN2 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|" + TAIL
TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CAMEL = r"\p{Lu}?\p{Ll}+|\d+"  # passes of a checkpoint's own: gaps stay pieces

WORDS = (
    "the quick brown fox don't DON'T we'll We'LL it's IT'S he'\u017f I'm I'M they've 'tis rock'n'roll "
    "tokenization Tokenization camelCase HTTPServer x86_64 3.14159 1234567 0x1F 12,345 2nd "
    "na\u00efve caf\u00e9 cafe\u0301 \u00c5ngstr\u00f6m A\u030angstrom \u212b \u1e9b\u0323 q\u0323\u0307 q\u0307\u0323 \u0958 "
    "\u1112\u1161\u11ab\u1100\u1173\u11af \ud55c\uae00 \u4f60\u597d\u4e16\u754c \u3053\u3093\u306b\u3061\u306f \u0645\u0631\u062d\u0628\u0627 "
    "\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd \u0928\u092e\u0938\u094d\u0924\u0947 \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 \u041f\u0440\u0438\u0432\u0435\u0442 \u0393\u03b5\u03b9\u03ac "
    "\u0663\u0664\u0665 \u0967\u0968\u0969 \u00b2\u00bd\u2167\u2460 \U0001f600\U0001f680 \U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1eb\U0001f1f7 \ufe0f "
    "\u01c5 \u02b0 !!! ... -- ==> {}(); // /* */ <<>> \\n $100 #tag @me a/b/c \u2014 \u201cquoted\u201d"
).split(" ")
SPACES = [" ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", " \n", "\n ", "\u00a0", "\u2003", "\u3000",
          "\u0085", "\u2028", "\u180e", "\u200b", "\x0b", "\x1c", ""]
LITERALS = ["<|end|>", "<|end|>x", "<|endless|>", "<tool>", "<tool>s", "<|en", "<|END|>", "<<|end|>>"]
FIXED = ["", " ", "  ", "x  42", "x \n  \n y", "a\r\n\r\nb", "\n\n\n  indented", "trailing   ",
         "user's <|end|> and <tool>", "<|end|><|end|>x<|endless|>", "<tool><|end|>\n\n<tool>s 1",
         "\x00\x01\x02null", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "9" * 20, " " * 33 + "x",
         "a\u0301\u0316\u0301\u0316b", "\u0344", "\u0f73\u0f71", "\ufffd", "\U0010ffff"]

ADDED = [("<|end|>", True), ("<|end|>x", True), ("<|endless|>", True), ("<tool>", False),
         ("<tool>s", False)]


def make_texts():
    rng = random.Random(3)
    texts = list(FIXED)
    for _ in range(60):
        parts = []
        for _ in range(rng.randint(1, 9)):
            parts.append(rng.choice(WORDS if rng.random() < 0.85 else LITERALS))
            parts.append(rng.choice(SPACES) if rng.random() < 0.5 else " ")
        texts.append("".join(parts))
    return texts


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def make_vocabulary(name, passes, texts, *, nfc=False, extra=(), missing=""):
    tok = Tokenizer(models.BPE())
    if nfc:
        tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer = pre_tokenizers.Sequence(passes)
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=600, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tok.train_from_iterator(texts * 2, trainer)
    model = json.loads(tok.to_str())["model"]
    # Tokens that no merge makes are met only by looking up whole pieces.
    tokens = [t for t, _ in sorted(model["vocab"].items(), key=lambda item: item[1])]
    tokens += [t for t in extra if t not in tokens]
    merges = [tuple(m) for m in model["merges"]]
    if missing:
        tokens = [t for t in tokens if missing not in t]
        merges = [m for m in merges if missing not in m[0] + m[1]]
    ids = {t: i for i, t in enumerate(tokens)}
    tok.model = models.BPE(vocab=ids, merges=merges, ignore_merges=bool(extra))
    for text, special in ADDED:
        added = AddedToken(text, special=special, normalized=False)
        (tok.add_special_tokens if special else tok.add_tokens)([added])
    cases = []
    for text in texts:
        for parse_special in (False, True):
            tok.encode_special_tokens = not parse_special
            encoded = tok.encode(text, add_special_tokens=False).ids
            if parse_special and cases[-1]["ids"] == encoded:
                cases[-1]["parse_special"] = None  # either way
                continue
            cases.append({"text": text, "parse_special": parse_special, "ids": encoded,
                          "decoded": tok.decode(encoded, skip_special_tokens=False),
                          "hidden": tok.decode(encoded, skip_special_tokens=True)})
            for key in ("decoded", "hidden"):
                if cases[-1][key] == text:
                    cases[-1][key] = None  # the text itself
    return {
        "name": name, "nfc": nfc, "ignore_merges": bool(extra), "tokens": tokens, "merges": merges,
        "added": [{"id": tok.token_to_id(t), "text": t, "special": s} for t, s in ADDED],
        "cases": cases,
    }


def main(out):
    texts = make_texts()
    gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    as_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    vocabularies = []
    for name, passes, options in [
        ("gpt-2", [gpt2], {}),
        ("smollm", [pre_tokenizers.Digits(individual_digits=True), gpt2], {"missing": "\u0122"}),
        ("llama-bpe", [split(LLAMA3), as_bytes], {"extra": ["\u0120tokenization", "\u0120quick", "...."]}),
        ("qwen2", [split(QWEN2), as_bytes], {"nfc": True}),
        ("tekken", [split(TEKKEN), as_bytes], {}),
        ("", [split(CAMEL), as_bytes], {}),
    ]:
        vocabulary = make_vocabulary(name, passes, texts, **options)
        vocabulary["passes"] = [] if name else [CAMEL]
        vocabularies.append(vocabulary)
        print(name, len(vocabulary["tokens"]), "tokens", len(vocabulary["cases"]), "cases")
    with open(out, "w", encoding="ascii") as file:
        json.dump(vocabularies, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
