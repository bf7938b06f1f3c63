"""Ctrl-C, progress, logging, files from elsewhere, threads, and the end of the interpreter."""

from __future__ import annotations

import hashlib
import io
import logging
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import ballast
from conftest import ROOT


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=120)


def test_importing_imports_nothing_large(here: Path) -> None:
    """bench/python.py measures the time that this saves."""
    code = "import sys, ballast; print([name for name in ('numpy', 'ml_dtypes', 'torch', 'jax', 'asyncio') if name in sys.modules])"
    assert run(code, here).stdout == "[]\n"


# Each is one long call, or calls without end of what is short by nature: `load` reads no weights yet.
LONG_WORK = {
    "load": "while True: ballast.load(sys.argv[1]).close()",
    "generate": "model = ballast.load(sys.argv[1])\nready()\nwhile True: model.generate('It is a truth', max_tokens=240).text",
    "stream": "model = ballast.load(sys.argv[1])\nready()\nwhile True:\n  for piece in model.generate('It', max_tokens=240): pass",
    "embed": "model = ballast.load('encoder')\nready()\nmodel.embed(['the ship sails at dawn'] * 1_000_000)",
    "convert": "ready()\nballast.convert('a.npz', 'b.npz', compress=True, threads=1)",
    "save": "arrays = ballast.open('a.npz').arrays()\nready()\nwhile True: ballast.save('b.npz', arrays, compress=True)",
    "hash": "ready()\nwhile True: ballast.hash('a.npz', sha256=True, threads=1)",
    "quantize": "ready()\nwhile True: ballast.quantize('a.npz', 'b.gguf', 'q4_k', overwrite=True, threads=1)",
    "train": "ready()\nballast.train(sys.argv[2], overrides={'train.steps': 10**9})",
    "encode": "t = ballast.Tokenizer(sys.argv[1])\nready()\nwhile True: t.encode_batch(['It is a truth'] * 1000, threads=1)",
    "batch": "import ballast.batch\nready()\nwhile True: ballast.batch.generate(['It is'] * 50, sys.argv[1], max_tokens=200)",
}
INTERRUPTED = """
import sys, ballast
def ready(): print("ready", flush=True)
try:
    {}
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def interrupt(work: str, folder: Path) -> None:
    code = INTERRUPTED.format(LONG_WORK[work].replace("\n", "\n    "))
    if "ready()" not in LONG_WORK[work]:
        code = code.replace("try:", "ready()\ntry:")
    words = [sys.executable, "-c", code, ROOT / "models/default", ROOT / "models/digits/train.toml"]
    with subprocess.Popen(list(map(str, words)), cwd=folder, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "interrupted\n"
        assert child.wait(60) == 0


@pytest.mark.parametrize("work", LONG_WORK)
def test_ctrl_c_ends_long_work(work: str, here: Path, encoder: Path) -> None:
    (here / "encoder").symlink_to(encoder)
    ballast.save("a.npz", {f"t{i}": np.random.default_rng(i).random((1024, 1024), np.float32) for i in range(24)}, sync=False)
    interrupt(work, here)
    assert {path.name for path in here.iterdir()} <= {"a.npz", "encoder", "b.npz", "b.gguf"}, "no half-written file is left"


def test_a_handler_of_signals_may_go_on(here: Path) -> None:
    """What a handler does not raise does not end the work."""
    code = """
import os, signal, threading, ballast, sys
heard = []
signal.signal(signal.SIGUSR1, lambda *_: heard.append(1))
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
model = ballast.load(sys.argv[1])
expected = model.generate("It is a truth", max_tokens=20).text
while not heard:
    assert model.generate("It is a truth", max_tokens=20).text == expected
