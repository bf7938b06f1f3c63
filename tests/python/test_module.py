"""The package as a whole."""

from __future__ import annotations

import re
import subprocess
import sys

import ballast


def test_the_version_is_the_librarys() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", ballast.__version__)


def test_importing_it_imports_neither_numpy_nor_torch() -> None:
    code = "import ballast, sys; print('numpy' in sys.modules, 'torch' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["False", "False"]


def test_format_errors_are_value_errors() -> None:
    assert issubclass(ballast.FormatError, ValueError)
