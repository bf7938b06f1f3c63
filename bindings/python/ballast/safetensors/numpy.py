"""safetensors files of NumPy arrays."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ballast import _core
from ballast.safetensors._handle import translated_errors
from ballast.safetensors._raw import write_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["load", "load_file", "save", "save_file"]


def save(tensor_dict: dict[str, NDArray[Any]], metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of a safetensors file.

    >>> import numpy
    >>> from ballast.safetensors.numpy import load, save
    >>> load(save({"w": numpy.ones(2)}))
    {'w': array([1., 1.])}
    """
    with translated_errors():
        return _core.save_bytes(list(tensor_dict.items()), "safetensors", metadata)


def save_file(
    tensor_dict: dict[str, NDArray[Any]],
    filename: str | os.PathLike[str],
    metadata: dict[str, str] | None = None,
) -> None:
    """Writes a safetensors file, whole or not at all."""
    write_file(list(tensor_dict.items()), filename, metadata)


def load(data: bytes) -> dict[str, NDArray[Any]]:
    """Arrays from the bytes of a file."""
    with translated_errors():
        return _core.open_buffer(data, "memory").arrays(copy=True)


def load_file(filename: str | os.PathLike[str], *, backend: str = "mmap") -> dict[str, NDArray[Any]]:
    """Arrays from a file, in memory of their own."""
    from ballast.safetensors import safe_open

    with safe_open(filename, framework="np", backend="pread" if backend == "mmap" else backend) as file:
        return file.get_tensors()
