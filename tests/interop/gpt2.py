"""GPT-2's vocabulary, as tiktoken takes it."""

import json

import tiktoken

# As tiktoken itself spells GPT-2's pattern; the possessive forms match the same.
PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""


def byte_alphabet():
    """The characters that stand for bytes in the file: {character: byte}."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    return {**{chr(b): b for b in printable}, **{chr(256 + i): b for i, b in enumerate(others)}}


def load(folder):
    """The tiktoken encoding of the vocab.json in a folder."""
    byte_of = byte_alphabet()
    vocabulary = json.loads((folder / "vocab.json").read_text("utf-8"))
    end = vocabulary.pop("<|endoftext|>")
    ranks = {bytes(byte_of[c] for c in text): rank for text, rank in vocabulary.items()}
    return tiktoken.Encoding("gpt2", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": end})
