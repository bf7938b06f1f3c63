"""Training from a configuration: what ``ballast train`` does, with callbacks."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Union, cast

from ballast import _core
from ballast._inputs import PathLike

__all__ = ["TrainResult", "train"]

TrainEvent = Mapping[str, Any]
Callback = Callable[[TrainEvent], Any]
Config = Union[PathLike, Mapping[str, Any]]

_log = logging.getLogger("ballast.train")


@dataclass(frozen=True)
class TrainResult:
    """What became of a run."""

    step: int
    total_steps: int
    steps_made: int
    parameters: int
    resumed_from: int | None
    loss: float
    eval_loss: float | None
    eval_accuracy: float | None
    finished: bool
    output: str | None
    config: dict[str, Any]

    def __repr__(self) -> str:
        text = f"TrainResult(step {self.step} of {self.total_steps}, loss {self.loss:.4g}"
        if self.eval_loss is not None:
            text += f", held out {self.eval_loss:.4g}"
        if self.eval_accuracy is not None:
            text += f" ({self.eval_accuracy:.2%} right)"
        return text + (")" if self.finished else ", stopped)")


def train(
    config: Config,
    callbacks: Callback | Iterable[Callback] = (),
    *,
    overrides: Mapping[str, Any] | None = None,
    device: str = "cpu",
    overwrite: bool = False,
) -> TrainResult:
    """Trains a model.

    ``config`` is the path of a TOML or JSON file as ``ballast train`` takes it, or the same as a mapping of sections;
    docs/training.md lists the keys. ``overrides`` such as ``{"train.steps": 10}`` win over it. Paths in a file start from its
    folder, those in a mapping or in ``overrides`` from the current one.

    Every callback is called with each event, a dict whose ``"event"`` is "step", "eval", "checkpoint", "resume" or
    "warning". One that returns False stops the run behind a checkpoint; what it raises ends the run and is raised here. So
    does Ctrl-C. A run with checkpoints resumes when it is started again, and ends with the same bits.

    >>> result = train("models/digits/train.toml", overrides={"train.steps": 2})
    >>> result.step, result.finished
    (2, True)
    """
    listeners: list[Callback] = [callbacks] if callable(callbacks) else list(callbacks)

    def on_event(event: TrainEvent) -> bool:
        if event["event"] == "warning":
            _log.warning("step %d: %s", event["step"], event["text"])
        going = True
        for listener in listeners:
            if listener(event) is False:
                going = False
        return going

    texts: list[str] = []
    if isinstance(config, (str, os.PathLike)):
        texts = [f"{key}={_toml(value)}" for key, value in (overrides or {}).items()]
        source, is_path = os.fspath(config), True
    else:
        source, is_path = json.dumps(_merged(config, overrides or {})), False
    told = _core.train(source, is_path, texts, device, overwrite, on_event, _log.info, _read_picture)
    told["config"] = json.loads(told["config"])
    return TrainResult(**told)


def _toml(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _merged(config: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    sections: dict[str, Any] = json.loads(json.dumps(dict(config), default=_plain))
    for key, value in overrides.items():
        *path, last = key.split(".")
        place = sections
        for part in path:
            place = place.setdefault(part, {})
        place[last] = value
    return sections


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    if isinstance(value, os.PathLike):
        return os.fspath(cast("os.PathLike[str]", value))
    raise TypeError(f"a configuration holds no {type(value).__name__}")


def _read_picture(path: str) -> tuple[int, int, bytes]:
    from ballast.models import _pixels  # pyright: ignore[reportPrivateUsage]

    pixels = _pixels(path)
    return pixels.shape[1], pixels.shape[0], pixels.tobytes()
