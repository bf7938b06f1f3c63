"""``ballast.gguf.GGUFReader`` beside the package ``gguf``."""

from __future__ import annotations

from pathlib import Path

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
    for name, field in theirs.fields.items():
        if not name.startswith("GGUF."):
            np.testing.assert_equal(ours.fields[name].contents(), field.contents())
    assert ours.alignment == theirs.alignment


@pytest.mark.parametrize("name", DIFFERENT)
def test_it_reads_what_the_package_reads_otherwise(name: str) -> None:
    (path,) = [path for path in FILES if path.stem == name]
    reader = GGUFReader(path)
    assert all(tensor.data.nbytes == tensor.n_bytes for tensor in reader.tensors)


def test_other_formats_are_refused(here: Path) -> None:
    import ballast

    ballast.save("a.npz", {"a": np.ones(1)})
    with pytest.raises(ValueError, match="not GGUF"):
        GGUFReader("a.npz")
    with pytest.raises(ValueError, match="not changed in place"):
        GGUFReader("a.npz", "r+")
