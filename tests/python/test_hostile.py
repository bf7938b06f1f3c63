"""Files that lie: an exception of the expected kind or the expected content, never a crash. So are calls that are wrong."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ballast
import entry_points
from conftest import ROOT

DATA = ROOT / "tests/data"
HOSTILE = DATA / "gguf/hostile"
CASES = json.loads((HOSTILE / "manifest.json").read_text())["cases"]
ATTACKS = json.loads((DATA / "torch_files/attacks/index.json").read_text())

Rows = dict[str, dict[str, dict[str, Any]]]


@functools.cache
def outcomes(folder: str, pattern: str = "*", entries: str = "") -> Rows:
    """What each entry point makes of each file: {file: {entry: row}}. Fails where the interpreter did not survive."""
    files = sorted(str(path) for path in (DATA / folder).rglob(pattern) if path.is_file())
    names = entries or ",".join(entry_points.available())
    words = [sys.executable, "-X", "faulthandler", entry_points.__file__, names, *files]
    done = subprocess.run(words, capture_output=True, text=True, timeout=900)
    rows: Rows = {}
    lines = done.stdout.splitlines()
    for line in lines:
        row = json.loads(line)
        rows.setdefault(row["file"], {})[row["entry"]] = row
    assert done.returncode == 0, f"crashed behind {lines[-1] if lines else 'nothing'}\n{done.stderr[-3000:]}"
    return rows


def raised(row: dict[str, Any]) -> str | None:
    return row.get("raised")


# ---------------------------------------------------------------- GGUF

# Every tensor of these can be found; only readers that go by running sums must refuse them.
SOUND = {"offset_reordered", "offset_gap"}
# Tokenizers of these mean something: numbers of another type than usual are read as what they are, and an id outside of
# the vocabulary is left out.
TOKENIZES = {"tok_scores_int8", "tok_types_f32", "tok_bos_outside"}


def cases(*levels: str) -> list[Any]:
    return [pytest.param(case, id=case["name"]) for case in CASES if case["level"] in levels]


@pytest.mark.parametrize("case", cases("container", "data", "set"))
def test_gguf_containers_that_lie(case: dict[str, Any]) -> None:
    rows = outcomes("gguf/hostile", "*.gguf")[case["files"][0]]
    if case["name"] in SOUND:
        assert rows["open"]["value"] == rows["open_bytes"]["value"] == rows["open_object"]["value"]
        return
    for entry in ("open", "open_bytes", "open_object", "load", "tokenizer", "gguf", "llama", "transformers", "convert", "stats"):
        assert raised(rows[entry]) == "FormatError", rows[entry]
        assert len(rows[entry]["message"]) > 20, "it says something"
    assert rows["doctor"]["value"] in ("damaged", "foreign", "unknown")


@pytest.mark.parametrize("name", sorted(SOUND))
def test_gguf_tensors_in_another_order_are_found(name: str) -> None:
    """By the offsets that the file gives: the bytes there are those that come back."""
    content = (HOSTILE / f"{name}.gguf").read_bytes()
    with ballast.open(HOSTILE / f"{name}.gguf") as file:
        assert len(file) == 2
        offsets = {tensor.offset for tensor in file.values()}
        assert len(offsets) == 2 and None not in offsets
        for tensor in file.values():
            assert tensor.offset is not None
            assert tensor.raw().tobytes() == content[tensor.offset : tensor.offset + tensor.nbytes]


@pytest.mark.parametrize("case", cases("tokenizer"))
def test_gguf_tokenizers_that_lie(case: dict[str, Any]) -> None:
    rows = outcomes("gguf/hostile", "*.gguf")[case["files"][0]]
    assert "value" in rows["open"], "the container is sound"
    if case["name"] in TOKENIZES:
        assert rows["tokenizer"]["value"] == [1, 3, 6]
    else:
        assert raised(rows["tokenizer"]) == "FormatError"
    assert raised(rows["load"]) == "ValueError"


@pytest.mark.parametrize("case", cases("model"))
def test_gguf_models_that_lie(case: dict[str, Any]) -> None:
    rows = outcomes("gguf/hostile", "*.gguf")[case["files"][0]]
    assert "value" in rows["open"], "the container is sound"
    expected = "FormatError" if case["name"] == "model_arch_unknown" else "ValueError"
    for entry in ("load", "llama", "transformers"):
        assert raised(rows[entry]) == expected, rows[entry]


def test_the_corpus_of_gguf_is_complete() -> None:
    assert len(CASES) == 117
    assert {file for case in CASES for file in case["files"]} == set(outcomes("gguf/hostile", "*.gguf"))


# ---------------------------------------------------------------- PyTorch

TORCH_CONTENT = {"w": hashlib.sha256(np.arange(6, dtype=np.float32).tobytes()).hexdigest()}
READ_ALL_THE_SAME = {"pickle_frame_cuts_opcode.pt"}


@pytest.mark.parametrize("row", ATTACKS, ids=lambda row: row["file"])
def test_pickles_that_attack(row: dict[str, Any]) -> None:
    rows = outcomes("torch_files/attacks", "*.pt")[row["file"]]
    read = row["expect"] != "refuse" or row["file"] in READ_ALL_THE_SAME
    for entry in ("open", "open_bytes", "open_object"):
        if read:
            assert list(rows[entry]["value"].values()) == list(TORCH_CONTENT.values())
        else:
            assert raised(rows[entry]) == "FormatError", rows[entry]
    if "torch" in rows:
        assert raised(rows["torch"]) == ("FormatError" if row["expect"] == "refuse" else None)
    for entry in ("load", "tokenizer", "gguf", "llama", "transformers"):
        assert "ValueError" in rows[entry]["families"] or "OSError" in rows[entry]["families"], rows[entry]


# ---------------------------------------------------------------- tokenizers and templates

# Those that Hugging Face's package takes and that mean something.
TAKEN = {
    "tok_added_id_clash", "tok_added_id_far", "tok_id_duplicate", "tok_regex_empty", "tok_regex_redos",
    "tok_replace_empty", "tok_unigram_empty_piece", "tok_unk_missing",
}  # fmt: skip


@pytest.mark.parametrize("path", sorted((DATA / "tokenizers/attacks").iterdir()), ids=lambda path: path.stem)
def test_tokenizers_that_lie(path: Path) -> None:
    row = outcomes("tokenizers/attacks", "*.json", "tokenizer,load,open")[path.name]["tokenizer"]
    if path.stem == "tok_unk_missing":
        assert raised(row) == "ValueError", "it opens, and has no token for an unknown word"
    elif path.stem in TAKEN:
        assert row["value"] and all(isinstance(id, int) for id in row["value"])
    else:
        assert raised(row) == "FormatError"
        assert path.stem in row["message"]


@pytest.mark.parametrize("path", sorted((DATA / "templates/attacks").iterdir()), ids=lambda path: path.stem)
def test_templates_that_attack(path: Path) -> None:
    tokenizer = ballast.Tokenizer(ROOT / "models/default")
    if path.stem == "globals_walk":
        assert tokenizer.apply_chat_template([], chat_template=path.read_text()) == ""
        return
    with pytest.raises(ValueError, match="chat template, line 1: "):
        tokenizer.apply_chat_template([], chat_template=path.read_text())


# ---------------------------------------------------------------- files that are sound, read by everything

NPZ = json.loads((DATA / "npz/expected.json").read_text())


def numpy_digests(name: str) -> list[str]:
    """As recorded, or as NumPy reads it here."""
    if name in NPZ:
        return [array["sha256"] for array in NPZ[name]]
    with np.load(DATA / "npz" / name) as arrays:
        native = [array.astype(array.dtype.newbyteorder("=")) for array in arrays.values()]
        return [hashlib.sha256(array.tobytes()).hexdigest() for array in native]


@pytest.mark.parametrize("name", sorted(path.name for path in (DATA / "npz").glob("*.np[yz]")))
def test_arrays_of_numpy(name: str) -> None:
    rows = outcomes("npz", "*.np[yz]")[name]
    for entry in ("open", "open_bytes", "open_object"):
        if name.startswith("objects."):
            assert raised(rows[entry]) == "FormatError"
        else:
            assert list(rows[entry]["value"].values()) == numpy_digests(name), entry


@pytest.mark.parametrize("folder", ["burnpack", "netcl", "safetensors", "sentencepiece"])
def test_files_of_other_kinds_are_answered_by_every_entry_point(folder: str) -> None:
    for rows in outcomes(folder).values():
        for row in rows.values():
            known = {"ValueError", "OSError", "KeyError", "MemoryError", "SafetensorError"}
            assert "value" in row or known & set(row["families"]), row


@pytest.mark.parametrize("name", ["a.safetensors", "a.npz", "a.gguf", "a.bpk"])
def test_a_file_that_was_cut_is_an_exception(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    ballast.save(path, {"w": np.ones((3, 50), np.float32), "v": np.zeros(20, np.float32)})
    content = path.read_bytes()
    for length in range(0, len(content) - 64, 7):  # the last bytes may be padding
        with pytest.raises((ValueError, OSError)):
            ballast.open(content[:length]).arrays(copy=True)


# ---------------------------------------------------------------- calls that are wrong


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network of four inputs and one output."""
    folder = tmp_path_factory.mktemp("line")
    np.savez(folder / "line.npz", x=np.ones((4, 4), np.float32), y=np.ones((4, 1), np.float32))
    ballast.train({
        "model": {"kind": "mlp", "hidden": []},
        "data": {"kind": "npz", "path": folder / "line.npz"},
        "train": {"steps": 1, "output": folder / "line.netcl", "threads": 1},
    })  # fmt: skip
    return folder / "line.netcl"


