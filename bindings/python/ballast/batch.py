"""Many texts at once, in this process or in the workers of an executor.

The functions here are plain and picklable, and take the model by its path. Each process opens a model the first time it
is named there and keeps it open, so that a pool of processes, of Dask's or of Ray's can be handed one batch after the
other.

>>> from concurrent.futures import ThreadPoolExecutor
>>> from functools import partial
>>> write = partial(generate, model="models/default", max_tokens=4, temperature=0)
>>> with ThreadPoolExecutor(2) as pool:
...     [len(texts) for texts in pool.map(write, [["It is", "She"], ["The"]])]
[2, 1]
"""

from __future__ import annotations

import os
import reprlib
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Union, cast

from ballast._inputs import PathLike
from ballast.models import Generation, Model, Prompt, load

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

__all__ = ["close_models", "embed", "generate", "open_model"]

ModelOrPath = Union[PathLike, Model]

# A worker that runs more kinds of task than this opens models again and again, but does not fill its memory with them.
_MOST_OPEN = 4

_lock = threading.Lock()
_open: dict[tuple[object, ...], Model] = {}


def open_model(model: ModelOrPath, load_options: Mapping[str, Any] | None = None) -> Model:
    """The model that this process keeps open under a path; opened with ``ballast.load`` if it is not there yet.

    The same path with other ``load_options`` is another model. An open model is returned as it is.

    >>> open_model("models/default") is open_model("models/default")
    True
    """
    if isinstance(model, Model):
        return model
    path, options = os.fspath(model), dict(load_options or {})
    key = (path, *sorted(options.items()))
    with _lock:
        found = _open.pop(key, None)
        if found is None or found.closed:
            found = load(path, **options)
        _open[key] = found  # the latest is last
        while len(_open) > _MOST_OPEN:
            del _open[next(iter(_open))]  # closes when nobody uses it any more
        return found


def close_models() -> None:
    """Closes the models that this process keeps open."""
    with _lock:
        models = list(_open.values())
        _open.clear()
    for model in models:
        model.close()


def generate(
    prompts: Iterable[Prompt], model: ModelOrPath, *, load_options: Mapping[str, Any] | None = None, **options: Any
) -> list[str]:
    """The continuation of each prompt (a text, or token ids), all computed together.

    ``options`` are those of :meth:`ballast.Model.generate`, ``load_options`` those of :func:`ballast.load`. A text does not
    depend on its batch. A prompt that cannot be continued is a ValueError or TypeError that names its row.

    >>> generate(["It is a truth"], "models/default", max_tokens=12, temperature=0)
    [' in the world, and I am sure I shall not']
    """
    opened = open_model(model, load_options)
    begun: list[Generation] = []
    row, prompt = 0, cast("Prompt", "")
    try:
        for row, prompt in enumerate(prompts):
            begun.append(opened.generate(_checked_prompt(prompt), **options))
        texts: list[str] = []
        for row, generation in enumerate(begun):
            texts.append(generation.text)
        return texts
    except (TypeError, ValueError) as error:
        raise _at_row(error, row, prompt if len(begun) <= row else None) from error
    finally:
        for generation in begun:
            generation.cancel()


def embed(
    texts: Iterable[str], model: ModelOrPath, *, load_options: Mapping[str, Any] | None = None
) -> NDArray[numpy.float32]:
    """Vectors of texts, ``[texts, width]``. A vector does not depend on its batch."""
    listed = list(texts)
    for row, text in enumerate(listed):
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - not everyone checks types
            raise _at_row(TypeError(f"a text must be a str, not {type(text).__name__}"), row, text)
    return open_model(model, load_options).embed(listed)


def _checked_prompt(prompt: Any) -> Prompt:
    """Token ids may come as an array; what is neither these nor a text is named before the model sees it."""
    if isinstance(prompt, str):
        return prompt
    if hasattr(prompt, "tolist"):
        prompt = prompt.tolist()
    if not isinstance(prompt, (list, tuple)):
        raise TypeError(f"a prompt must be a str or token ids, not {type(prompt).__name__}")
    return cast("Prompt", prompt)


def _at_row(error: Exception, row: int, value: Any) -> Exception:
    kind = TypeError if isinstance(error, TypeError) else ValueError
    shown = "" if value is None else f" ({reprlib.repr(value)})"
    return kind(f"row {row}{shown}: {error}")
