"""Texts to tokenize, made from what any Python installation has and from Unicode itself; the same on every run of one machine."""

import ast
import random
import sysconfig
import unicodedata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

# Blocks whose letters, digits and marks texts of these scripts are made of: first and last code point.
SCRIPTS = {
    "Latin": (0x00C0, 0x024F), "Greek": (0x0370, 0x03FF), "Cyrillic": (0x0400, 0x052F), "Armenian": (0x0531, 0x058F),
    "Hebrew": (0x0591, 0x05F4), "Arabic": (0x0600, 0x06FF), "Devanagari": (0x0900, 0x097F), "Bengali": (0x0980, 0x09FE),
    "Tamil": (0x0B82, 0x0BFA), "Thai": (0x0E01, 0x0E5B), "Tibetan": (0x0F00, 0x0FDA), "Georgian": (0x10A0, 0x10FF),
    "Ethiopic": (0x1200, 0x137C), "Khmer": (0x1780, 0x17F9), "Kana": (0x3041, 0x30FF), "Han": (0x4E00, 0x9FA5),
    "Hangul": (0xAC00, 0xD7A3), "Gothic": (0x10330, 0x1034A), "Cuneiform": (0x12000, 0x12399),
    "Mathematical": (0x1D400, 0x1D7FF), "Han, plane 2": (0x20000, 0x2A6D6), "combining marks": (0x0300, 0x036F),
}
SPACES = [chr(c) for c in (0x20, 0x20, 0x20, 0x0A, 0x09, 0x0B, 0x0C, 0x0D, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B),
                           0x2028, 0x2029, 0x202F, 0x205F, 0x3000)]
NO_SPACES = [chr(c) for c in (0x200B, 0x200C, 0x200D, 0x2060, 0x180E, 0xFEFF)]
EMOJI = ["\U0001F600", "\U0001F468\u200D\U0001F469\u200D\U0001F467", "\U0001F1E9\U0001F1EA", "\u2764\uFE0F",
         "\U0001F44D\U0001F3FD", "\U0001F3F4\U000E0067\U000E0062\U000E0065\U000E006E\U000E0067\U000E007F", "1\uFE0F\u20E3"]
ENDINGS = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'T", "'LL", "'Re", "\u2019s", "''s", "'", "'l", "'r"]


def stdlib_sources(least):
    """Python's own sources, in order of name, until there are enough bytes."""
    total = 0
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).rglob("*.py")):
        if {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3"} & set(path.parts):
            continue
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        yield text
        total += len(text)
        if total >= least:
            return


def docstrings(source):
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text and len(text) > 200:
                yield text


def prose(size):
    """English: the manual that Python carries, the licences that Debian carries, long docstrings."""
    from pydoc_data import topics
    texts = list(topics.topics.values())
    texts += [path.read_text("utf-8", "ignore") for path in sorted(Path("/usr/share/common-licenses").glob("*"))
              if path.is_file()]
    for source in stdlib_sources(1 << 30):
        texts += docstrings(source)
        if sum(map(len, texts)) >= size:
            break
    return "\n\n".join(texts)[:size]


def code(size):
    """Our own tree, then Python's library."""
    texts = [path.read_text("utf-8") for folder in ("ballast", "apps", "tests/text", "scripts", "docs")
             for path in sorted((ROOT / folder).rglob("*")) if path.is_file() and path.suffix in ("", ".cc", ".h", ".md", ".py")]
    total = sum(map(len, texts))
    if total < size:
        texts += stdlib_sources(size - total)
    return "\n".join(texts)[:size]


def assigned(first, last):
    return [chr(c) for c in range(first, last + 1) if unicodedata.category(chr(c)) not in ("Cn", "Cs")]


def words_of(letters, count, rng):
    for _ in range(count):
        yield "".join(rng.choices(letters, k=rng.choice((1, 2, 3, 5, 8, 13, 40 if rng.random() < 0.05 else 4))))


def scripts(words, seed):
    """Words of one script after another with its own digits and marks, between spaces of all kinds."""
    rng = random.Random(seed)
    out = []
    for first, last in SCRIPTS.values():
        letters = assigned(first, last)
        for word in words_of(letters, words, rng):
            out += (word, rng.choice(SPACES) * rng.choice((1, 1, 1, 1, 2, 3)))
    return "".join(out)


def numbers(seed):
    """Every digit, letter-like number and fraction of all scripts, alone, in runs and beside letters."""
    rng = random.Random(seed)
    all_numbers = [chr(c) for c in range(0x30, 0x32000) if unicodedata.category(chr(c)) in ("Nd", "Nl", "No")]
    runs = "".join("".join(rng.choices(all_numbers, k=rng.randrange(1, 6))) + rng.choice([" ", "", "a", ".", "\u3000"])
                   for _ in range(4000))
    return " ".join(all_numbers) + runs


def odds_and_ends(count, seed):
    """Spaces before words, contractions, emoji, punctuation, controls, in any order."""
    rng = random.Random(seed)
    kinds = [lambda: rng.choice(SPACES) * rng.randrange(1, 9), lambda: "".join(rng.choices(SPACES + NO_SPACES, k=5)),
             lambda: rng.choice(["don", "We", "it", "I", "\u00e9t\u00e9", "9", "(", "\u65e5"]) + rng.choice(ENDINGS),
             lambda: rng.choice(EMOJI) * rng.randrange(1, 4), lambda: "".join(rng.choices("!?-=_*#/\\<>&|~.,;:'\"", k=6)),
             lambda: chr(rng.randrange(0, 32)), lambda: rng.choice(["word", "Word", "WORD", "x1y2", "3.14", "a_b"]),
             lambda: "\n" * rng.randrange(1, 5) + " " * rng.randrange(0, 12), lambda: "<|endoftext|>"]
    return "".join(rng.choice(kinds)() for _ in range(count))


def every_code_point():
    """Once each, by themselves between letters every now and then, so that each meets different neighbours."""
    out = []
    for c in range(0x110000):
        if not 0xD800 <= c < 0xE000:
            out.append(chr(c))
            if c % 7 == 0:
                out.append(" a")
    return "".join(out)


def broken_bytes(size, seed):
    """Text with bytes that are no UTF-8: lone, cut off, overlong, surrogates, above U+10FFFF, and noise."""
    rng = random.Random(seed)
    bad = [b"\xff", b"\xfe\xff", b"\x80", b"\xbf\xbf", b"\xc0\xaf", b"\xe4\xbd", b"\xf0\x9f\x98", b"\xed\xa0\x80",
           b"\xf4\x90\x80\x80", b"\xe0\x80\x80", b"\xc3"]
    good = ["word", " the", "\u00e9", "\u65e5\u672c", " \u0434\u0430", "12", "!", " ", "\n\n", "'s", "\U0001F600", "\u0301"]
    out = bytearray()
    while len(out) < size:
        kind = rng.random()
        if kind < 0.3:
            out += rng.choice(bad)
        elif kind < 0.35:
            out += rng.randbytes(rng.randrange(1, 12))
        else:
            out += rng.choice(good).encode()
    return bytes(out)