def test_arrays_of_any_layout_are_computed_with(line: Path) -> None:
    values = np.arange(24, dtype=np.float32).reshape(6, 4)
    read_only = values.copy()
    read_only.flags.writeable = False
    with ballast.load(line) as model:
        expected = model.forward(values)
        assert expected.shape == (6, 1)
        others = {
            "Fortran's order": np.asfortranarray(values),
            "every second row": np.repeat(values, 2, axis=0)[::2],
            "backwards": values[::-1, ::-1].copy()[::-1, ::-1],
            "read-only": read_only,
            "float64": values.astype(np.float64),
            "integers": values.astype(np.int16),
            "big-endian": values.astype(">f4"),
            "nested lists": values.tolist(),
        }
        assert model.forward(values[:0]).shape == (0, 1)
        for what, array in others.items():
            np.testing.assert_array_equal(model.forward(array), expected, err_msg=what)


@pytest.mark.parametrize(
    ("array", "kinds"),
    [
        (np.ones((2, 3), np.float32), ValueError),
        (np.ones((2,) * 12, np.float32), ValueError),
        (np.array(["text"]), ValueError),
        (np.array([object()]), (TypeError, ValueError)),
        (None, (TypeError, ValueError)),
        ([[1.0], [1.0, 2.0]], ValueError),
        (np.broadcast_to(np.float32(1), (1 << 44, 4)), MemoryError),
    ],
    ids=["width", "rank", "text", "objects", "none", "ragged", "huge"],
)
def test_arrays_that_do_not_fit_are_refused(line: Path, array: Any, kinds: Any) -> None:
    with ballast.load(line) as model, pytest.raises(kinds):
        model.forward(array)


