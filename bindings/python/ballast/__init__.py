"""Inspect, convert, run and train neural networks.

Everything here is imported when it is first used, so that ``import ballast`` itself costs little.
"""

from __future__ import annotations

import importlib
from typing import Any

from ballast._core import CancelledError, FormatError, __version__

# Where each name of the package lives: name -> module that has it.
_HOMES: dict[str, str] = {}
_MODULES: tuple[str, ...] = ()

__all__ = ["CancelledError", "FormatError", "__version__", *_HOMES, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    elif name in _MODULES:
        value = importlib.import_module(f"ballast.{name}")
    else:
        raise AttributeError(f"module 'ballast' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
