"""Writing arrays of any library."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ballast

TYPES: list[Any] = [
    np.float64, np.float32, np.float16, ml_dtypes.bfloat16, np.int64, np.int32, np.int16, np.int8, np.uint64, np.uint32,
    np.uint16, np.uint8, np.bool_, np.complex64, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2,
    ml_dtypes.float8_e8m0fnu, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz,
]  # fmt: skip


@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_every_type_comes_back_bit_for_bit(here: Path, dtype: Any) -> None:
    bits = np.arange(64 * np.dtype(dtype).itemsize, dtype=np.uint8) % (2 if dtype == np.bool_ else 120)
    array = bits.view(dtype).reshape(8, 8)
    ballast.save("a.safetensors", {"a": array})
    with ballast.open("a.safetensors") as file:
        assert file["a"].dtype == np.dtype(dtype)
        assert file["a"].numpy().tobytes() == array.tobytes()


def test_strides_and_byte_orders_are_put_in_order(here: Path) -> None:
    matrix = np.arange(12, dtype=np.float32).reshape(3, 4)
    shapes = {"transposed": matrix.T, "strided": matrix[::2, ::-1], "big": matrix.astype(">f4"), "scalar": np.array(3.0)[()]}
    ballast.save("a.npz", shapes)
    with ballast.open("a.npz") as file:
        for name, array in shapes.items():
            np.testing.assert_array_equal(file[name].numpy(), array)


def test_contiguous_memory_is_not_copied(here: Path) -> None:
    resource = pytest.importorskip("resource")
    array = np.zeros(64 << 20, np.uint8)
    array[:] = 1
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ballast.save("a.safetensors", {"a": array}, sync=False)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 << 10


def test_a_read_only_array_and_a_list_are_as_good(here: Path) -> None:
    array = np.ones(3, np.float32)
    array.flags.writeable = False
    ballast.save("a.npz", {"array": array, "list": [1, 2, 3], "number": 2.5, "view": memoryview(b"abc")})
    with ballast.open("a.npz") as file:
        assert [file[name].type for name in ("array", "list", "number", "view")] == ["f32", "i64", "f64", "u8"]


def test_what_is_no_array_is_refused_by_name(here: Path) -> None:
    with pytest.raises(TypeError, match="not an array"):
        ballast.save("a.npz", {"a": object()})
    with pytest.raises((ValueError, TypeError)):
        ballast.save("a.npz", {"a": np.array(["text"])})
    with pytest.raises(TypeError, match="expected str"):
        ballast.save("a.npz", {1: np.ones(1)})  # type: ignore[dict-item]
    assert os.listdir(here) == []


def test_tensors_of_an_archive_are_saved_without_being_loaded(here: Path) -> None:
    ballast.save("a.npz", {"w": np.ones((2, 2)), "v": np.zeros(3)}, compress=True)
    with ballast.open("a.npz") as file:
        ballast.save("b.safetensors", {f"model.{name}": tensor for name, tensor in file.items()})
    with ballast.open("b.safetensors") as file:
        assert file["model.w"].numpy().tolist() == [[1, 1], [1, 1]]


def test_metadata_keeps_its_types(here: Path) -> None:
    metadata = {"text": "é", "int": -3, "large": 2**64 - 1, "float": 0.5, "yes": True, "list": ["a", "b"],
                "numbers": [1, 2], "floats": [0.5, 1], "nested": [[1], [2, 3]]}  # fmt: skip
    ballast.save("a.gguf", {"w": np.ones(32, np.float32)}, metadata=metadata)
    with ballast.open("a.gguf") as file:
        assert file.metadata == metadata
    for bad in ({"a": object()}, {"a": ["b", 1]}, {3: "a"}, {"a": {"b": 1}}):
        with pytest.raises(TypeError):
            ballast.save("b.gguf", {}, metadata=bad)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="64 bits"):
        ballast.save("b.gguf", {}, metadata={"a": 2**64})


def test_what_a_format_cannot_hold_is_told_before_anything_is_written(here: Path) -> None:
    tensors = {"c": np.ones(2, np.complex128)}
    with pytest.raises(ballast.FormatError, match="c128") as caught:
        ballast.save("a.safetensors", tensors)
    assert caught.value.code == "lossy" and os.listdir(here) == []
    ballast.save("a.safetensors", tensors, allow_lossy=True)
    assert len(ballast.open("a.safetensors")) == 1


def test_an_existing_file_is_kept_where_that_is_asked(here: Path) -> None:
    ballast.save("a.npz", {"w": np.ones(1)})
    with pytest.raises(FileExistsError):
        ballast.save("a.npz", {"w": np.zeros(1)}, overwrite=False)
    assert ballast.open("a.npz")["w"][0] == 1


def test_the_extension_or_the_format_decides(here: Path) -> None:
    ballast.save("a.bin", {"w": np.ones(1)}, format="npz")
    assert ballast.open("a.bin").format == "npz"
    with pytest.raises(ValueError, match="say which format"):
        ballast.save("a.unknown", {})
    with pytest.raises(ValueError, match="there is no format"):
        ballast.save("a.npz", {}, format="zip")


def test_a_file_object_takes_it_too() -> None:
    target = io.BytesIO()
    ballast.save(target, {"w": np.ones(2)}, format="safetensors")
    assert ballast.open(target.getvalue())["w"][1] == 1


def test_shards_are_opened_as_one(here: Path) -> None:
    tensors = {f"t{i}": np.full(1000, i, np.float32) for i in range(10)}
    report = ballast.save("a.safetensors", tensors, shard_size=10_000)
    assert len(report.files) > 2
    with ballast.open(report.files[-1]) as file:
        assert all(file[name][0] == i for i, name in enumerate(tensors))


def test_progress_hears_how_far_it_is_and_may_end_it(here: Path) -> None:
    heard: list[tuple[str, int, int]] = []
    ballast.save("a.npz", {"w": np.ones(1000)}, progress=lambda *update: heard.append(update))
    assert heard[-1][1] == heard[-1][2] == 8000
    with pytest.raises(ballast.CancelledError):
        ballast.save("b.npz", {"w": np.ones(1000)}, progress=lambda *_: False)

    def fail(*_: Any) -> None:
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        ballast.save("b.npz", {"w": np.ones(1000)}, progress=fail)
    assert not (here / "b.npz").exists()


def test_huge_shapes_are_errors(here: Path) -> None:
    huge = np.lib.stride_tricks.as_strided(np.zeros(1), (2**20, 2**30), (0, 0))
    with pytest.raises((ValueError, MemoryError, OSError)):
        ballast.save("a.npz", {"a": huge})
