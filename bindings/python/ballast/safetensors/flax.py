"""safetensors files of JAX arrays."""

from __future__ import annotations

import importlib
import os
from typing import Any

from ballast import _core
from ballast.safetensors import numpy as _numpy
from ballast.safetensors._handle import safe_open, translated_errors
from ballast.safetensors._raw import write_file

__all__ = ["load", "load_file", "save", "save_file"]


def save(tensors: dict[str, Any], metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of a safetensors file."""
    with translated_errors():
        return _core.save_bytes(list(tensors.items()), "safetensors", metadata)


def save_file(
    tensors: dict[str, Any], filename: str | os.PathLike[str], metadata: dict[str, str] | None = None
) -> None:
    """Writes a safetensors file, whole or not at all."""
    write_file(list(tensors.items()), filename, metadata)


def load(data: bytes) -> dict[str, Any]:
    """Arrays from the bytes of a file."""
    jax: Any = importlib.import_module("jax.numpy")
    return {name: jax.asarray(array) for name, array in _numpy.load(data).items()}


def load_file(filename: str | os.PathLike[str], *, backend: str = "mmap") -> dict[str, Any]:
    """Arrays from a file."""
    with safe_open(filename, framework="flax", backend=backend) as file:
        return file.get_tensors()
