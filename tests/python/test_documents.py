"""Examples in docstrings and in docs/python.md run as they are printed."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from pathlib import Path
from types import ModuleType

import pytest

import ballast
from conftest import ROOT

OPTIONS = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL | doctest.NORMALIZE_WHITESPACE
# These modules import packages that not everyone has; their docstrings are run where these are installed.
NEEDS = {"ballast.safetensors.flax": "jax", "ballast.lightning": "lightning", "ballast.hf_trainer": "transformers", "ballast.ray": "ray"}
SECTION_NEEDS = {"Checkpoint PyTorch training": "torch", "Use Ray": "ray"}


def modules() -> list[str]:
    found = pkgutil.walk_packages(ballast.__path__, "ballast.")
    return sorted(module.name for module in found if module.name != "ballast._core")


@pytest.mark.parametrize("name", modules())
def test_docstrings_are_true(name: str, here_with_models: Path) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    module: ModuleType = importlib.import_module(name)
    assert doctest.testmod(module, optionflags=OPTIONS).failed == 0


def sections() -> list[tuple[str, str]]:
    """Each heading of the page with its examples: they share names, as in one session."""
    text = (ROOT / "docs/python.md").read_text()
    parts = re.split(r"^## (.*)$", text, flags=re.MULTILINE)
    pairs = list(zip(parts[1::2], parts[2::2]))
    return [(title, "\n".join(re.findall(r"^```python\n(.*?)^```", body, re.MULTILINE | re.DOTALL))) for title, body in pairs]


@pytest.mark.parametrize(("title", "code"), [pytest.param(*s, id=s[0]) for s in sections() if s[1]])
def test_the_page_is_true(title: str, code: str, here_with_models: Path) -> None:
    """Lines with >>> are doctests; the others are run, which is all that they claim."""
    if title in SECTION_NEEDS:
        pytest.importorskip(SECTION_NEEDS[title])
    if ">>>" not in code:
        exec(compile(code, f"docs/python.md: {title}", "exec"), {"__name__": "__main__"})  # noqa: S102
        return
    test = doctest.DocTestParser().get_doctest(code, {}, title, "docs/python.md", 0)
    failures: list[str] = []
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    runner.run(test, out=failures.append)
    assert not failures, "".join(failures)
