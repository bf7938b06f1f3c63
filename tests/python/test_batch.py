"""ballast.batch: the same results in this process, in threads, and in pools of processes, which open a model once each."""

from __future__ import annotations

import multiprocessing
import os
import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ballast
from ballast import batch
from conftest import ROOT

MODEL = str(ROOT / "models/default")
PROMPTS = [f"It is a truth {word}" for word in ("", "that", "which", "never", "of all", "she said")]
OPTIONS: dict[str, Any] = {"max_tokens": 8, "seed": 3}


@pytest.fixture(autouse=True)
def close_models() -> Any:
    yield
    batch.close_models()


def alone() -> list[str]:
    with ballast.load(MODEL) as model:
        return [model.generate(prompt, **OPTIONS).text for prompt in PROMPTS]


def chunks(rows: list[Any], size: int) -> list[list[Any]]:
    return [rows[begin : begin + size] for begin in range(0, len(rows), size)]


def generate_and_tell(prompts: list[str]) -> tuple[int, int, list[str]]:
    """Also the process, and the object that it keeps open."""
    texts = batch.generate(prompts, MODEL, load_options={"threads": 1}, **OPTIONS)
    return os.getpid(), id(batch.open_model(MODEL, {"threads": 1})), texts


def test_a_batch_writes_what_each_prompt_gets_alone() -> None:
    assert batch.generate(PROMPTS, MODEL, **OPTIONS) == alone()


def test_prompts_may_be_token_ids_of_any_kind() -> None:
    ids = ballast.Tokenizer(MODEL).encode(PROMPTS[0]).ids
    rows: list[Any] = [PROMPTS[0], ids, tuple(ids), np.array(ids)]
    assert len(set(batch.generate(rows, MODEL, **OPTIONS))) == 1


def test_no_prompts_are_no_texts(encoder: Path) -> None:
    assert batch.generate([], MODEL) == []
    assert batch.embed([], encoder).shape == (0, 48)


def test_threads_share_one_model() -> None:
    write = partial(batch.generate, model=MODEL, **OPTIONS)
    with ThreadPoolExecutor(3) as pool:
        texts = [text for part in pool.map(write, chunks(PROMPTS, 2)) for text in part]
    assert texts == alone()
    assert batch.open_model(MODEL).counters["submitted"] == len(PROMPTS)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_open_the_model_once_each(method: str) -> None:
    if method == "fork":
        batch.open_model(MODEL, {"threads": 1})  # one that the children inherit is of no use to them as it is
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method)) as pool:
        told = list(pool.map(generate_and_tell, chunks(PROMPTS * 2, 2)))
    assert [text for _, _, texts in told for text in texts] == alone() * 2
    processes = {process for process, _, _ in told}
    assert os.getpid() not in processes
    assert len({(process, model) for process, model, _ in told}) == len(processes)


def test_dask_runs_it(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    write = partial(batch.generate, model=MODEL, load_options={"threads": 1}, **OPTIONS)
    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "local_directory": str(tmp_path)}
    with distributed.LocalCluster(**settings) as cluster, distributed.Client(cluster) as client:
        texts = [text for part in client.gather(client.map(write, chunks(PROMPTS, 2))) for text in part]
    assert texts == alone()


def test_embeds_what_each_text_gets_alone(encoder: Path) -> None:
    texts = ["the ship", "dawn", "the ship sails at dawn"]
    with ballast.load(encoder) as model:
        expected = np.stack([model.embed(text) for text in texts])
    np.testing.assert_array_equal(batch.embed(texts, encoder), expected)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        np.testing.assert_array_equal(pool.submit(batch.embed, texts, str(encoder)).result(), expected)


def test_an_open_model_is_used_as_it_is() -> None:
    with ballast.load(MODEL) as model:
        assert batch.open_model(model) is model
        assert batch.generate(PROMPTS[:1], model, **OPTIONS) == alone()[:1]


def test_models_stay_open_and_the_oldest_goes() -> None:
    first = batch.open_model(MODEL, {"threads": 1})
    assert batch.open_model(MODEL, {"threads": 1}) is first
    assert batch.open_model(MODEL, {"threads": 2}) is not first
    for number in range(3, 6):
        batch.open_model(MODEL, {"threads": number})
    again = batch.open_model(MODEL, {"threads": 1})
    assert again is not first
    assert not first.closed, "whoever still has it can use it"
    batch.close_models()
    assert again.closed
    assert batch.open_model(MODEL, {"threads": 1}) is not again


def test_the_functions_can_be_pickled() -> None:
    for function in (batch.generate, batch.embed):
        assert pickle.loads(pickle.dumps(function)) is function


@pytest.mark.parametrize(
    ("prompts", "kind", "message"),
    [
        (["fine", None], TypeError, r"row 1: a prompt must be a str or token ids, not NoneType"),
        (["fine", "fine", 7.5], TypeError, r"row 2 \(7.5\): a prompt must be"),
        (["fine", [5000]], ValueError, r"row 1 \(\[5000\]\): .*5000"),
        (["fine", "too long " * 2000], ValueError, r"row 1 \('too long .*\): .*context"),
        (["\ud800"], ValueError, r"row 0 .*surrogates"),
    ],
)
def test_a_bad_row_is_named_and_the_others_cost_nothing_more(prompts: Any, kind: Any, message: str) -> None:
    with ballast.load(MODEL) as model:
        with pytest.raises(kind, match=message):
            batch.generate(prompts, model, max_tokens=200)
        model.generate("It", max_tokens=1).text  # a step, after which what was cancelled is gone
        assert model.counters["running"] == model.counters["waiting"] == 0


def test_a_bad_text_to_embed_is_named(encoder: Path) -> None:
    with pytest.raises(TypeError, match=r"row 1 \(3\): a text must be a str, not int"):
        batch.embed(["dawn", 3], encoder)  # type: ignore[list-item]


def test_a_model_that_is_not_there_is_an_os_error() -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        batch.generate(["a"], "nowhere.gguf")
