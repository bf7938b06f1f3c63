"""llama.cpp: its vocabulary files with the tests that come with them, what it made of our own texts (llama_tokens.json), and models
that we converted, which it loads and continues."""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tokenizers import Tokenizer

from harness import COMMAND_TIMEOUT_S, require, sha256
from token_program import TIMEOUT_S, encode_all, same_ids

HERE = Path(__file__).resolve().parent
FOLDERS = HERE.parent / "data" / "hf"
# One of each family; shorter than any window, which llama.cpp does not have for all of them.
CONTINUED = ("llama_plain", "llama_rope_llama3", "llama_rope_yarn", "llama_tied_llama3", "smollm2", "smollm3", "ministral3", "mixtral", "qwen2",
             "qwen3", "qwen3_moe", "qwen2_moe_shared", "gemma3", "phi3", "gpt2")
PROMPT, STEPS = [5, 17, 90], 4
TRAINED = """
model = {kind = "gpt", context_length = 32, embed_dim = 32, num_layers = 1, num_heads = 2}
data = {kind = "text", path = "corpus.txt", tokenizer = "bytes"}
optimizer = {type = "adamw", lr = 0.01}
train = {steps = 60, batch_size = 8, seed = 1, output = "gpt/cats.gptrs"}
checkpoint = {folder = "run"}
"""
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


def toy_tokenizer(size):
    """Byte-level, with a token for each of `size` - 1 characters of GPT-2's alphabet and one merge."""
    letters = [chr(i) for i in range(33, 127)] + [chr(i) for i in range(161, 173)] + [chr(i) for i in range(256, 289)]
    tokens = letters[:size - 1] + ["ab"]
    return {"version": "1.0", "added_tokens": [], "normalizer": None, "post_processor": None, "truncation": None, "padding": None,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
            "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
            "model": {"type": "BPE", "vocab": {token: i for i, token in enumerate(tokens)}, "merges": ["a b"]}}


def llama_cpp(path, ids):
    done = subprocess.run([sys.executable, "-B", HERE / "llama_greedy.py", path, str(STEPS), ",".join(map(str, ids))], capture_output=True,
                          encoding="utf-8", timeout=COMMAND_TIMEOUT_S)
    require(done.returncode == 0, f"llama.cpp ended with {done.returncode}: {done.stderr.strip()[-400:]}")
    return json.loads(done.stdout)


def converted_models(suite):
    for name in CONTINUED:
        with suite.case("write", f"{name}: the folder as a GGUF file, continued by both"):
            folder = suite.folder / name / "tiny"  # llama.cpp expects tokens of what is called phi3
            shutil.copytree(FOLDERS / name, folder, ignore=shutil.ignore_patterns("expected*"))
            size = json.loads((folder / "config.json").read_text())["vocab_size"]
            (folder / "tokenizer.json").write_text(json.dumps(toy_tokenizer(size)))
            path = suite.folder / f"{name}.gguf"
            suite.ballast.convert(folder, path)
            said = suite.ballast.run("generate", folder, "--tokens", ",".join(map(str, PROMPT)), "--greedy", "--ignore-eos",
                                     "--max-tokens", STEPS, "--json")
            ours, theirs = json.loads(said.stdout)["tokens"], llama_cpp(path, PROMPT)
            require(ours == theirs, f"the folder goes on with {ours}, llama.cpp with {theirs}")


def trained_model(suite):
    """Its vocabulary is one of bytes, without a single merge."""
    with suite.case("write", "a GPT trained here: exported as a GGUF file, continued by both"):
        folder = suite.folder / "trained"
        folder.mkdir()
        (folder / "corpus.txt").write_text("the cat sat on the mat. " * 200)
        (folder / "run.toml").write_text(TRAINED)
        suite.ballast.run("train", folder / "run.toml", "--quiet")
        suite.ballast.run("checkpoints", "export", folder / "run", "latest", folder / "cats.gguf")
        said = suite.ballast.run("generate", folder / "gpt/cats.gptrs", "--prompt", "the cat ", "--greedy", "--max-tokens", STEPS, "--json")
        ours = json.loads(said.stdout)
        theirs = llama_cpp(folder / "cats.gguf", ours["prompt_tokens"])
        require(ours["tokens"] == theirs, f"the trained model goes on with {ours['tokens']}, llama.cpp with {theirs}")


def run(suite, folder):
    tested = sorted(path.with_suffix("") for path in folder.glob("*.gguf.inp"))
    with suite.case("read", f"{len(tested)} vocabularies have tests of their own"):
        require(len(tested) >= 15, "some are missing")
    for path in tested:
        own_tests(suite, path)
        if path.stem not in NOT_WRITTEN:
            written_tokenizer(suite, path)
    recorded_texts(suite, folder)
    converted_models(suite)
    trained_model(suite)
