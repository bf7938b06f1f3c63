"""What the tests of the Python module share."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def data() -> Path:
    """The files that the library's own tests read."""
    return ROOT / "tests" / "data"
