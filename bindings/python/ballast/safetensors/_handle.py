"""``safe_open``: a safetensors file of which tensors are taken as they are asked for."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
from collections.abc import Generator
from typing import Any

from ballast import _core
from ballast.safetensors._dtypes import FROM_BALLAST, TO_TORCH

_FRAMEWORKS = {
    **dict.fromkeys(("pt", "torch", "pytorch"), "pt"),
    **dict.fromkeys(("np", "numpy"), "np"),
    **dict.fromkeys(("jax", "flax"), "flax"),
    **dict.fromkeys(("mlx",), "mlx"),
}


class SafetensorError(Exception):
    """What the package ``safetensors`` raises for files and requests that are wrong."""


@contextlib.contextmanager
def translated_errors() -> Generator[None, None, None]:
    """Errors as programs expect them that were written for safetensors."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(error.args[0]) from None
    except (_core.FormatError, KeyError) as error:
        raise SafetensorError(error.args[0]) from error
    except ValueError as error:
        if getattr(error, "code", "") in ("closed", "invalid_argument"):
            raise SafetensorError(str(error)) from error
        raise


def _framework(name: Any) -> str:
    known = _FRAMEWORKS.get(str(name))
    if known is None:
        raise SafetensorError(f"framework {name} is invalid: use pt, np, jax, flax or mlx")
    return known


class safe_open:  # noqa: N801
    """A safetensors file. Tensors come as arrays of ``framework``, on ``device``.

    >>> import numpy
    >>> from ballast.safetensors import safe_open
    >>> from ballast.safetensors.numpy import save_file
    >>> save_file({"w": numpy.arange(6.0).reshape(2, 3)}, "model.safetensors")
    >>> with safe_open("model.safetensors", framework="np") as file:
    ...     print(file.keys(), file.get_slice("w")[:, 1:])
    ['w'] [[1. 2.]
     [4. 5.]]
    """

    def __init__(
        self, filename: str | os.PathLike[str], framework: str, device: Any = "cpu", *, backend: str = "mmap"
    ) -> None:
        if backend not in ("mmap", "pread"):
            raise SafetensorError(f"backend {backend} is invalid: use mmap or pread")
        self._framework = _framework(framework)
        self._device = device
        path = os.fspath(filename)
        # torch has no read-only tensors: it gets a mapping whose changes stay in memory.
        mode = "read" if backend == "pread" else "c" if self._framework == "pt" else "r"
        if not os.path.exists(path):
            raise FileNotFoundError(f"No such file or directory: {path}")
        with translated_errors():
            self._file = _core.open_path(path, mode)

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def keys(self) -> list[str]:
        """Names, sorted."""
        with translated_errors():
            return sorted(self._file)

    def offset_keys(self) -> list[str]:
        """Names in the order of their bytes."""
        with translated_errors():
            return list(self._file)

    def metadata(self) -> dict[str, str] | None:
        """What the file says beside its tensors; None where it says nothing."""
        with translated_errors():
            return self._file.metadata or None

    def get_tensor(self, name: str) -> Any:
        """All of one tensor."""
        with translated_errors():
            return as_framework(self._lookup(name), self._framework, self._device)

    def get_tensors(self) -> dict[str, Any]:
        """All tensors by name."""
        with translated_errors():
            if self._framework == "np":
                return self._file.arrays(copy=True)
            return {
                name: as_framework(tensor, self._framework, self._device) for name, tensor in self._file.items()
            }

    def get_slice(self, name: str) -> SafeSlice:
        """Something to be sliced, of which only the slice is read."""
        with translated_errors():
            return SafeSlice(self._lookup(name), self._framework, self._device)

    def _lookup(self, name: str) -> _core.Tensor:
        try:
            return self._file[name]
        except KeyError as error:
            raise SafetensorError(f"File does not contain tensor {name}: {error.args[0]}") from None


class _safe_open_handle(safe_open):  # noqa: N801 # pyright: ignore[reportUnusedClass]
    """The same for a file object."""

    def __init__(self, file: Any, framework: str, device: Any = "cpu") -> None:
        self._framework = _framework(framework)
        self._device = device
        if isinstance(file, io.TextIOBase):
            file = getattr(file, "buffer", file)
        with translated_errors():
            self._file = _core.open_object(file, str(getattr(file, "name", "file object")))


