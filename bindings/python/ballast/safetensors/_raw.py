"""``serialize``, ``serialize_file`` and ``deserialize``: tensors as addresses and as bytes."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ballast import _core
from ballast.safetensors._dtypes import BY_ANY_NAME, FROM_BALLAST, TO_BALLAST
from ballast.safetensors._handle import SafetensorError, translated_errors


class TensorSpec:
    """A tensor in memory that the caller keeps alive: its type, its shape and where it is."""

    __slots__ = ("data_len", "data_ptr", "dtype", "shape")

    def __init__(self, *, dtype: str, shape: Sequence[int], data_ptr: int, data_len: int) -> None:
        code = BY_ANY_NAME.get(dtype)
        if code is None:
            raise SafetensorError(f"dtype {dtype} is not known")
        self.dtype = code
        self.shape = [int(size) for size in shape]
        # torch counts pairs of these, files count elements.
        if dtype == "float4_e2m1fn_x2" and self.shape:
            self.shape[-1] *= 2
        self.data_ptr = data_ptr
        self.data_len = data_len

    def __repr__(self) -> str:
        return f"TensorSpec(dtype={self.dtype!r}, shape={self.shape}, data_ptr={self.data_ptr}, data_len={self.data_len})"

    def _memory(self) -> Any:
        return (ctypes.c_char * self.data_len).from_address(self.data_ptr) if self.data_len else b""


def _items(tensor_dict: Mapping[str, TensorSpec]) -> list[tuple[str, Any]]:
    items: list[tuple[str, Any]] = []
    for name, spec in tensor_dict.items():
        if not isinstance(spec, TensorSpec):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"{name}: expected TensorSpec, not {type(spec).__name__}")
        memory = spec._memory()  # pyright: ignore[reportPrivateUsage]
        items.append((name, _core.typed_bytes(memory, TO_BALLAST[spec.dtype], spec.shape)))
    return items


def serialize(tensor_dict: Mapping[str, TensorSpec], metadata: Mapping[str, str] | None = None) -> bytes:
    """The bytes of a safetensors file."""
    items = _items(tensor_dict)
    with translated_errors():
        return _core.save_bytes(items, "safetensors", metadata)


def serialize_file(
    tensor_dict: Mapping[str, TensorSpec],
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Writes a safetensors file, whole or not at all."""
    write_file(_items(tensor_dict), filename, metadata)


def write_file(
    items: list[tuple[str, Any]], filename: str | os.PathLike[str], metadata: Mapping[str, str] | None
) -> None:
    """Any arrays. As the original does, the disk is not waited for."""
    with translated_errors():
        _core.save_path(os.fspath(filename), items, "safetensors", metadata, None, True, False)


def deserialize(data: bytes) -> list[tuple[str, dict[str, Any]]]:
    """Names, and for each its type, shape and bytes."""
    with translated_errors():
        archive = _core.open_buffer(data, "memory")
    rows: list[tuple[str, dict[str, Any]]] = []
    for name, tensor in archive.items():
        row = {"shape": list(tensor.shape), "dtype": FROM_BALLAST[tensor.type], "data": bytearray(tensor.raw().tobytes())}
        rows.append((name, row))
    return rows
