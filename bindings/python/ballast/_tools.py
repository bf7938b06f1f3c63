"""verify, diff, hash, stats, convert, quantize and doctor."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ballast import _core
from ballast._open import Progress, is_url, local_path
from ballast._open import open as open_archive
from ballast._progress import progress_callback
from ballast._reports import (
    ConvertReport,
    Diagnosis,
    DiffEntry,
    DiffReport,
    Finding,
    HashReport,
    Histogram,
    Loss,
    LostTensor,
    Numbers,
    QuantizeReport,
    StatsReport,
    TensorHash,
    TensorQuantization,
    TensorStats,
    VerifyReport,
)

if TYPE_CHECKING:
    from collections.abc import Generator

    from ballast._types import Source


@contextmanager
def _opened(source: Source | _core.Archive) -> Generator[_core.Archive, None, None]:
    """An archive that is open already stays open."""
    if isinstance(source, _core.Archive):
        yield source
        return
    with open_archive(source, mode="read") as archive:
        yield archive


def _path(source: str | os.PathLike[str] | _core.Archive) -> str:
    path = source.path if isinstance(source, _core.Archive) else os.fspath(source)
    if is_url(path):
        raise ValueError(f"{path}: give a file or folder of this machine")
    return local_path(path)


def verify(
    path: str | os.PathLike[str] | _core.Archive, *, content: bool = False, threads: int = 0, progress: Progress = None
) -> VerifyReport:
    """Whether a file is what it says it is: headers, extents and checksums, and with ``content`` every value.

    >>> import ballast, numpy
    >>> _ = ballast.save("sound.npz", {"w": numpy.ones(3)})
    >>> ballast.verify("sound.npz")
    VerifyReport(sound.npz: npz, sound)
    """
    place = _path(path)
    with progress_callback(progress) as heard:
        found = _core.verify(place, content, threads, heard)
    return VerifyReport(place, found["format"], found["sound"], [Finding(**row) for row in found["findings"]])


def doctor(
    path: str | os.PathLike[str] | _core.Archive,
    *,
    rescue: str | os.PathLike[str] | None = None,
    format: str | None = None,  # noqa: A002
    overwrite: bool = False,
    threads: int = 0,
    progress: Progress = None,
) -> Diagnosis:
    """Why a file cannot be read. With ``rescue`` the sound tensors are written to that path.

    >>> import ballast
    >>> with open("page.safetensors", "w") as file:
    ...     _ = file.write("<!DOCTYPE html><html>Not found</html>")
    >>> ballast.doctor("page.safetensors").verdict
    'foreign'
    """
    place = _path(path)
    with progress_callback(progress) as heard:
        if rescue is None:
            found = _core.doctor(place, threads, heard)
        else:
            to = os.fspath(rescue)
            chosen = format or _core.format_for_path(to)
            if chosen is None:
                raise ValueError(f"{to}: say which format to write")
            found = _core.rescue(place, to, chosen, overwrite, threads, heard)
    found["findings"] = [Finding(**row) for row in found["findings"]]
    found["lost"] = [LostTensor(**row) for row in found["lost"]]
    return Diagnosis(path=place, **found)


def diff(
    a: Source | _core.Archive,
    b: Source | _core.Archive,
    *,
    rtol: float = 0,
    atol: float = 0,
    threads: int = 0,
    progress: Progress = None,
) -> DiffReport:
    """Compares two archives by content, whatever their formats.

    Tensors are paired by name, then by content: what was renamed or transposed is found. Values with
    ``|a - b| <= atol + rtol * |b|`` count as equal.

    >>> import ballast, numpy
    >>> _ = ballast.save("a.npz", {"w": numpy.array([1.0, 2.0])})
    >>> _ = ballast.save("b.safetensors", {"w": numpy.array([1.0, 2.5])})
    >>> report = ballast.diff("a.npz", "b.safetensors")
    >>> report.equal, report.changes[0].max_abs
    (False, 0.5)
    """
    with _opened(a) as first, _opened(b) as second, progress_callback(progress) as heard:
        found = _core.diff(first, second, rtol, atol, threads, heard)
        return DiffReport(first.path, second.path, found["equal"], [DiffEntry(**row) for row in found["entries"]])


def hash(  # noqa: A001
    source: Source | _core.Archive, *, sha256: bool = False, threads: int = 0, progress: Progress = None
) -> HashReport:
    """Digests of the tensors and of all of them together: equal digests mean equal tensors, in any format and order.

    >>> import ballast, numpy
    >>> _ = ballast.save("a.npz", {"w": numpy.array([1.0, 2.0])})
    >>> _ = ballast.convert("a.npz", "a.safetensors", overwrite=True)
    >>> ballast.hash("a.npz").digest == ballast.hash("a.safetensors").digest
    True
    """
    with _opened(source) as archive, progress_callback(progress) as heard:
        found = _core.hash(archive, sha256, threads, heard)
        return HashReport(archive.path, found["format"], found["digest"], [TensorHash(*row) for row in found["tensors"]])


def _numbers(found: dict[str, Any] | None) -> Numbers | None:
    if found is None:
        return None
    histogram = Histogram(*found.pop("histogram"))
    return Numbers(**found, histogram=histogram)


def stats(
    source: Source | _core.Archive,
    *,
    only: Iterable[str] | None = None,
    bins: int = 24,
    threads: int = 0,
    progress: Progress = None,
) -> StatsReport:
    """Range, moments, special values and a histogram of each tensor, or of those that ``only`` names.

    >>> import ballast, numpy
    >>> _ = ballast.save("a.npz", {"w": numpy.array([1.0, numpy.nan, 3.0])})
    >>> numbers = ballast.stats("a.npz")["w"].numbers
    >>> numbers.mean, numbers.nan
    (2.0, 1)
    """
    with _opened(source) as archive, progress_callback(progress) as heard:
        names = list(archive) if only is None else list(only)
        found = _core.statistics(archive, names, bins, threads, heard)
        rows = [TensorStats(name, type_, shape, _numbers(numbers)) for name, type_, shape, numbers in found["tensors"]]
        return StatsReport(archive.path, rows, _numbers(found["total"]))


def _report(found: dict[str, Any], source: str, destination: str) -> dict[str, Any]:
    losses = [Loss(tensor or None, what) for tensor, what in found["losses"]]
    return {**found, "losses": losses, "source": source, "destination": destination}


def convert(
    source: str | os.PathLike[str] | _core.Archive,
    destination: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002
    only: Iterable[str] = (),
    exclude: Iterable[str] = (),
    dtype: Any = None,
    dequantize: Any = None,
    config: Mapping[str, Any] | str | None = None,
    allow_lossy: bool = False,
    dry_run: bool = False,
    overwrite: bool = False,
    sync: bool = True,
    tie: bool = True,
    compress: bool = False,
    shard_size: int = 0,
    target: str = "",
    container_only: bool = False,
    threads: int = 0,
    progress: Progress = None,
) -> ConvertReport:
    """Converts a model or a file of weights to another format, without loss.

    A model runs in the target: names, layouts, config and tokenizer are translated (``container_only`` keeps them).
    ``only`` and ``exclude`` are regular expressions over names. ``dtype`` is what floating tensors become,
    ``dequantize`` what quantised ones do. What the format cannot hold is a ``FormatError`` that lists it, unless
    ``allow_lossy`` is given; ``dry_run`` only says what would happen.

    >>> import ballast, numpy
    >>> _ = ballast.save("a.npz", {"w": numpy.ones((2, 2), numpy.float32)})
    >>> ballast.convert("a.npz", "half.safetensors", dtype="f16", overwrite=True)
    ConvertReport(a.npz (npz) to half.safetensors (safetensors): 1 tensor, 8 B)
      note: cast to f16: 1 of 1 tensors; 0 had that type, 0 kept by name, 0 are no floats
    """
    place, to = _path(source), os.fspath(destination)
    text = json.dumps(config) if isinstance(config, Mapping) else config
    with progress_callback(progress) as heard:
        found = _core.convert(
            place, to, format=format or "", only=list(only), exclude=list(exclude), dtype=dtype, dequantize=dequantize,
            config=text, allow_lossy=allow_lossy, dry_run=dry_run, overwrite=overwrite, sync=sync, tie=tie,
            compress=compress, shard_size=shard_size, target=target, container_only=container_only, threads=threads,
            progress=heard,
        )  # fmt: skip
    return ConvertReport(**_report(found, place, to))


def quantize(
    source: str | os.PathLike[str] | _core.Archive,
    destination: str | os.PathLike[str],
    type: str = "q4_k_m",  # noqa: A002
    *,
    format: str | None = None,  # noqa: A002
    pure: bool = False,
    rules: Iterable[str] = (),
    dry_run: bool = False,
    overwrite: bool = False,
    container_only: bool = False,
    threads: int = 0,
    progress: Progress = None,
) -> QuantizeReport:
    """Quantises a model to fewer bits per weight. ``ballast.quantization_types()`` lists the types.

    ``rules`` are texts "REGEX=TYPE" that give tensors a type of their own; ``pure`` gives every matrix the same type.

    >>> import ballast, numpy
    >>> _ = ballast.save("a.npz", {"w": numpy.linspace(-1, 1, 4096, dtype="f4").reshape(16, 256)})
    >>> report = ballast.quantize("a.npz", "small.gguf", "q8_0", overwrite=True)
    >>> report.quantized[0].to_type, report.bytes_before, report.bytes_after
    ('q8_0', 16384, 4352)
    """
    place, to = _path(source), os.fspath(destination)
    with progress_callback(progress) as heard:
        found = _core.quantize(
            place, to, type, format=format or ("gguf" if os.path.isdir(to) or to.endswith("/") else ""), pure=pure,
            rules=list(rules), dry_run=dry_run, overwrite=overwrite, container_only=container_only, threads=threads,
            progress=heard,
        )  # fmt: skip
    rows = [TensorQuantization(from_type=row.pop("from"), to_type=row.pop("to"), **row) for row in found.pop("quantized")]
    return QuantizeReport(**_report(found, place, to), quantized=rows)


def quantization_types() -> dict[str, str]:
    """Names of what ``quantize`` can write, and what each is.

    >>> import ballast
    >>> "q4_k_m" in ballast.quantization_types()
    True
    """
    return _core.quantization_types()
