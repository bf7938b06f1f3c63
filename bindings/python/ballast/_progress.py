"""Progress of long work: a callback, or tqdm's bar where it is installed."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Generator
from typing import Any


@contextlib.contextmanager
def progress_callback(progress: Any) -> Generator[Callable[[str, int, int], Any] | None, None, None]:
    """``True`` is a bar of tqdm's, a callable is called with (activity, done, total), ``None`` and ``False`` are silent."""
    if progress is None or progress is False:
        yield None
    elif progress is not True:
        if not callable(progress):
            raise TypeError("progress must be True, None or a callable of (activity, done, total)")
        yield progress
    else:
        yield from _tqdm_bar()


def _tqdm_bar() -> Generator[Callable[[str, int, int], Any] | None, None, None]:
    try:
        tqdm: Any = importlib.import_module("tqdm.auto").tqdm
    except ImportError:
        yield None
        return
    with tqdm(unit="B", unit_scale=True, unit_divisor=1024) as bar:

        def show(activity: str, done: int, total: int) -> None:
            if bar.desc != f"{activity}: ":
                bar.set_description(activity, refresh=False)
            bar.total = total or None
            bar.update(done - bar.n)

        yield show