def test_a_huge_array_that_takes_no_memory_is_not_saved(here: Path) -> None:
    huge = np.broadcast_to(np.float32(1), (1 << 50,))
    with pytest.raises((MemoryError, OSError)):
        ballast.save("a.safetensors", {"a": huge})
    assert not list(here.iterdir())


def test_everything_of_a_closed_archive_is_an_error(here: Path) -> None:
    ballast.save("a.npz", {"a": np.ones(3)})
    file = ballast.open("a.npz")
    tensor, names = file["a"], iter(file)
    file.close()
    file.close()
    uses: dict[str, Any] = {
        "tensor": lambda: file["a"], "len": lambda: len(file), "iter": lambda: list(file), "arrays": file.arrays,
        "metadata": lambda: file.metadata, "format": lambda: file.format, "with": file.__enter__, "in": lambda: "a" in file,
        "numpy": tensor.numpy, "slice": lambda: tensor[0], "shape": lambda: tensor.shape, "dlpack": tensor.__dlpack__,
        "array": lambda: np.asarray(tensor), "save": lambda: ballast.save("b.npz", {"a": tensor}),
        "stats": lambda: ballast.stats(file), "hash": lambda: ballast.hash(file), "diff": lambda: ballast.diff(file, "a.npz"),
    }  # fmt: skip
    for what, use in uses.items():
        with pytest.raises(ValueError, match="closed"):
            use()
            pytest.fail(what)
    assert list(names) == ["a"], "names were taken before"
    assert "closed" in repr(file) and "closed" in repr(tensor)


class Mistake(Exception):
    pass


def test_what_a_progress_callback_raises_comes_out_and_nothing_is_left(here: Path) -> None:
    ballast.save("a.npz", {"a": np.ones((64, 256), np.float32)})

    def fail(*_: Any) -> None:
        raise Mistake("on purpose")

    works: dict[str, Any] = {
        "save": lambda: ballast.save("b.npz", {"a": np.ones(100)}, progress=fail),
        "convert": lambda: ballast.convert("a.npz", "b.safetensors", progress=fail),
        "quantize": lambda: ballast.quantize("a.npz", "b.gguf", "q8_0", progress=fail),
        "hash": lambda: ballast.hash("a.npz", progress=fail),
        "stats": lambda: ballast.stats("a.npz", progress=fail),
        "diff": lambda: ballast.diff("a.npz", "a.npz", progress=fail),
        "verify": lambda: ballast.verify("a.npz", content=True, progress=fail),
        "arrays": lambda: ballast.open("a.npz").arrays(copy=True, progress=fail),
    }
    for what, work in works.items():
        with pytest.raises(Mistake, match="on purpose"):
            work()
            pytest.fail(what)
    assert os.listdir() == ["a.npz"]


