"""llama.cpp: its vocabulary files with the tests that come with them, and what it made of our own texts (llama_tokens.json)."""

import json
import subprocess
import tempfile
from pathlib import Path

from tokenizers import Tokenizer

from harness import require, sha256
from token_program import TIMEOUT_S, encode_all, same_ids

RECORDED = Path(__file__).resolve().parent / "llama_tokens.json"
SEPARATOR = "\n__ggml_vocab_test__\n"
NOT_WRITTEN = {"ggml-vocab-gemma-4"}  # no model here has such a vocabulary


def own_tests(suite, path):
    """FILE.inp holds texts, FILE.out the tokens of each, a line."""
    texts = Path(f"{path}.inp").read_bytes().decode().split(SEPARATOR)
    lines = Path(f"{path}.out").read_text("utf-8").split("\n")
    expected = [[int(word) for word in line.split()] for line in lines[:len(texts)]]
    with suite.case("read", f"{path.name}: its own {len(texts)} tests"):
        require(len(expected) == len(texts), f"{len(expected)} lines for {len(texts)} texts")
        same_ids(texts, expected, encode_all(suite, path, [text.encode() for text in texts], "plain"))


def written_tokenizer(suite, path):
    """As tokenizer.json, in the hands of Hugging Face's tokenizers."""
    texts = Path(f"{path}.inp").read_bytes().decode().split(SEPARATOR)
    program = suite.ballast.program.rsplit("/", 1)[0] + "/interop_write_tokenizer"
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([program, str(path), folder], capture_output=True, encoding="utf-8", timeout=TIMEOUT_S)
        with suite.case("write", f"{path.name}: tokenizer.json for {len(texts)} texts"):
            require(done.returncode == 0, done.stderr.strip())
            theirs = Tokenizer.from_file(f"{folder}/tokenizer.json")
            ours = encode_all(suite, path, [text.encode() for text in texts], "special,add")
            same_ids(texts, [theirs.encode(text).ids for text in texts], ours)


def recorded_texts(suite, folder):
    recorded = json.loads(RECORDED.read_text("utf-8"))
    texts = {text["name"]: bytes.fromhex(text["hex"]) for text in recorded["texts"]}
    for name, vocabulary in recorded["vocabularies"].items():
        path = folder / vocabulary["file"]
        cases = [case for case in recorded["cases"] if case["vocab"] == name]
        given = [texts[case["name"]] for case in cases]
        with suite.case("read", f"{name}: the file that was recorded"):
            require(sha256(path.read_bytes()) == vocabulary["sha256"], "it is another one")
        with suite.case("read", f"{name}: {len(cases)} recorded texts"):
            same_ids(given, [case["ids"] for case in cases], encode_all(suite, path, given, "plain"))
        with suite.case("read", f"{name}: {len(cases)} recorded texts with special tokens"):
            expected = [case.get("special_ids", case["ids"]) for case in cases]
            same_ids(given, expected, encode_all(suite, path, given, "special,add"))


def run(suite, folder):
    tested = sorted(path.with_suffix("") for path in folder.glob("*.gguf.inp"))
    with suite.case("read", f"{len(tested)} vocabularies have tests of their own"):
        require(len(tested) >= 15, "some are missing")
    for path in tested:
        own_tests(suite, path)
        if path.stem not in NOT_WRITTEN:
            written_tokenizer(suite, path)
    recorded_texts(suite, folder)