class SafeSlice:
    """A tensor to be sliced: ``[:, 2:4]`` reads just that."""

    __slots__ = ("_device", "_framework", "_tensor")

    def __init__(self, tensor: _core.Tensor, framework: str, device: Any) -> None:
        self._tensor = tensor
        self._framework = framework
        self._device = device

    def get_shape(self) -> list[int]:
        return list(self._tensor.shape)

    def get_dtype(self) -> str:
        """By safetensors' name: "F32"."""
        return FROM_BALLAST[self._tensor.type]

    def __getitem__(self, key: Any) -> Any:
        check_slice(key, self.get_shape())
        if isinstance(key, list):
            key = slice(0, 0)
        with translated_errors():
            part = self._tensor[key]
        return converted(part, self._tensor.type, self._framework, self._device)


def _item_text(item: Any) -> str:
    part = item
    if not isinstance(item, slice):
        return str(item)
    ends: list[Any] = [part.start, part.stop]
    return ":".join("" if end is None else str(end) for end in ends)


def check_slice(key: Any, shape: list[int]) -> None:
    """safetensors refuses what NumPy would cut short."""
    if isinstance(key, list):
        if key:
            raise SafetensorError("Non empty lists are not implemented")
        return
    items: tuple[Any, ...] = key if isinstance(key, tuple) else (key,)  # pyright: ignore[reportUnknownVariableType]
    shown = ", ".join(_item_text(item) for item in items)
    for axis, item in enumerate(item for item in items if item is not Ellipsis):
        if Ellipsis in items or axis >= len(shape):
            return  # the mapping of axes is NumPy's business
        stop: Any = getattr(item, "stop", None)
        last: Any = item if stop is None else stop - 1
        if not isinstance(last, int):
            continue
        if isinstance(item, int) and -shape[axis] > item:
            raise SafetensorError(f"Invalid index {item} for dimension {axis} of size {shape[axis]}")
        if last >= shape[axis]:
            raise SafetensorError(
                f"Error during slicing [{shown}] with shape {shape}: index {last} out of bounds for tensor dimension "
                f"#{axis} of size {shape[axis]}"
            )


def as_framework(tensor: _core.Tensor, framework: str, device: Any) -> Any:
    """All of a tensor, in memory that may be written to."""
    if framework == "pt":
        return torch_tensor(tensor, device)
    return converted(tensor.numpy(copy=framework == "np"), tensor.type, framework, device)


def converted(array: Any, type_: str, framework: str, device: Any) -> Any:
    """An array of NumPy's, in another framework."""
    if framework == "np":
        return array if array.flags.writeable and array.base is not None else array.copy()
    if framework == "flax":
        return importlib.import_module("jax.numpy").asarray(array)
    if framework == "mlx":
        return importlib.import_module("mlx.core").array(array)
    torch = importlib.import_module("torch")
    contiguous = array if array.flags.c_contiguous and array.flags.writeable else array.copy()
    return _torch_over(torch, contiguous, type_, list(array.shape), device)


def torch_tensor(tensor: _core.Tensor, device: Any = "cpu") -> Any:
    """A view of the file where it is mapped, else memory of its own."""
    torch = importlib.import_module("torch")
    raw = tensor.raw()
    if not raw.flags.writeable:
        raw = raw.copy()
    return _torch_over(torch, raw, tensor.type, list(tensor.shape), device)


def _torch_over(torch: Any, array: Any, type_: str, shape: list[int], device: Any) -> Any:
    name = TO_TORCH.get(type_)
    dtype = getattr(torch, name, None) if name else None
    if dtype is None:
        raise SafetensorError(f"torch has no type for {FROM_BALLAST.get(type_, type_)}")
    if type_ == "f4":
        shape = [*shape[:-1], shape[-1] // 2]
    if array.size == 0:
        made = torch.empty(shape, dtype=dtype, device="cpu")
    else:
        made = torch.frombuffer(memoryview(array.reshape(-1).view("uint8")), dtype=torch.uint8)
        made = made.view(dtype).reshape(shape)
    return made if str(device) == "cpu" else made.to(device)
