"""Objects that eight threads use at the same moment.

An interpreter without the GIL runs all of them at once, so that nothing here may rely on their taking turns. Everything
holds with the GIL, too.
"""

from __future__ import annotations

import gc
import io
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import ml_dtypes
import numpy as np
import pytest

import ballast
import ballast.training
from conftest import ROOT

DEFAULT = ROOT / "models" / "default"
PROMPT = "It is a truth"
THREADS = 8

T = TypeVar("T")


def together(work: Callable[[int], T]) -> list[T]:
    """What `work` gives to each of eight threads, none of which begins before all are there."""
    gate = threading.Barrier(THREADS)

    def begin(number: int) -> T:
        gate.wait()
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(begin, range(THREADS)))


def test_an_interpreter_without_the_gil_stays_so(here: Path) -> None:
    """One module that needs the GIL brings it back for all, with a warning."""
    code = """
import sys, sysconfig
import ballast, ml_dtypes, numpy
ballast.save("a.safetensors", {"a": numpy.ones(3, ml_dtypes.bfloat16)})
assert ballast.open("a.safetensors")["a"].numpy().dtype == ml_dtypes.bfloat16
has_gil = getattr(sys, "_is_gil_enabled", lambda: True)()
print(has_gil == (not sysconfig.get_config_var("Py_GIL_DISABLED")))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=here, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("True\n", "")


# ---------------------------------------------------------------- archives


@pytest.fixture
def arrays() -> dict[str, Any]:
    numbers = np.random.default_rng(7)
    made: dict[str, Any] = {f"t{i}": numbers.random((20, 30), np.float32) for i in range(16)}
    return {**made, "half": np.arange(64).astype(ml_dtypes.bfloat16).reshape(8, 8)}


def use_archive(file: Any, arrays: dict[str, Any], seed: int) -> None:
    for index in np.random.default_rng(seed).integers(0, 16, 60):
        name = f"t{index}"
        expected, tensor = arrays[name], file[name]
        np.testing.assert_array_equal(tensor.numpy(), expected)
        np.testing.assert_array_equal(tensor[3:9, ::2], expected[3:9, ::2])
        np.testing.assert_array_equal(np.from_dlpack(tensor), expected)
        assert (tensor.shape, tensor.dtype, tensor.name) == (expected.shape, expected.dtype, name)
        assert name in file and len(file) == 17 and file.metadata == {"step": "7"} and "17 tensors" in repr(file)
        assert file["half"].dtype == ml_dtypes.bfloat16
        with pytest.raises(KeyError):
            file["missing"]


@pytest.mark.parametrize("mode", ["r", "c", "read"])
def test_an_archive(here: Path, arrays: dict[str, Any], mode: str) -> None:
    ballast.save("a.safetensors", arrays, metadata={"step": "7"})
    with ballast.open("a.safetensors", mode=mode) as file:
        together(lambda number: use_archive(file, arrays, number))
        for copied in together(lambda _: file.arrays(copy=True, threads=2)):
            assert copied.keys() == arrays.keys()
            assert all((copied[name] == arrays[name]).all() for name in arrays)


def test_an_archive_of_a_file_object(here: Path, arrays: dict[str, Any]) -> None:
    ballast.save("a.safetensors", arrays, metadata={"step": "7"})
    with ballast.open(io.BytesIO(Path("a.safetensors").read_bytes())) as file:
        together(lambda number: use_archive(file, arrays, number))


def test_views_that_are_made_at_once_share_their_memory(here: Path) -> None:
    ballast.save("a.safetensors", {f"t{i}": np.full(4, i) for i in range(THREADS)})
    for _ in range(100):
        file = ballast.open("a.safetensors")
        views = together(lambda number: file[f"t{number}"].numpy())
        assert len({id(view.base) for view in views}) == 1
        assert [view[0] for view in views] == list(range(THREADS))


def test_an_archive_that_is_closed_meanwhile(here: Path) -> None:
    """While memory is collected, for which all threads pause: one that waits for a lock must not be waited for."""
    ballast.save("a.npz", {"a": np.ones(10)})
    for _ in range(30):
        file = ballast.open("a.npz")

        def use(number: int) -> int:
            refused = 0
            for turn in range(50):
                if number == 0 and turn == 10:
                    file.close()
                if number == 1 and turn % 10 == 0:
                    gc.collect(0)
                try:
                    assert file["a"].numpy().sum() == 10
                except ValueError as error:
                    assert "a.npz is closed" in str(error)
                    refused += 1
            return refused

        assert together(use)[0] == 40


def test_different_tools_and_files(here: Path, arrays: dict[str, Any]) -> None:
    ballast.save("a.safetensors", arrays)
    digest = ballast.hash("a.safetensors").digest

    def work(number: int) -> None:
        path = f"{number}.safetensors"
        ballast.convert("a.safetensors", path, sync=False, progress=lambda *_: None)
        assert ballast.hash(path).digest == digest and ballast.diff("a.safetensors", path).equal
        ballast.save(f"{number}.gguf", {"w": arrays["t0"].T}, sync=False)  # put in order on its way out
        np.testing.assert_array_equal(ballast.open(f"{number}.gguf")["w"].numpy(), arrays["t0"].T)
        with pytest.raises(ballast.FormatError):
            ballast.open(b"no archive")

    together(work)


# ---------------------------------------------------------------- models


def test_a_model_and_its_tokenizer() -> None:
    with ballast.load(DEFAULT) as model:
        alone = [model.generate(PROMPT, max_tokens=8, seed=seed).text for seed in range(THREADS)]
        ids = model.tokenizer.encode(PROMPT).ids
        logits = model.forward(ids)

        def use(seed: int) -> None:
            for _ in range(3):
                tokenizer = model.tokenizer
                assert tokenizer.encode(PROMPT).ids == ids and tokenizer.decode(ids) == PROMPT
                assert model.generate(PROMPT, max_tokens=8, seed=seed).text == alone[seed]
                np.testing.assert_array_equal(model.forward(ids), logits)
                assert model.counters["generated_tokens"] > 0 and not model.closed

        together(use)


def test_a_model_that_is_opened_by_its_first_use() -> None:
    """Its engine, its tokenizer and its text model are made when they are first needed."""
    with ballast.load(DEFAULT) as model:
        expected = model.generate(PROMPT, max_tokens=6, temperature=0).text
    for _ in range(5):
        with ballast.load(DEFAULT) as model:
            assert together(lambda _: model.generate(PROMPT, max_tokens=6, temperature=0).text) == [expected] * THREADS


def test_a_model_that_is_closed_meanwhile() -> None:
    for _ in range(5):
        model = ballast.load(DEFAULT)

        def use(number: int) -> int:
            written = 0
            try:
                for turn in range(20):
                    if number == 0 and turn == 2:
                        model.close()
                    written += len(model.generate(PROMPT, max_tokens=4, ignore_eos=True).text) > 0
            except ValueError as error:
                assert "closed" in str(error)
            return written

        assert together(use)[0] == 2 and model.closed


def test_a_text_is_whole_whoever_reads_it() -> None:
    with ballast.load(DEFAULT) as model:
        expected = model.generate(PROMPT, max_tokens=60, temperature=0).text
        for _ in range(5):
            generation = model.generate(PROMPT, max_tokens=60, temperature=0)
            assert together(lambda _: generation.text) == [expected] * THREADS
            assert generation.text_so_far == expected and len(generation.token_ids) == 60


def test_texts_of_a_list_that_changes_meanwhile() -> None:
    tokenizer = ballast.Tokenizer(DEFAULT)
    texts = [f"{PROMPT} {number}" for number in range(50)]
    expected = {tuple(tokenizer.encode(text).ids) for text in texts}

    def work(number: int) -> None:
        for turn in range(30):
            if number < 2:
                texts.insert(0, texts.pop())
            else:
                encodings = tokenizer.encode_batch(texts, threads=1 + turn % 2)
                assert 48 <= len(encodings) <= 50
                assert {tuple(encoding.ids) for encoding in encodings} <= expected
                assert all(len(encoding.offsets) == len(encoding.ids) for encoding in encodings[:3])

    together(work)


# ---------------------------------------------------------------- training


def test_one_of_several_errors_at_once_ends_the_run(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures are read by several threads of the library's, and each of them may raise."""
    for name in ("dark", "light"):
        (here / "data" / name).mkdir(parents=True)
        for number in range(16):
            (here / "data" / name / f"{number}.png").touch()

    def fail(path: str) -> Any:
        raise RuntimeError(f"no picture: {Path(path).suffix}")

    monkeypatch.setattr(ballast.training, "_read_picture", fail)
    config = {
        "model": {"kind": "mlp", "hidden": [8]},
        "data": {"kind": "images", "path": here / "data", "size": 8, "channels": 1},
        "train": {"steps": 1, "threads": THREADS},
    }
    for _ in range(30):
        with pytest.raises(RuntimeError, match="no picture: .png"):
            ballast.train(config)


def test_a_checkpoint_manager_that_is_closed_meanwhile(here: Path) -> None:
    weights = np.zeros(1000)
    for run in range(5):
        manager = ballast.CheckpointManager(f"run{run}", {"weights": weights}, keep_last=0, sync=False)

        def work(number: int) -> list[int]:
            saved: list[int] = []
            try:
                for turn in range(4):
                    if number == 0 and turn == 2:
                        manager.close()
                    step = 100 * number + turn
                    manager.save(step)
                    saved.append(step)
                    assert manager.wait() is not None and manager.latest() is not None
            except ValueError as error:
                assert "closed" in str(error)
            return saved

        saved = [step for steps in together(work) for step in steps]
        assert manager.closed and {0, 1} <= set(saved)
        with ballast.CheckpointManager(f"run{run}", {"weights": weights}, keep_last=0) as again:
            assert sorted(again.steps()) == sorted(saved)
