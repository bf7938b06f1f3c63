"""The command `ballast`, whose output the module's results are compared with."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest
from conftest import ROOT

DATA = ROOT / "tests" / "data"
MODELS = ROOT / "models"


def program() -> str:
    """BALLAST_PROGRAM, or that of the tree's build folder. Where there is none, the comparison is skipped."""
    path = os.environ.get("BALLAST_PROGRAM", str(ROOT / "build" / "bin" / "ballast"))
    if not os.access(path, os.X_OK):
        pytest.skip("there is no command to compare with: set BALLAST_PROGRAM")
    return path


def run(*arguments: object) -> str:
    done = subprocess.run([program(), *map(str, arguments)], capture_output=True, text=True, check=True)
    return done.stdout


def run_json(*arguments: object) -> Any:
    return json.loads(run(*arguments, "--json"))