print("heard")
"""
    done = subprocess.run([sys.executable, "-c", code, str(ROOT / "models/default")], capture_output=True, text=True, timeout=60)
    assert done.stdout == "heard\n", done.stderr


# ---------------------------------------------------------------- progress


def test_tqdm_draws_a_bar_where_it_is_installed(here: Path) -> None:
    pytest.importorskip("tqdm")
    ballast.save("a.npz", {"a": np.zeros(1 << 20, np.float32)}, sync=False)
    done = run("import ballast; ballast.hash('a.npz', progress=True)", here)
    assert done.returncode == 0 and "%|" in done.stderr and "100%" in done.stderr, done.stderr


def test_without_tqdm_the_work_is_done_in_silence(here: Path) -> None:
    ballast.save("a.npz", {"a": np.zeros(1 << 20, np.float32)}, sync=False)
    done = run("import sys; sys.modules['tqdm'] = None; import ballast; print(len(ballast.hash('a.npz', progress=True).digest))", here)
    assert done.returncode == 0 and int(done.stdout) > 10 and done.stderr == ""


# ---------------------------------------------------------------- logging


def test_loggers_are_called_after_the_package(here: Path, caplog: pytest.LogCaptureFixture) -> None:
    with ballast.open(ROOT / "models/default/model.gptrs") as file:
        ballast.save("model.gptrs", {**file, "spare": np.zeros(3, np.float32)}, config=file.config, metadata=file.metadata)
    with caplog.at_level(logging.INFO, logger="ballast"):
        ballast.load("model.gptrs").close()
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("ballast.models", "INFO")
    assert record.getMessage() == "model.gptrs: the model does not use 1 tensors of the file, among them spare"


def test_nothing_is_printed_unless_someone_listens(here: Path) -> None:
    done = run(f"import ballast; ballast.load({str(ROOT / 'models/default')!r}).generate('It', max_tokens=2).text", here)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# ---------------------------------------------------------------- where files come from


def test_fsspec_in_memory(here: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    with fsspec.open("memory://folder/a.safetensors", "wb") as target:
        ballast.save(target, {"a": array}, format="safetensors", metadata={"k": "v"})
    with fsspec.open("memory://folder/a.safetensors", "rb") as source, ballast.open(source) as file:
        assert file.metadata == {"k": "v"} and (file["a"].numpy() == array).all() and file["a"][1, 2:].tolist() == [6, 7]
    with ballast.open("memory://folder/a.safetensors") as file:
        assert (file["a"].numpy() == array).all()
    with pytest.raises(FileNotFoundError):
        ballast.open("memory://folder/missing.safetensors")


@pytest.mark.parametrize("cached", [False, True])
def test_fsspec_of_local_files(here: Path, cached: bool) -> None:
    fsspec = pytest.importorskip("fsspec")
    ballast.save("a.npz", {"a": np.arange(5)})
    url = f"{'simplecache::' if cached else ''}file://{here}/a.npz"
    options = {"simplecache": {"cache_storage": str(here / "cache")}} if cached else {}
    with fsspec.open(url, "rb", **options) as source, ballast.open(source) as file:
        assert file["a"].numpy().tolist() == [0, 1, 2, 3, 4]


@pytest.fixture
def hub(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache as huggingface_hub makes it: content by its digest, snapshots of links to it, and names of revisions."""
    folder = here / "hub" / "models--org--tiny"
    (folder / "blobs").mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("c0ffee")
    snapshot = folder / "snapshots" / "c0ffee"
    snapshot.mkdir(parents=True)
    for name in ("model.gptrs", "tokenizer.json"):
        content = (ROOT / "models/default" / name).read_bytes()
        blob = hashlib.sha256(content).hexdigest()
        (folder / "blobs" / blob).write_bytes(content)
        (snapshot / name).symlink_to(Path("../../blobs") / blob)
    monkeypatch.setenv("HF_HUB_CACHE", str(here / "hub"))
    return snapshot


def test_models_of_huggingface_hub_are_found_in_its_cache(hub: Path) -> None:
    with ballast.load(ROOT / "models/default") as model:
        expected = model.generate("It is", max_tokens=4).text
    for name in ("org/tiny", "org/tiny@main", "org/tiny@c0ffee"):
        with ballast.load(name) as model:
            assert model.path == str(hub) and model.generate("It is", max_tokens=4).text == expected
        assert ballast.Tokenizer(name).encode("It is").ids == ballast.Tokenizer(ROOT / "models/default").encode("It is").ids
        with ballast.open(name) as file:
            assert len(file) > 10
        assert ballast.verify(name).sound
    from ballast.transformers import AutoModelForCausalLM, AutoTokenizer

    assert AutoTokenizer.from_pretrained("org/tiny").vocab_size == 1024
    AutoModelForCausalLM.from_pretrained("org/tiny")
    for wrong in ("org/other", "org/tiny@other", "org/../../etc"):
        with pytest.raises((FileNotFoundError, ValueError)):
            ballast.load(wrong)


def test_the_package_finds_the_same_snapshot(hub: Path) -> None:
    package = pytest.importorskip("huggingface_hub")
    found = package.try_to_load_from_cache("org/tiny", "tokenizer.json", cache_dir=hub.parents[2])
    assert Path(found) == hub / "tokenizer.json"


def test_a_path_wins_over_the_cache(hub: Path, here: Path) -> None:
    (here / "org").mkdir()
    (here / "org" / "tiny").symlink_to(ROOT / "models/default")
    with ballast.load("org/tiny") as model:
        assert model.path == "org/tiny"


# ---------------------------------------------------------------- threads


