"""Hugging Face's tokenizers: the same tokens and the same text back for every kind of tokenizer.json."""

import random
import unicodedata
from pathlib import Path

from tokenizers import Tokenizer

from harness import require
from token_program import decode_all, encode_all, same_ids

FILES = Path(__file__).resolve().parent.parent / "data" / "tokenizers"
COUNT = 1500
WORDS = ("Hello world, the water isn't over there; I'M HERE WE'LL größe Straße café cafe\u0301 привет 今天天气 東京は 안녕하세요 مرحبا "
         "नमस्ते 😀👍🏽 ﬁ ½ Ⅷ def run(x, y=0): https://a.b/c?d=e snake_case <s> </s> <|end|> <|sys|> MASK [CLS] [SEP] <unk> [UNK] <mask> "
         "▁ Ġ Ċ İstanbul ẞ 0x1F").split()
SPACES = [" ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "", "", "\u0085", "\u2003", "\u200b", "\n\n "]
ENDINGS = ["s", "S", "t", "re", "VE", "ll", "D", "ſ", "m"]


def random_texts(seed):
    """Words, characters that all versions of Unicode agree on, contractions, numbers, spaces."""
    rng = random.Random(seed)
    old = unicodedata.ucd_3_2_0.category
    known = [c for c in range(1, 0x30000) if old(chr(c)) not in ("Cn", "Cs") and old(chr(c)) == unicodedata.category(chr(c))]

    def part():
        kind = rng.random()
        if kind < 0.5:
            return rng.choice(WORDS)
        if kind < 0.7:
            return "".join(chr(rng.choice(known)) for _ in range(rng.randint(1, 4)))
        if kind < 0.8:
            return "".join(chr(rng.randint(32, 126)) for _ in range(rng.randint(1, 6)))
        return "'" + rng.choice(ENDINGS) if kind < 0.9 else str(rng.randint(0, 10 ** rng.randint(1, 9)))

    return ["".join(part() + rng.choice(SPACES) for _ in range(rng.randint(1, 12))) for _ in range(COUNT)]


def run(suite):
    texts = random_texts(5)
    for path in sorted(FILES.glob("*.json")):
        if path.name in ("texts.json", "gptrs_flat.json") or ".expect" in path.name:
            continue
        theirs = Tokenizer.from_file(str(path))
        expected = [theirs.encode(text).ids for text in texts]
        with suite.case("read", f"{path.stem}: the same tokens for {COUNT} texts"):
            same_ids(texts, expected, encode_all(suite, path, [text.encode() for text in texts], "special,add"))
        with suite.case("write", f"{path.stem}: the same text back"):
            for ids, ours in zip(expected, decode_all(suite, path, expected), strict=True):
                text = theirs.decode(ids)
                # Broken characters come back as the bytes they are, not as U+FFFD.
                require("\ufffd" in text or ours.decode() == text, f"{text!a} there, {ours!a} here")
