"""Inspect, convert, run and train neural networks.

Everything here is imported when it is first used, so that ``import ballast`` itself costs little.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from ballast import _core
from ballast._core import CancelledError, FormatError, __version__

Mapping.register(_core.Archive)  # pyright: ignore

# Where each name of the package lives: name -> module that has it.
_HOMES: dict[str, str] = {
    **dict.fromkeys(("Classification", "Generation", "Model", "Token", "load"), "ballast.models"),
    **dict.fromkeys(("Encoding", "Tokenizer"), "ballast.tokenizer"),
    **dict.fromkeys(("TrainResult", "train"), "ballast.training"),
    **dict.fromkeys(("Archive", "Tensor"), "ballast._core"),
    **dict.fromkeys(("open", "save", "formats"), "ballast._open"),
    "CheckpointManager": "ballast.checkpoint",
    "Constraint": "ballast.constraint",
    **dict.fromkeys(
        ("convert", "diff", "doctor", "hash", "quantization_types", "quantize", "stats", "verify"), "ballast._tools"
    ),
}
_MODULES: tuple[str, ...] = (
    "batch", "checkpoint", "constraint", "gguf", "llama", "models", "netcl", "ray", "safetensors", "tokenizer", "torch",
    "training", "transformers",
)  # fmt: skip
# These import packages that not everyone has, so that `from ballast import *` leaves them out.
_OPTIONAL: tuple[str, ...] = ("hf_trainer", "lightning")

__all__ = ["CancelledError", "FormatError", "__version__"]
__all__ += [*_HOMES, *_MODULES]  # pyright: ignore


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    elif name in (*_MODULES, *_OPTIONAL):
        value = importlib.import_module(f"ballast.{name}")
    else:
        raise AttributeError(f"module 'ballast' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