def test_other_threads_run_meanwhile(here: Path) -> None:
    ballast.save("a.npz", {f"t{i}": np.zeros(1 << 20, np.float32) for i in range(32)}, sync=False)
    ticks = 0
    done = threading.Event()

    def count() -> None:
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    ballast.hash("a.npz", sha256=True, threads=1)
    done.set()
    thread.join()
    assert ticks > 5


def test_the_interpreter_may_end_with_everything_open(here: Path) -> None:
    ballast.save("a.npz", {"a": np.ones(4)})
    code = """
import io, threading, ballast
file = ballast.open("a.npz"); array = file["a"].numpy(); tensor = file["a"]
other = ballast.open(io.BytesIO(open("a.npz", "rb").read())); part = other["a"]
def work():
    while True: ballast.hash("a.npz")
threading.Thread(target=work, daemon=True).start()
"""
    done = run(code, here)
    assert done.returncode == 0 and done.stderr == ""


def test_a_file_that_is_truncated_meanwhile_is_an_error(here: Path) -> None:
    ballast.save("a.safetensors", {"a": np.ones(1 << 20)})
    for mode in ("r", "read"):
        with ballast.open("a.safetensors", mode=mode) as file:
            content = Path("a.safetensors").read_bytes()
            with open("a.safetensors", "r+b") as other:
                other.truncate(4096)
            with pytest.raises(OSError, match="truncated"):
                file["a"].numpy()
            Path("a.safetensors").write_bytes(content)


def test_threads_may_share_an_archive_that_another_closes(here: Path) -> None:
    """Each use gives what is there, or says that it is closed."""
    ballast.save("a.npz", {f"t{i}": np.full(500, i) for i in range(20)}, compress=True)
    for mode in ("r", "read"):
        for _ in range(20):
            file = ballast.open("a.npz", mode=mode)
            gate = threading.Barrier(5)

            def use(number: int) -> int:
                gate.wait()
                count = 0
                try:
                    for i in range(20):
                        assert (file[f"t{i}"].numpy() == i).all()
                        count += 1
                    file.arrays(copy=True)
                except ValueError as error:
                    assert "closed" in str(error)
                return count

            def close() -> None:
                gate.wait()
                file.close()

            with ThreadPoolExecutor(5) as pool:
                counts = [pool.submit(use, number) for number in range(4)]
                pool.submit(close).result()
                assert all(0 <= count.result() <= 20 for count in counts)


def test_threads_may_share_a_file_object(here: Path) -> None:
    """It has one position; reads take turns."""
    ballast.save("a.safetensors", {f"t{i}": np.full(3000, i, np.float32) for i in range(30)})
    with open("a.safetensors", "rb") as source:
        file = ballast.open(io.BytesIO(source.read()))

    def use(seed: int) -> None:
        for i in np.random.default_rng(seed).permutation(30):
            assert (file[f"t{i}"].numpy() == i).all() and file[f"t{i}"][7] == i

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(use, range(12)))


def test_threads_may_run_different_tools_at_once(here: Path) -> None:
    ballast.save("a.npz", {"a": np.random.default_rng(0).random((64, 256), np.float32)})
    alone = ballast.hash("a.npz").digest

    def work(number: int) -> None:
        ballast.convert("a.npz", f"{number}.safetensors", sync=False)
        assert ballast.hash(f"{number}.safetensors").digest == alone
        assert ballast.diff("a.npz", f"{number}.safetensors").equal
        assert ballast.quantize("a.npz", f"{number}.gguf", "q8_0").bytes_after == 17408
        assert ballast.verify(f"{number}.gguf").sound and ballast.stats(f"{number}.gguf")["a"].numbers.count == 16384

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(18)))


def test_threads_may_import_at_once() -> None:
    code = """
import threading
gate = threading.Barrier(8)
def use():
    gate.wait()
    import ballast
    names.append(len([getattr(ballast, name) for name in ("open", "load", "Tokenizer", "train", "batch", "gguf")]))
names = []
threads = [threading.Thread(target=use) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(names == [6] * 8)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_threads_that_need_numpy_first_wait_for_each_other(here: Path) -> None:
    """Importing it lets other threads run, and one that waited with the GIL in its hands would stop them all."""
    ballast.save("a.npz", {"w": np.ones(1 << 20, np.float32)})  # large arrays are NumPy's own memory
    code = """
import sys, threading, time, ballast
class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            time.sleep(0.3)
sys.meta_path.insert(0, Slow())
archive, results = ballast.open("a.npz", mode="read"), []
threads = [threading.Thread(target=lambda: results.append(float(archive["w"].numpy().sum()))) for _ in range(8)]
assert "numpy" not in sys.modules
for thread in threads: thread.start()
for thread in threads: thread.join()
print(results == [float(1 << 20)] * 8)
"""
    child = run(code, here)
    assert child.stdout == "True\n", child.stderr
