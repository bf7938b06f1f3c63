"""``ballast.open`` and ``ballast.save``."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import IO, TYPE_CHECKING, Any, Union

from ballast import _core
from ballast._progress import progress_callback

if TYPE_CHECKING:
    from ballast._types import Source

Progress = Union[bool, Callable[[str, int, int], Any], None]


def open(source: Source, *, mode: str = "r") -> _core.Archive:  # noqa: A001
    """Opens a file of weights as a mapping of names to lazy tensors.

    ``source`` is a path, a folder of a model, bytes, a file object (of fsspec, too), a URL, or the name of a model in
    Hugging Face's cache ("org/name"). Only the header is read.

    ``mode`` is "r" (arrays are read-only views of the file), "c" (views that may be written to; changes stay in memory,
    as with ``numpy.memmap``), or "read" (nothing is mapped: arrays are read when they are asked for, which survives
    another program's truncating the file).

    >>> import ballast, numpy
    >>> ballast.save("model.safetensors", {"w": numpy.arange(6.0).reshape(2, 3)}, metadata={"step": "7"})
    SaveReport(1 tensor, 144 bytes: model.safetensors)
    >>> with ballast.open("model.safetensors") as file:
    ...     print(list(file), file.format, file.metadata, file["w"][1, 1:])
    ['w'] safetensors {'step': '7'} [4. 5.]
    """
    if mode not in ("r", "c", "read"):
        raise ValueError(f'mode must be "r", "c" or "read", not {mode!r}')
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _core.open_buffer(source, "memory")
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        if is_url(path):
            from ballast import _remote

            return _core.open_object(_remote.open_url(path), path)
        return _core.open_path(local_path(path), mode)
    return _open_object(source, mode)


def is_url(path: str) -> bool:
    return "://" in path


def local_path(path: str) -> str:
    """The path itself, or where Hugging Face's cache keeps the model of that name."""
    if not os.path.exists(path):
        from ballast import _hub

        return _hub.cached_model(path) or path
    return path


def _open_object(file: Any, mode: str) -> _core.Archive:
    if not hasattr(file, "read") or not hasattr(file, "seek"):
        raise TypeError(f"cannot open {type(file).__name__}: give a path, bytes or a file object that can seek")
    if isinstance(file, io.TextIOBase):
        file = getattr(file, "buffer", file)
    name = getattr(file, "name", None)
    # A plain file can be mapped; everything else is read through its own methods.
    if isinstance(file, (io.FileIO, io.BufferedReader)) and isinstance(name, str) and os.path.isfile(name):
        if os.path.samestat(os.fstat(file.fileno()), os.stat(name)):
            return _core.open_path(name, mode)
    return _core.open_object(file, name if isinstance(name, str) else "file object")


class SaveReport:
    """What ``ballast.save`` wrote."""

    __slots__ = ("bytes", "files", "tensors")

    def __init__(self, tensors: int, files: list[str], size: int) -> None:
        self.tensors = tensors
        self.files = files
        self.bytes = size

    def __repr__(self) -> str:
        noun = "tensor" if self.tensors == 1 else "tensors"
        return f"SaveReport({self.tensors} {noun}, {self.bytes} bytes: {', '.join(self.files)})"


def save(
    path: str | os.PathLike[str] | IO[bytes],
    tensors: Mapping[str, Any] | Iterable[tuple[str, Any]],
    *,
    format: str | None = None,  # noqa: A002
    metadata: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | str | None = None,
    overwrite: bool = True,
    sync: bool = True,
    allow_lossy: bool = False,
    compress: bool = False,
    shard_size: int = 0,
    target: str = "",
    progress: Progress = None,
) -> SaveReport:
    """Writes tensors to a file, whole or not at all.

    Tensors are arrays of NumPy, PyTorch, JAX or CuPy, anything with DLPack or the buffer protocol, or tensors of an open
    archive; contiguous memory is written as it is, without a copy. The format is that of the extension unless
    ``format`` names one (``ballast.formats()`` lists them). What the format cannot hold is a ``FormatError``;
    ``allow_lossy=True`` casts or leaves it out instead. ``sync=False`` does not wait for the disk.

    >>> import ballast, numpy
    >>> ballast.save("half.gguf", {"w": numpy.ones((2, 2), numpy.float16)}, metadata={"layers": 2})
    SaveReport(1 tensor, 128 bytes: half.gguf)
    """
    pairs: Iterable[tuple[str, Any]] = tensors.items() if isinstance(tensors, Mapping) else tensors  # pyright: ignore
    items = list(pairs)
    text = json.dumps(config) if isinstance(config, Mapping) else config
    if not isinstance(path, (str, os.PathLike)):
        data = _core.save_bytes(items, _format_for(format, ""), metadata, text, compress, target)
        path.write(data)
        return SaveReport(len(items), [str(getattr(path, "name", "file object"))], len(data))
    place = os.fspath(path)
    with progress_callback(progress) as heard:
        files, size = _core.save_path(
            place, items, _format_for(format, place), metadata, text, overwrite, sync, allow_lossy, compress, shard_size,
            target, heard,
        )  # fmt: skip
    return SaveReport(len(items), files, size)


def _format_for(format: str | None, path: str) -> str:  # noqa: A002
    chosen = format or _core.format_for_path(path)
    if chosen is None:
        known = ", ".join(row[2][0] for row in _core.formats() if row[3] and row[2])
        raise ValueError(f"{path or 'a file object'}: say which format to write, or end the name in one of {known}")
    return chosen


class FormatInfo:
    """A file format that Ballast knows."""

    __slots__ = ("extensions", "name", "summary", "writable")

    def __init__(self, name: str, summary: str, extensions: list[str], writable: bool) -> None:
        self.name = name
        self.summary = summary
        self.extensions = extensions
        self.writable = writable

    def __repr__(self) -> str:
        access = "read and written" if self.writable else "read"
        return f"FormatInfo({self.name}: {self.summary}; {access})"


def formats() -> list[FormatInfo]:
    """The file formats that can be read, and which of them can be written.

    >>> import ballast
    >>> "gguf" in [format.name for format in ballast.formats()]
    True
    """
    return [FormatInfo(*row) for row in _core.formats()]
