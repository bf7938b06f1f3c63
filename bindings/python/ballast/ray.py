"""Batch generation and embedding over a Ray dataset. Ray moves the rows and starts the workers; each opens the model once.

>>> import ray
>>> rows = ray.data.from_items([{"prompt": "It is a truth"}, {"prompt": "She was"}])     # doctest: +SKIP
>>> generate(rows, "models/default", max_tokens=8).take_all()                            # doctest: +SKIP
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from typing import Any, Union

from ballast import batch
from ballast._inputs import PathLike
from ballast.models import load

__all__ = ["TextEmbedder", "TextGenerator", "embed", "generate"]

# Workers: a number of them, or as many as there is work for between (fewest, most).
Concurrency = Union[int, "tuple[int, int]"]
Batch = dict[str, Any]


class TextGenerator:
    """What a worker of :func:`generate` runs: a callable class for ``Dataset.map_batches``."""

    def __init__(
        self, model: str, column: str, output_column: str, load_options: Mapping[str, Any], options: Mapping[str, Any]
    ) -> None:
        self._model = load(model, **_with_threads(load_options))
        self._column = column
        self._output_column = output_column
        self._options = dict(options)

    def __call__(self, rows: Batch) -> Batch:
        import numpy

        texts = batch.generate(_column_of(rows, self._column), self._model, **self._options)
        return {**rows, self._output_column: numpy.array(texts, dtype=object)}


class TextEmbedder:
    """What a worker of :func:`embed` runs: a callable class for ``Dataset.map_batches``."""

    def __init__(self, model: str, column: str, output_column: str, load_options: Mapping[str, Any]) -> None:
        self._model = load(model, **_with_threads(load_options))
        self._column = column
        self._output_column = output_column

    def __call__(self, rows: Batch) -> Batch:
        return {**rows, self._output_column: batch.embed(_column_of(rows, self._column), self._model)}


def generate(
    dataset: Any,
    model: PathLike,
    *,
    column: str = "prompt",
    output_column: str = "generated_text",
    concurrency: Concurrency = 2,
    batch_size: int = 256,
    num_cpus: float = 1,
    load_options: Mapping[str, Any] | None = None,
    ray_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> Any:
    """Continues the prompts of a Ray dataset; gives the dataset with a column more, computed when it is read.

    ``column`` holds texts or token ids. ``concurrency`` workers, or between a fewest and a most of them, open the model once
    each and use ``num_cpus`` threads unless ``load_options`` (those of :func:`ballast.load`) say otherwise. ``options`` are
    those of :meth:`ballast.Model.generate`, ``ray_options`` more arguments of ``Dataset.map_batches``. The model must be at
    this path on every machine. Texts do not depend on batches or workers. A row that cannot be continued ends the run with
    an error that names it.
    """
    settings = {
        "model": _path_for_workers(model),
        "column": column,
        "output_column": output_column,
        "load_options": dict(load_options or {}),
        "options": options,
    }
    return _mapped(dataset, TextGenerator, settings, concurrency, batch_size, num_cpus, ray_options)


def embed(
    dataset: Any,
    model: PathLike,
    *,
    column: str = "text",
    output_column: str = "embedding",
    concurrency: Concurrency = 2,
    batch_size: int = 256,
    num_cpus: float = 1,
    load_options: Mapping[str, Any] | None = None,
    ray_options: Mapping[str, Any] | None = None,
) -> Any:
    """Embeds the texts of a Ray dataset; gives the dataset with a column more. The arguments are those of :func:`generate`."""
    settings = {
        "model": _path_for_workers(model),
        "column": column,
        "output_column": output_column,
        "load_options": dict(load_options or {}),
    }
    return _mapped(dataset, TextEmbedder, settings, concurrency, batch_size, num_cpus, ray_options)


def _mapped(
    dataset: Any,
    worker: type,
    settings: dict[str, Any],
    concurrency: Concurrency,
    batch_size: int,
    num_cpus: float,
    ray_options: Mapping[str, Any] | None,
) -> Any:
    data = _ray_data()
    if isinstance(concurrency, int):
        pool = data.ActorPoolStrategy(size=concurrency)
    else:
        fewest, most = concurrency
        pool = data.ActorPoolStrategy(min_size=fewest, max_size=most)
    return dataset.map_batches(
        worker,
        fn_constructor_kwargs=settings,
        batch_size=batch_size,
        batch_format="numpy",
        compute=pool,
        num_cpus=num_cpus,
        **(ray_options or {}),
    )


def _ray_data() -> Any:
    try:
        return importlib.import_module("ray.data")
    except ImportError as error:
        raise ImportError('ballast.ray needs Ray\'s datasets: pip install "ray[data]"') from error


def _path_for_workers(model: PathLike) -> str:
    """Workers have a current folder of their own. What is not here, such as a name in a cache, is left to them."""
    path = os.fspath(model)
    return os.path.abspath(path) if os.path.exists(path) else path


def _with_threads(load_options: Mapping[str, Any]) -> dict[str, Any]:
    """As many threads as Ray gave the worker processors, so that workers on one machine do not compete."""
    context: Any = importlib.import_module("ray").get_runtime_context()
    given = context.get_assigned_resources().get("CPU", 1)
    return {"threads": max(1, int(given)), **load_options}


def _column_of(rows: Batch, column: str) -> Any:
    if column not in rows:
        raise KeyError(f"the dataset has no column {column!r}; it has {', '.join(map(repr, rows))}")
    return rows[column]
