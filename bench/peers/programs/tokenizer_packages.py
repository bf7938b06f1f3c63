"""tiktoken and Hugging Face's tokenizers, with the vocabulary of a GGUF file of llama.cpp, on one thread."""
import json
from pathlib import Path

from .timing import milliseconds_of

# As tiktoken spells GPT-2's pattern (the possessive forms match the same), and Llama 3's.
PATTERNS = {
    "gpt-2": r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s""",
    "llama-bpe": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
                 r"|\s+(?!\S)|\s+",
}
NORMAL_TOKEN = 1  # of GGUF's token types


def digest_of(ids):
    """As bench/tokenizer_bench.cc computes it."""
    digest = 0xCBF29CE484222325
    for i in ids:
        digest = ((digest ^ i) * 0x100000001B3) & (2**64 - 1)
    return f"{digest:016x}"


class TokenizerPackage:
    settings = ("one thread",)

    @staticmethod
    def takes(work):
        return work["kind"] == "tokenizer"

    def __init__(self, work, setting):
        parts = json.loads(Path(work["parts"]).read_text())
        self.work, self.tokens, self.types = work, parts["tokens"], parts["token_type"]
        self.merges = [tuple(merge.split(" ")) for merge in parts["merges"]]
        self.pattern = PATTERNS[work["pattern"]]
        self.text = Path(work["text"]).read_bytes().decode()
        self.encode = self.encoder(setting)

    def turn(self):
        return {"ms": milliseconds_of(lambda: self.encode(self.text))}

    def output(self):
        return digest_of(self.encode(self.text))


class Tiktoken(TokenizerPackage):
    name = "tiktoken"

    def encoder(self, setting):
        import tiktoken
        printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
        others = [b for b in range(256) if b not in printable]
        byte_of = {**{chr(b): b for b in printable}, **{chr(256 + i): b for i, b in enumerate(others)}}
        ranks = {bytes(byte_of[c] for c in token): i for i, token in enumerate(self.tokens) if self.types[i] == NORMAL_TOKEN}
        return tiktoken.Encoding("vocabulary", pat_str=self.pattern, mergeable_ranks=ranks, special_tokens={}).encode_ordinary


class HuggingFaceTokenizers(TokenizerPackage):
    name = "tokenizers"
    settings = ("encode_batch_fast", "encode")  # the first keeps no offsets

    def encoder(self, setting):
        from tokenizers import Regex, Tokenizer, models, pre_tokenizers
        vocabulary = {token: i for i, token in enumerate(self.tokens)}
        own_pattern = self.work["pattern"] == "gpt-2"  # which the package has built in
        tokenizer = Tokenizer(models.BPE(vocabulary, self.merges, ignore_merges=not own_pattern))
        as_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=own_pattern)
        split = pre_tokenizers.Split(Regex(self.pattern), "isolated")
        tokenizer.pre_tokenizer = as_bytes if own_pattern else pre_tokenizers.Sequence([split, as_bytes])
        if setting == "encode_batch_fast":
            return lambda text: tokenizer.encode_batch_fast([text])[0].ids
        return lambda text: tokenizer.encode(text).ids