# ---------------------------------------------------------------- the end of the interpreter

BEGIN = """
import sys, threading, ballast, numpy as np
model_path, config = sys.argv[1], sys.argv[2]
started = threading.Barrier(4)
def forever(work):
    work()
    started.wait()
    while True:
        work()
def run(work):
    for _ in range(3):
        threading.Thread(target=forever, args=(work,), daemon=True).start()
    started.wait()
"""
WORKS = {
    "generating": "model = ballast.load(model_path)\nrun(lambda: model.generate('It is a truth', max_tokens=20).text)",
    "streaming": "model = ballast.load(model_path)\nrun(lambda: [None for _ in model.generate('It', max_tokens=9).tokens()])",
    "tokenizing": "t = ballast.Tokenizer(model_path)\nrun(lambda: t.encode_batch(['It is a truth'] * 50)[0].offsets)",
    "loading": "def work():\n  with ballast.load(model_path) as m: m.forward([1, 2])\nrun(work)",
    "opening": "def work():\n  with ballast.open('a.npz') as f: f['a'].numpy(); f['a'][1:3]; f.arrays(copy=True)\nrun(work)",
    "reading": "import io\nb = open('a.npz', 'rb').read()\nrun(lambda: ballast.open(io.BytesIO(b)).arrays(copy=True))",
    "hashing": "run(lambda: ballast.hash('a.npz', sha256=True))",
    "listening": "run(lambda: ballast.hash('a.npz', progress=lambda *_: None))",
    "saving": "run(lambda: ballast.save(f'{threading.get_ident()}.npz', {'a': np.ones(5000)}, sync=False))",
    "training": "run(lambda: ballast.train(config, lambda event: None, overrides={'train.steps': 3}))",
}


@pytest.mark.parametrize("what", WORKS)
def test_the_interpreter_may_end_while_daemon_threads_are_busy(what: str, here: Path) -> None:
    """Five times each, fifty in all."""
    ballast.save("a.npz", {"a": np.ones(20000)})
    words = [sys.executable, "-X", "faulthandler", "-c", BEGIN + WORKS[what], ROOT / "models/default", ROOT / "models/digits/train.toml"]
    for _ in range(5):
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, cwd=here, timeout=120)
        assert (done.returncode, done.stderr) == (0, "")


def test_handlers_of_atexit_may_still_work(here: Path) -> None:
    """Also those that were registered before the module was imported, and so run after its own."""
    code = """
import atexit, sys
def last():
    ballast.save("last.npz", {"a": np.ones(3)})
    print(ballast.open("last.npz")["a"].shape, len(model.generate("It is", max_tokens=2).token_ids) >= 0)
atexit.register(last)
import ballast, numpy as np
model = ballast.load(sys.argv[1])
"""
    words = [sys.executable, "-X", "faulthandler", "-c", code, str(ROOT / "models/default")]
    done = subprocess.run(words, capture_output=True, text=True, cwd=here, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "(3,) True\n", "")


# ---------------------------------------------------------------- fork

FORK = """
import io, os, sys, threading, ballast, numpy as np
model = ballast.load(sys.argv[1])
expected = model.generate("It is a truth", max_tokens=6).text
mapped, read = ballast.open("a.npz"), ballast.open("a.npz", mode="read")
memory = ballast.open(io.BytesIO(open("a.npz", "rb").read()))
tokenizer = model.tokenizer
ids = tokenizer.encode("It is").ids
def busy():
    while True:
        model.generate("She was", max_tokens=20).text
        read["a"].numpy(); tokenizer.encode_batch(["a b"] * 20)
for _ in range(2):
    threading.Thread(target=busy, daemon=True).start()
for _ in range(8):
    child = os.fork()
    if child == 0:
        for file in (mapped, read, memory):
            assert (file["a"].numpy() == np.arange(1000)).all() and file["a"][5] == 5
            file.close()
        assert tokenizer.encode("It is").ids == ids
        assert tokenizer.encode_batch(["It is"] * 8)[7].ids == ids
        assert model.generate("It is a truth", max_tokens=6).text == expected
        model.close()
        sys.exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, status
assert (mapped["a"].numpy() == np.arange(1000)).all()
print("done")
"""


def test_a_process_may_fork_with_everything_open_and_busy(here: Path) -> None:
    ballast.save("a.npz", {"a": np.arange(1000)})
    words = [sys.executable, "-X", "faulthandler", "-W", "ignore", "-c", FORK, str(ROOT / "models/default")]
    with subprocess.Popen(words, cwd=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True) as child:
        try:
            told, errors = child.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGABRT)  # faulthandler says where each process hung
            told, errors = child.communicate()
    assert (child.returncode, told) == (0, "done\n"), errors
