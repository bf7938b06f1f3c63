"""torch tensors, both ways, and loading without the danger of pickles."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import ballast
import ballast.torch
from conftest import ROOT

torch: Any = pytest.importorskip("torch")


def test_tensors_are_saved_as_they_are(here: Path) -> None:
    tensors = {
        "plain": torch.arange(6.0).reshape(2, 3),
        "bf16": torch.ones(4, dtype=torch.bfloat16),
        "fp8": torch.ones(4).to(torch.float8_e4m3fn),
        "transposed": torch.arange(6.0).reshape(2, 3).T,
        "gradient": torch.nn.Parameter(torch.ones(2)),
        "conjugate": torch.tensor([1 + 2j]).conj(),
        "bool": torch.tensor([True, False]),
    }
    ballast.save("a.safetensors", tensors)
    loaded = ballast.torch.load_state_dict("a.safetensors")
    for name, tensor in tensors.items():
        assert loaded[name].dtype == tensor.dtype and loaded[name].shape == tensor.shape
        assert torch.equal(loaded[name].to(torch.complex64), tensor.detach().to(torch.complex64))


def test_loaded_tensors_may_be_changed_and_the_file_stays(here: Path) -> None:
    ballast.save("a.safetensors", {"a": torch.zeros(1000)})
    before = Path("a.safetensors").read_bytes()
    loaded = ballast.torch.load_state_dict("a.safetensors")
    loaded["a"] += 1
    assert loaded["a"].sum() == 1000 and Path("a.safetensors").read_bytes() == before


def test_dlpack_goes_both_ways(here: Path) -> None:
    ballast.save("a.safetensors", {"a": torch.arange(4.0)})
    with ballast.open("a.safetensors", mode="c") as file:
        tensor = torch.from_dlpack(file["a"])
        tensor[0] = 9
        assert file["a"][0] == 9
    with ballast.open("a.safetensors") as file:
        copy = torch.from_dlpack(file["a"])
        assert copy.tolist() == [0, 1, 2, 3]


def test_a_checkpoint_comes_back_as_torch_saved_it(here: Path) -> None:
    saved = {"model": {"w": torch.ones(2, 2)}, "epoch": 3, "losses": [0.5, 0.25], "names": ("a", "b")}
    torch.save(saved, "a.pt")
    loaded = ballast.torch.load("a.pt")
    assert torch.equal(loaded["model"].pop("w"), saved["model"].pop("w")) and loaded == saved  # type: ignore[attr-defined]


def test_nothing_is_executed(here: Path) -> None:
    class Attack:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return Path.touch, (Path("executed"),)  # type: ignore[return-value]

    Path("a.pt").write_bytes(pickle.dumps(Attack()))
    torch.save({"w": torch.ones(1), "attack": Attack()}, "b.pt")
    for name in ("a.pt", "b.pt"):
        with pytest.raises(ballast.FormatError):
            ballast.torch.load(name)
    assert not Path("executed").exists()


ATTACKS = ROOT / "tests/data/torch_files/attacks"
ROWS = json.loads((ATTACKS / "index.json").read_text())
# What Ballast's reader takes and torch does not; nothing is wrong with its tensors.
REFUSED_BY_TORCH = {"pickle_frame_cuts_opcode.pt"}


@pytest.mark.parametrize("row", [row for row in ROWS if row["expect"] == "refuse"], ids=lambda row: row["file"])
def test_the_corpus_of_attacks_is_refused(row: dict[str, Any], here: Path) -> None:
    """Also what may be tolerated is refused, and by us: torch, which takes 41 of them, is not asked."""
    path = ATTACKS / row["file"]
    with pytest.raises(ballast.FormatError) as refusal:
        ballast.torch.load(path)
    assert row["file"] in str(refusal.value)
    assert (refusal.value.__cause__ is not None) == (row["file"] in REFUSED_BY_TORCH)
    assert not list(here.iterdir()), "nothing was executed"


@pytest.mark.parametrize("row", [row for row in ROWS if row["expect"] != "refuse"], ids=lambda row: row["file"])
def test_the_sound_files_among_them_are_read(row: dict[str, Any]) -> None:
    loaded = ballast.torch.load(ATTACKS / row["file"])
    assert list(loaded) == ["w"]
    assert torch.equal(loaded["w"], torch.arange(6.0).reshape(2, 3))


def test_the_corpus_is_complete() -> None:
    assert len(ROWS) == 185
    assert {row["file"] for row in ROWS} == {path.name for path in ATTACKS.glob("*.pt")}


def test_sparse_tensors_are_refused(here: Path) -> None:
    with pytest.raises(ValueError, match="to_dense"):
        ballast.save("a.npz", {"a": torch.eye(3).to_sparse()})
