"""The package and its stubs pass mypy and pyright in strict mode."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from conftest import ROOT

# What of a program's a type checker must understand.
PROGRAM = """
import ballast
from ballast.safetensors.numpy import load_file

with ballast.open("x.safetensors") as file:
    shape: tuple[int, ...] = file["a"].shape
    names: list[str] = list(file)
    format_: str = file.format
report = ballast.verify("x")
sound: bool = report.sound
count: int = len(ballast.diff("a", "b").changes)
digest: str = ballast.hash("a").digest
arrays = load_file("x.safetensors")
answer = ballast.Constraint.of_schema({"type": "integer"})
valid: bool = answer.accepts(ballast.load("x").generate("y", constraint=answer).text)
"""


PACKAGE = ROOT / "bindings/python/ballast"


def check(words: list[str], folder: Path) -> None:
    done = subprocess.run([sys.executable, "-m", *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_mypy_understands_a_program(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    check(["mypy", "--strict", "program.py"], tmp_path)


def test_pyright_understands_a_program(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    check(["pyright", "--pythonpath", sys.executable, "-p", "pyrightconfig.json"], tmp_path)


def test_mypy_finds_the_package_sound(tmp_path: Path) -> None:
    check(["mypy", "--strict", str(PACKAGE)], tmp_path)


def test_pyright_finds_the_package_sound(tmp_path: Path) -> None:
    check(["pyright", "--pythonpath", sys.executable, "-p", str(ROOT / "pyproject.toml")], tmp_path)
