"""What the tests of the Python module share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def data() -> Path:
    """The files that the library's own tests read."""
    return ROOT / "tests" / "data"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of its own, which is the current one."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path


@pytest.fixture
def here_with_models(here: Path) -> Path:
    """The same, with the models that the repository ships: what examples show works from the root of a clone too."""
    (here / "models").symlink_to(ROOT / "models")
    return here
