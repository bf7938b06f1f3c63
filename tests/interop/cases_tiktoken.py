"""tiktoken: the same tokens for the same text, with GPT-2's vocabulary."""

import json
import subprocess
import unicodedata

import numpy as np
import regex
import tiktoken

import gpt2
import token_texts
from harness import COMMAND_TIMEOUT_S, Mismatch, require

# A byte that is no UTF-8 is a character of its own that is neither letter, number nor space. For tiktoken, which takes
# text only, each becomes a character of that kind for private use.
PRIVATE = 0xF700


class Program:
    """`ballast tokenize` with one tokenizer."""

    def __init__(self, ballast, tokenizer, folder):
        self.ballast, self.tokenizer, self.folder = ballast, tokenizer, folder

    def encode(self, data):
        path = self.folder / "text.bin"
        path.write_bytes(data)
        said = self.ballast.run("tokenize", "--tokenizer", self.tokenizer, "--file", path, "--ids", "--plain").stdout
        return np.array(said.split(","), dtype=np.int64) if said.strip() else np.zeros(0, np.int64)

    def decode(self, ids):
        command = [self.ballast.program, "tokenize", "--tokenizer", str(self.tokenizer), "--decode", "-"]
        text = ",".join(map(str, ids.tolist())).encode()
        return subprocess.run(command, input=text, capture_output=True, timeout=COMMAND_TIMEOUT_S, check=True).stdout


def same_tokens(encoding, expected, seen):
    if np.array_equal(expected, seen):
        return
    common = min(len(expected), len(seen))
    at = int(np.argmax(expected[:common] != seen[:common])) if (expected[:common] != seen[:common]).any() else common
    show = lambda ids: [encoding.decode_single_token_bytes(int(i)) for i in ids[max(0, at - 2):at + 4]]
    raise Mismatch(f"{len(expected)} and {len(seen)} tokens, first different at {at}: {show(expected)} against {show(seen)}")


# ---------------------------------------------------------------- what is a letter, a number, a space

def probe_merges():
    """Tokens that join "a", "1" and "!" with any byte behind them: they appear where the pattern keeps both together."""
    return [bytes((first, byte)) for first in b"a1!" for byte in range(256)]


def write_probe(folder):
    """A flat tokenizer file of the single bytes and these merges, and the same for tiktoken."""
    char_of = {byte: char for char, byte in gpt2.byte_alphabet().items()}
    vocabulary = {char_of[byte]: byte for byte in range(256)} | {"<unk>": 2000}
    merges = probe_merges()
    for i, pair in enumerate(merges):
        vocabulary["".join(char_of[b] for b in pair)] = 256 + i
    path = folder / "probe.json"
    path.write_text(json.dumps({"vocab": vocabulary, "merges": [[char_of[a], char_of[b]] for a, b in merges]}), "utf-8")
    ranks = {bytes([byte]): byte for byte in range(256)} | {pair: 256 + i for i, pair in enumerate(merges)}
    return path, tiktoken.Encoding("probe", pat_str=gpt2.PATTERN, mergeable_ranks=ranks, special_tokens={})


def classes_of(code_points, encode):
    """How a tokenizer sees each: 0 letter, 1 number, 2 other, 3 space. Asked with "\\na?\\n1?\\n!?" for each."""
    sizes = np.array([len(chr(c).encode()) for c in code_points])
    text = "".join(f"\na{chr(c)}\n1{chr(c)}\n!{chr(c)}" for c in code_points)
    ids = encode(text)
    ends = np.cumsum(np.where(ids >= 256, 2, 1))
    joined = np.zeros(ends[-1] + 1, bool)
    joined[ends[ids >= 256] - 2] = True
    starts = np.concatenate(([0], np.cumsum(6 + 3 * sizes)[:-1]))
    kinds = [joined[starts + k * (2 + sizes) + 1] for k in range(3)]
    require(not any((kinds[a] & kinds[b]).any() for a, b in ((0, 1), (0, 2), (1, 2))), "of two classes at once")
    return np.select(kinds, [0, 1, 2], 3)


