"""Ids and arguments as programs give them, and tensors as they want them back."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from typing import Any

from ballast._inputs import PathLike

# Arguments of from_pretrained() that choose how transformers loads, and change nothing here: Ballast reads weights as they
# are, when needed. The package's documentation lists them.
_LOADING = frozenset(
    "torch_dtype dtype device_map low_cpu_mem_usage trust_remote_code use_safetensors attn_implementation "
    "use_fast local_files_only cache_dir".split()
)


def at_revision(path: PathLike, revision: str | None) -> PathLike:
    """The name of this revision of a model in Hugging Face's cache. What lies in a folder has only one."""
    if revision is None or revision == "main":
        return path
    name = os.fspath(path)
    if os.path.exists(name) or "@" in name:
        raise ValueError(f"revision: {name} is not the name of a model in Hugging Face's cache, of which there are several")
    return f"{name}@{revision}"


def refuse_unknown(where: str, options: Mapping[str, Any]) -> None:
    unknown = sorted(set(options) - _LOADING)
    if unknown:
        raise TypeError(f"{where}() has no argument {unknown[0]!r}")


def torch_module() -> Any:
    """Imported only where tensors of it are asked for."""
    return importlib.import_module("torch")


def is_torch(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "torch"


def to_list(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value if isinstance(value, int) else list(value)


def id_rows(ids: Any) -> list[list[int]]:
    listed = to_list(ids)
    if not listed:
        raise ValueError("generate() needs at least one token")
    return [listed] if isinstance(listed[0], int) else [list(row) for row in listed]


def to_tensor(values: list[list[Any]], kind: str | None) -> Any:
    if kind is None:
        return values
    if len({len(row) for row in values}) > 1:
        raise ValueError("rows of different lengths make no tensor: ask for padding=True")
    import numpy

    array = numpy.array(values, dtype=numpy.int64)
    if kind == "np":
        return array
    if kind == "pt":
        return torch_module().from_numpy(array)
    raise ValueError(f"return_tensors: 'np', 'pt' or None, not {kind!r}")


def rows_like(rows: list[list[int]], ids: Any) -> Any:
    import numpy

    array = numpy.array(rows, dtype=numpy.int64)
    if not is_torch(ids):
        return array
    return torch_module().from_numpy(array)
