"""``ballast.safetensors`` beside the package whose interface it has. The package's own tests: test_borrowed.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

original = pytest.importorskip("safetensors.numpy")

from ballast.safetensors import SafetensorError, deserialize, safe_open  # noqa: E402
from ballast.safetensors.numpy import load, load_file, save, save_file  # noqa: E402


@pytest.fixture
def tensors() -> dict[str, Any]:
    rng = np.random.default_rng(5)
    return {
        "b": rng.standard_normal((3, 4)),
        "a": rng.integers(0, 9, (2, 2), dtype=np.int8),
        "half": np.ones(5, np.float16),
        "bf16": np.arange(6, dtype=ml_dtypes.bfloat16).reshape(2, 3),
        "scalar": np.array(True),
    }


@pytest.mark.parametrize("metadata", [None, {"z": "1"}, {"a": "é\n"}])
def test_the_same_bytes_are_written(here: Path, tensors: dict[str, Any], metadata: dict[str, str] | None) -> None:
    del tensors["bf16"]  # the original asks for torch there
    assert save(tensors, metadata) == original.save(tensors, metadata)
    save_file(tensors, "ours.safetensors", metadata)
    original.save_file(tensors, "theirs.safetensors", metadata)
    assert (here / "ours.safetensors").read_bytes() == (here / "theirs.safetensors").read_bytes()


def test_the_same_arrays_are_read(here: Path, tensors: dict[str, Any]) -> None:
    save_file(tensors, "a.safetensors")
    ours = load_file("a.safetensors")
    assert set(ours) == set(tensors)
    for name, array in tensors.items():
        assert ours[name].dtype == array.dtype and ours[name].flags.writeable
        np.testing.assert_array_equal(ours[name], array)
    np.testing.assert_array_equal(load(save(tensors))["b"], tensors["b"])


def test_arrays_outlive_the_file(here: Path) -> None:
    save_file({"a": np.arange(3.0)}, "a.safetensors")
    loaded = load_file("a.safetensors")
    Path("a.safetensors").write_bytes(b"")  # the original copies, so this must not hurt
    assert loaded["a"].tolist() == [0, 1, 2]


def test_deserialize_gives_the_same_rows(tensors: dict[str, Any]) -> None:
    import safetensors

    data = save({name: tensors[name] for name in ("a", "b", "half")})
    assert {n: (r["dtype"], r["shape"], bytes(r["data"])) for n, r in deserialize(data)} == {
        n: (r["dtype"], r["shape"], bytes(r["data"])) for n, r in safetensors.deserialize(data)
    }


def test_errors_are_the_packages(here: Path) -> None:
    Path("bad.safetensors").write_bytes(b"\xff" * 20)
    with pytest.raises(SafetensorError):
        load_file("bad.safetensors")
    with pytest.raises(SafetensorError):
        load(b"")
    save_file({"a": np.ones(2)}, "a.safetensors")
    with safe_open("a.safetensors", framework="np") as file:
        with pytest.raises(SafetensorError, match="does not contain tensor b"):
            file.get_tensor("b")
        with pytest.raises(SafetensorError, match="Invalid index"):
            file.get_slice("a")[-3]
    with pytest.raises(SafetensorError):
        file.keys()
    with pytest.raises(SafetensorError, match="framework"):
        safe_open("a.safetensors", framework="basic")
