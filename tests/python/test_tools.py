"""verify, diff, hash, stats, convert, quantize and doctor."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import ballast


@pytest.fixture
def weights(here: Path) -> Path:
    path = here / "w.safetensors"
    rng = np.random.default_rng(1)
    ballast.save(path, {"a": rng.standard_normal((8, 256), np.float32), "b": np.array([1.0, np.nan, np.inf], np.float32)})
    return path


def test_verify_says_what_is_wrong_and_where(weights: Path) -> None:
    assert ballast.verify(weights)
    report = ballast.verify(weights, content=True)
    assert not report and not report.sound
    assert {finding.code for finding in report.findings} >= {"non_finite"}
    assert "non_finite" in repr(report) and "<table>" in report._repr_html_()
    with pytest.raises(FileNotFoundError):
        ballast.verify("nothing.npz")


def test_doctor_finds_the_cause_and_rescues(weights: Path, here: Path) -> None:
    content = weights.read_bytes()
    (here / "cut.safetensors").write_bytes(content[:-8])
    diagnosis = ballast.doctor("cut.safetensors")
    assert diagnosis.verdict == "damaged" and diagnosis.sound_tensors == 1 and [t.name for t in diagnosis.lost] == ["b"]
    assert "cut.safetensors: damaged" in repr(diagnosis) and "<table>" in diagnosis._repr_html_()
    rescued = ballast.doctor("cut.safetensors", rescue="rescued.safetensors")
    assert rescued.files == ["rescued.safetensors"] and list(ballast.open("rescued.safetensors")) == ["a"]


def test_diff_pairs_by_name_and_by_content(weights: Path) -> None:
    with ballast.open(weights) as file:
        a, b = file["a"].numpy(copy=True), file["b"].numpy()
    ballast.save("other.npz", {"a": a + 0.5, "renamed": b})
    report = ballast.diff(weights, "other.npz")
    assert not report and {entry.kind for entry in report.entries} == {"changed", "renamed"}
    assert report.changes[0].max_abs == pytest.approx(0.5, rel=1e-3)
    assert "b = renamed" in repr(report) and "<table>" in report._repr_html_()
    assert ballast.diff(weights, weights).equal
    with ballast.open(weights) as file:
        assert ballast.diff(file, "other.npz", atol=1).count("changed") == 1
        assert not file.closed


def test_hash_depends_on_content_alone(weights: Path) -> None:
    ballast.convert(weights, "w.npz")
    ours, theirs = ballast.hash(weights, sha256=True), ballast.hash("w.npz")
    assert ours.digest == theirs.digest == str(ours) and len(ours["a"].sha256 or "") == 64
    assert theirs["a"].sha256 is None and theirs.digest in repr(theirs)
    with pytest.raises(KeyError):
        theirs["c"]


def test_stats_measure_and_draw(weights: Path) -> None:
    report = ballast.stats(weights)
    numbers = report["a"].numbers
    assert numbers is not None and numbers.count == 2048 and abs(numbers.mean) < 0.1
    assert sum(numbers.histogram.counts) + numbers.histogram.below + numbers.histogram.above == 2048
    odd = report["b"].numbers
    assert odd is not None and (odd.nan, odd.positive_infinity, odd.finite) == (1, 1, 1)
    assert "<svg" in report._repr_html_() and "2 not finite" in repr(report)
    with pytest.raises(KeyError, match="missing_one"):
        ballast.stats(weights, only=["a", "missing_one"])


def test_convert_selects_casts_and_says_what_it_did(weights: Path) -> None:
    report = ballast.convert(weights, "half.safetensors", only=["^a$"], dtype="f16")
    assert report.tensors == 1 and report.files == ["half.safetensors"]
    assert ballast.open("half.safetensors")["a"].type == "f16"
    with pytest.raises(FileExistsError):
        ballast.convert(weights, "half.safetensors")
    assert ballast.convert(weights, "half.safetensors", dry_run=True).files == []
    with pytest.raises(ValueError, match="no type is called"):
        ballast.convert(weights, "x.npz", dtype="f17")


def test_convert_translates_models(data: Path, here: Path) -> None:
    report = ballast.convert(data / "hf" / "llama_plain", "llama.gguf")
    assert report.format == "gguf" and report.source_format == "safetensors"
    assert ballast.open("llama.gguf").metadata["general.architecture"] == "llama"


def test_quantize_reports_each_tensor(weights: Path) -> None:
    ballast.save("plain.safetensors", {"a": ballast.open(weights)["a"]})
    report = ballast.quantize("plain.safetensors", "small.gguf", "q4_k", pure=True)
    (tensor,) = report.quantized
    assert (tensor.from_type, tensor.to_type) == ("f32", "q4_k") and 0 < (tensor.relative or 0) < 0.2
    assert report.bytes_after < report.bytes_before / 6
    assert "q4_k" in repr(report) and "<table>" in report._repr_html_()
    with ballast.open("small.gguf") as file:
        assert file["a"].type == "q4_k" and file["a"].dtype == np.float32
        error = np.abs(file["a"].numpy() - ballast.open(weights)["a"].numpy()).max()
        assert error == pytest.approx(tensor.max_abs, rel=1e-5)
    with pytest.raises(ValueError, match="q4_k"):
        ballast.quantize("plain.safetensors", "other.gguf", "q4_kk")


def test_work_can_be_cancelled(weights: Path) -> None:
    with pytest.raises(ballast.CancelledError):
        ballast.convert(weights, "x.npz", progress=lambda *_: False)
    assert sorted(os.listdir()) == ["w.safetensors"]


def test_notebooks_show_the_tree_of_an_archive(data: Path, weights: Path) -> None:
    with ballast.open(data / "hf" / "llama_plain") as file:
        assert "<details" in file._repr_html_()
    with ballast.open(weights) as file:
        assert "<svg" in file["a"]._repr_html_()
    assert "closed" in file._repr_html_()


def test_names_cannot_smuggle_html_into_notebooks(here: Path) -> None:
    ballast.save("a.npz", {"<script>": np.ones(2)})
    with ballast.open("a.npz") as file:
        for shown in (file._repr_html_(), file["<script>"]._repr_html_(), ballast.stats(file)._repr_html_()):
            assert "<script>" not in shown
