"""sentencepiece: models trained on the spot, unigram and BPE, with and without bytes, rules and pieces of the user's own."""

import random

import sentencepiece

from cases_tokenizers import random_texts
from token_program import encode_all, same_ids

WORDS = ("the water river is long and over there we go to see a small house under old trees where two people speak of new things "
         "they read in books about light sound stone winter while children play near lake with paper boats").split()
MODELS = {
    "unigram, NFKC": {"model_type": "unigram", "vocab_size": 300},
    "unigram, bytes, user's pieces": {"model_type": "unigram", "vocab_size": 420, "byte_fallback": True,
                                      "normalization_rule_name": "identity", "user_defined_symbols": ["<|user|>", "__sep__"]},
    "unigram, no prefix, spaces kept": {"model_type": "unigram", "vocab_size": 200, "add_dummy_prefix": False,
                                        "remove_extra_whitespaces": False},
    "BPE, NFKC with case folding": {"model_type": "bpe", "vocab_size": 300, "normalization_rule_name": "nmt_nfkc_cf"},
    "BPE, bytes, spaces kept": {"model_type": "bpe", "vocab_size": 480, "byte_fallback": True,
                                "remove_extra_whitespaces": False, "normalization_rule_name": "identity"},
    "BPE, user's pieces": {"model_type": "bpe", "vocab_size": 300, "user_defined_symbols": ["<|user|>", "river"]},
}


def corpus():
    rng = random.Random(7)
    lines = [" ".join(rng.choices(WORDS, k=rng.randint(4, 14))) + rng.choice(".!?,") for _ in range(3000)]
    return lines + ["größe und Straße café", "привет мир", "今天天气很好", "12345 1234567"] * 20


def run(suite):
    source = suite.folder / "corpus.txt"
    source.write_text("\n".join(corpus()), "utf-8")
    rng = random.Random(8)
    texts = random_texts(6) + [" ".join(rng.choices(WORDS + ["<|user|>", "__sep__", "<s>"], k=9)) for _ in range(500)]
    for number, (what, options) in enumerate(MODELS.items()):
        with suite.case("read", f"{what}: the same tokens for {len(texts)} texts"):
            prefix = str(suite.folder / f"model{number}")
            sentencepiece.SentencePieceTrainer.train(input=str(source), model_prefix=prefix, hard_vocab_limit=False,
                                                     num_threads=1, minloglevel=2, **options)
            theirs = sentencepiece.SentencePieceProcessor(model_file=prefix + ".model")
            seen = encode_all(suite, prefix + ".model", [text.encode() for text in texts], "plain")
            same_ids(texts, [theirs.encode(text) for text in texts], seen)
