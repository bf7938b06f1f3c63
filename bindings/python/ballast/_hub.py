"""Models in the cache of huggingface_hub, which is read and never written here."""

from __future__ import annotations

import os
import re

_NAME = re.compile(r"[\w.-]+/[\w.-]+(@[\w./-]+)?")


def cache_folder() -> str:
    """Where huggingface_hub keeps what it downloaded, by its own environment variables."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if folder := os.environ.get(variable):
            return folder
    home = os.environ.get("HF_HOME") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "huggingface"
    )
    return os.path.join(home, "hub")


def cached_model(name: str) -> str | None:
    """The folder of the model "org/name" or "org/name@revision" in the cache, or None."""
    if not _NAME.fullmatch(name):
        return None
    model, _, revision = name.partition("@")
    folder = os.path.join(cache_folder(), "models--" + model.replace("/", "--"))
    revision = revision or "main"
    try:
        with open(os.path.join(folder, "refs", revision), encoding="ascii") as file:
            revision = file.read().strip()
    except (OSError, UnicodeDecodeError):
        pass  # a revision may be the commit itself
    snapshot = os.path.join(folder, "snapshots", revision)
    return snapshot if os.path.isdir(snapshot) else None