def ranges_of(numbers):
    found = []
    for n in numbers:
        if found and n == found[-1][1] + 1:
            found[-1][1] = n
        else:
            found.append([n, n])
    return found


def different_classes(suite):
    """Code points that one side has never heard of: their Unicode is older. Everything else must agree."""
    path, probe = write_probe(suite.folder)
    program = Program(suite.ballast, path, suite.folder)
    code_points = [c for c in (*range(1, 0x40000), *range(0xE0000, 0xE1000)) if not 0xD800 <= c < 0xE000]
    ours = classes_of(code_points, lambda text: program.encode(text.encode()))
    theirs = classes_of(code_points, lambda text: np.array(probe.encode_ordinary(text)))
    names = ("letter", "number", "other", "space")
    different = [c for c, a, b in zip(code_points, ours, theirs) if a != b]
    with suite.case("both", f"letters, numbers and spaces are the same for {len(code_points)} code points, but for "
                            f"{len(different)} that only the newer Unicode has"):
        for c, a, b in zip(code_points, ours, theirs):
            # An unassigned character is of class other, and was in no early version of Unicode.
            new = 2 in (a, b) and 3 not in (a, b) and unicodedata.ucd_3_2_0.category(chr(c)) == "Cn"
            require(a == b or new, f"U+{c:04X} is a {names[a]} here and a {names[b]} there")
    shown = ", ".join(f"{a:04X}-{b:04X}" if a != b else f"{a:04X}" for a, b in ranges_of(different))
    print(f"     tiktoken: of another class by version of Unicode: {shown or 'none'}")
    return {chr(c) for c in different}


# ---------------------------------------------------------------- the same tokens

def texts():
    return {"English prose": token_texts.prose(1 << 20), "source code": token_texts.code(2 << 20),
            "many scripts and spaces": token_texts.scripts(1500, seed=1), "numbers of all scripts": token_texts.numbers(2),
            "spaces, contractions, emoji, punctuation": token_texts.odds_and_ends(150_000, seed=3),
            "every code point": token_texts.every_code_point()}


def valid_text(suite, program, encoding, left_out):
    table = {ord(c): None for c in left_out}
    total = 0
    for what, text in texts().items():
        data = text.translate(table).encode()
        total += len(data)
        with suite.case("read", f"the same tokens: {what}, {len(data) / 2**20:.2f} MiB"):
            seen = program.encode(data)
            same_tokens(encoding, np.array(encoding.encode_ordinary(data.decode())), seen)
            require(program.decode(seen) == data, "other bytes come back")
    with suite.case("read", f"at least 5 MiB in all ({total / 2**20:.2f})"):
        require(total >= 5 << 20, "too little text")


def broken_text(suite, program, encoding):
    data = token_texts.broken_bytes(1 << 19, seed=4)
    with suite.case("read", f"broken UTF-8, each bad byte a character of its own: {len(data) / 2**20:.2f} MiB"):
        text = data.decode("utf-8", "surrogateescape").translate({0xDC00 + b: PRIVATE + b for b in range(128, 256)})
        expected = []
        for piece in regex.findall(gpt2.PATTERN, text):
            escaped = piece.translate({PRIVATE + b: 0xDC00 + b for b in range(128, 256)})
            expected += encoding._encode_single_piece(escaped.encode("utf-8", "surrogateescape"))
        seen = program.encode(data)
        same_tokens(encoding, np.array(expected), seen)
        require(program.decode(seen) == data, "other bytes come back")
    with suite.case("read", "broken UTF-8 at the end, as tiktoken's own entry for bytes takes it"):
        for bad in (b"\xff", b"\xe4\xbd", b"\xf0\x9f\x98", b"\xff\xfe\x80", b"\xc3"):
            for text in (b"", b"some words ", "caf\u00e9 \u65e5\u672c ".encode()):
                same_tokens(encoding, np.array(encoding._encode_bytes(text + bad)), program.encode(text + bad))


def run(suite, vocabulary):
    encoding = gpt2.load(vocabulary)
    program = Program(suite.ballast, vocabulary / "vocab.json", suite.folder)
    left_out = different_classes(suite)
    valid_text(suite, program, encoding, left_out)
    broken_text(suite, program, encoding)
