"""``ballast.gguf.GGUFReader`` beside the package ``gguf``."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ballast.gguf import GGUFReader
from conftest import ROOT

FILES = sorted((ROOT / "tests/data/gguf").glob("*/*.gguf"))
# What the package reads otherwise, or not at all.
DIFFERENT = {
    "q2_0": "a type that the package does not know yet",
    "q8_1": "the package takes its blocks for larger than they are",
    "meta_nested_arrays": "the package flattens lists of lists",
    "split3-00001-of-00003": "the parts of a split file are opened together here",
    "split3-00002-of-00003": "the same",
    "split3-00003-of-00003": "the same",
    "v3_big_endian": "numbers are put into the machine's order here",
}
SOUND = [path for path in FILES if path.parent.name != "hostile" and path.stem not in DIFFERENT]


@pytest.mark.parametrize("path", SOUND, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_it_reads_what_the_package_reads(path: Path) -> None:
    package = pytest.importorskip("gguf")
    ours, theirs = GGUFReader(path), package.GGUFReader(path)
    assert [tensor.name for tensor in ours.tensors] == [tensor.name for tensor in theirs.tensors]
    for mine, other in zip(ours.tensors, theirs.tensors):
        assert int(mine.tensor_type) == int(other.tensor_type) and mine.tensor_type.name == other.tensor_type.name
        assert mine.shape.tolist() == other.shape.tolist()
        assert (mine.n_elements, mine.n_bytes, mine.data_offset) == (other.n_elements, other.n_bytes, other.data_offset)
        assert mine.data.dtype == other.data.dtype and mine.data.shape == other.data.shape
        assert mine.data.tobytes() == other.data.tobytes()
        assert mine.field.name == other.field.name and mine.field.data == other.field.data
        assert mine.field.types == other.field.types and mine.field.contents() is None
        assert [part.tobytes() for part in mine.field.parts] == [part.tobytes() for part in other.field.parts]
        assert [part.dtype for part in mine.field.parts] == [part.dtype for part in other.field.parts]
    for name, field in theirs.fields.items():
        if not name.startswith("GGUF."):
            np.testing.assert_equal(ours.fields[name].contents(), field.contents())
    assert ours.alignment == theirs.alignment


def test_the_field_of_a_tensor_says_what_the_file_says(here: Path) -> None:
    """50257 has a byte above 0x7f: what is stored are numbers, not text."""
    import ballast

    ballast.save("vocabulary.gguf", {"other": np.zeros(3, "f4"), "wörter": np.zeros((50257, 2), "f2")})
    (tensor,) = [tensor for tensor in GGUFReader("vocabulary.gguf").tensors if tensor.name == "wörter"]
    name_size, name, dimensions, shape, type_, offset = (part.tolist() for part in tensor.field.parts)
    assert (name_size, bytes(name)) == ([7], "wörter".encode())
    assert (dimensions, shape, type_) == ([2], [2, 50257], [int(tensor.tensor_type)])
    assert offset == [tensor.data_offset - GGUFReader("vocabulary.gguf").data_offset]
    assert [tensor.field.parts[at].tolist() for at in tensor.field.data] == [name, shape, type_, offset]
    assert "50257" in repr(tensor.field)


def recorded(path: Path) -> Any:
    return json.loads(Path(f"{path}.json").read_text())


def recorded_value(value: Any) -> Any:
    """Numbers beyond 53 bits are recorded as text; lists say what they are of."""
    if isinstance(value, dict):
        return [int(one) if value["of"] in ("u64", "i64") else recorded_value(one) for one in value["values"]]
    return value


def digest(data: Any) -> str:
    return hashlib.sha256(data.tobytes()).hexdigest()


@pytest.mark.parametrize("name", ["q2_0", "q8_1"])
def test_it_reads_types_that_the_package_does_not_know(name: str) -> None:
    (path,) = [path for path in FILES if path.stem == name]
    told = json.loads(path.with_suffix(".json").read_text())
    tensors = GGUFReader(path).tensors
    assert {tensor.name for tensor in tensors} == set(told["tensors"])
    for tensor in tensors:
        assert tensor.tensor_type.name == told["type"]
        assert tensor.n_elements == math.prod(told["tensors"][tensor.name]["shape"])
        assert digest(tensor.data) == told["tensors"][tensor.name]["raw_sha256"]


def test_lists_of_lists_stay_nested() -> None:
    (path,) = [path for path in FILES if path.stem == "meta_nested_arrays"]
    reader = GGUFReader(path)
    assert reader.fields["n.arr"].contents() == [[1, 2], ["x", "y"], [[-1]]]
    assert {pair["key"]: recorded_value(pair["value"]) for pair in recorded(path)["kv"]} == {
        name: reader.fields[name].contents() for name in ("n.ok", "n.arr", "n.after")
    }
    assert [digest(tensor.data) for tensor in reader.tensors] == [row["sha256"] for row in recorded(path)["tensors"]]


def test_the_parts_of_a_split_file_are_one() -> None:
    parts = [path for path in FILES if path.stem.startswith("split3-")]
    assert len(parts) == 3
    rows = [row for path in parts for row in recorded(path)["tensors"]]
    assert len(rows) == 7
    for path in parts:
        reader = GGUFReader(path)
        assert {tensor.name: digest(tensor.data) for tensor in reader.tensors} == {row["name"]: row["sha256"] for row in rows}
        assert reader.fields["k"].contents() == "split me"


def test_big_endian_numbers_are_put_into_the_machines_order() -> None:
    (path,) = [path for path in FILES if path.stem == "v3_big_endian"]
    reader, told = GGUFReader(path), recorded(path)
    for pair in told["kv"]:
        contents = reader.fields[pair["key"]].contents()
        number = {"u64": int, "i64": int, "f32": float, "f64": float}.get(pair["type"], recorded_value)
        np.testing.assert_equal(contents, number(pair["value"]))
    for tensor, row in zip(reader.tensors, told["tensors"]):
        assert tensor.name == row["name"]
        assert digest(tensor.data.byteswap()) == row["sha256"], "the digest is of the swapped bytes"


def test_every_file_that_is_read_otherwise_has_a_test() -> None:
    assert set(DIFFERENT) <= {path.stem for path in FILES}


def test_other_formats_are_refused(here: Path) -> None:
    import ballast

    ballast.save("a.npz", {"a": np.ones(1)})
    with pytest.raises(ValueError, match="not GGUF"):
        GGUFReader("a.npz")
    with pytest.raises(ValueError, match="not changed in place"):
        GGUFReader("a.npz", "r+")
