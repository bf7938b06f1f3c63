"""ballast.ray on a cluster of two nodes on this machine, each with a worker."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ballast
import ballast.ray
from conftest import ROOT

MODEL = ROOT / "models/default"
ROWS: list[dict[str, Any]] = [{"id": number, "prompt": f"It is a truth number {number}"} for number in range(16)]
OPTIONS: dict[str, Any] = {"max_tokens": 6, "seed": 1}


def test_without_ray_the_error_says_what_to_install() -> None:
    code = """
import sys
sys.modules["ray"] = None
import ballast.ray
try:
    ballast.ray.generate(None, "model")
except ImportError as error:
    print(error)
"""
    told = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert told == 'ballast.ray needs Ray\'s datasets: pip install "ray[data]"\n'


@pytest.fixture(scope="module")
def ray() -> Any:
    module = pytest.importorskip("ray")
    pytest.importorskip("ray.data")
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        # Workers find what this process finds.
        patch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)]))
        node = {"num_cpus": 2, "resources": {"witness": 1}}
        cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
        cluster.add_node(**node)
        module.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        module.data.DataContext.get_current().enable_progress_bars = False
        try:
            yield module
        finally:
            module.shutdown()
            cluster.shutdown()


class Witness(ballast.ray.TextGenerator):
    """Writes down where it was opened, and computes only once both workers are there, so that both get rows."""

    def __init__(self, folder: str, **settings: Any) -> None:
        import ray

        self._folder = Path(folder)
        super().__init__(**settings)
        self._node = ray.get_runtime_context().get_node_id()
        (self._folder / f"{self._node}-{os.getpid()}-{time.monotonic_ns()}").touch()

    def __call__(self, rows: dict[str, Any]) -> dict[str, Any]:
        until = time.monotonic() + 600  # no machine is that slow: something is wrong with the cluster
        while len(list(self._folder.iterdir())) < 2:
            if time.monotonic() > until:
                raise TimeoutError("the other worker was never started")
            time.sleep(0.01)
        count = len(rows["prompt"])
        return {**super().__call__(rows), "node": np.array([self._node] * count), "pid": np.full(count, os.getpid())}


def test_two_workers_write_what_one_process_writes(ray: Any, tmp_path: Path) -> None:
    dataset = ray.data.from_items(ROWS, override_num_blocks=8)
    settings = {"model": str(MODEL), "column": "prompt", "output_column": "generated_text", "load_options": {}, "options": OPTIONS}
    rows = dataset.map_batches(
        Witness,
        fn_constructor_kwargs={"folder": str(tmp_path), **settings},
        batch_size=2,
        batch_format="numpy",
        compute=ray.data.ActorPoolStrategy(size=2),
        num_cpus=1,
        resources={"witness": 1},  # of which each node has one
    ).take_all()
    opened = [path.name for path in tmp_path.iterdir()]
    assert len(opened) == 2, "each worker opens the model once"
    assert len({name.split("-")[0] for name in opened}) == 2, "one on each node"
    assert {str(row["pid"]) for row in rows} == {name.split("-")[1] for name in opened}, "both compute"
    expected = ballast.batch.generate([row["prompt"] for row in ROWS], MODEL, **OPTIONS)
    assert {row["id"]: row["generated_text"] for row in rows} == dict(enumerate(expected))


def test_generate_adds_a_column(ray: Any, here: Path) -> None:
    (here / "model").symlink_to(MODEL)  # relative here, where the workers are not
    dataset = ray.data.from_items(ROWS, override_num_blocks=4)
    rows = ballast.ray.generate(dataset, "model", concurrency=2, batch_size=4, output_column="answer", **OPTIONS).take_all()
    expected = ballast.batch.generate([row["prompt"] for row in ROWS], MODEL, **OPTIONS)
    assert sorted(rows, key=lambda row: row["id"]) == [{**row, "answer": text} for row, text in zip(ROWS, expected)]


def test_a_range_of_workers_and_token_ids(ray: Any) -> None:
    ids = [ballast.Tokenizer(MODEL).encode(row["prompt"]).ids for row in ROWS[:4]]
    dataset = ray.data.from_items([{"id": number, "ids": one} for number, one in enumerate(ids)])
    rows = ballast.ray.generate(dataset, MODEL, column="ids", concurrency=(1, 2), **OPTIONS).take_all()
    expected = ballast.batch.generate(ids, MODEL, **OPTIONS)
    assert {row["id"]: row["generated_text"] for row in rows} == dict(enumerate(expected))


def test_embed_adds_a_column_of_vectors(ray: Any, encoder: Path) -> None:
    texts = ["the ship", "dawn", "the ship sails", "at dawn"]
    dataset = ray.data.from_items([{"id": n, "text": text} for n, text in enumerate(texts)], override_num_blocks=2)
    rows = sorted(ballast.ray.embed(dataset, encoder, concurrency=2).take_all(), key=lambda row: int(row["id"]))
    with ballast.load(encoder) as model:
        np.testing.assert_array_equal(np.stack([row["embedding"] for row in rows]), model.embed(texts))


@pytest.mark.parametrize(
    ("rows", "settings", "message"),
    [
        ([{"prompt": "fine"}, {"prompt": None}], {}, "row 1: a prompt must be a str or token ids, not NoneType"),
        ([{"prompt": "x " * 4000}], {}, "row 0 .*context"),
        ([{"text": "fine"}], {}, "the dataset has no column 'prompt'; it has 'text'"),
        ([{"prompt": "fine"}], {"temperature": -1.0}, "temperature"),
        ([{"prompt": "fine"}], {"model": "nowhere.gguf"}, "nowhere.gguf"),
    ],
)
def test_what_is_wrong_is_said(ray: Any, rows: Any, settings: dict[str, Any], message: str) -> None:
    dataset = ray.data.from_items(rows, override_num_blocks=1)
    arguments = {"model": MODEL, "concurrency": 1, **settings}
    with pytest.raises(Exception, match=message):
        ballast.ray.generate(dataset, arguments.pop("model"), **arguments).take_all()
