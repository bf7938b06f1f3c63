"""Checkpoints for Hugging Face's ``Trainer``. Needs the packages ``transformers`` and ``accelerate``.

::

    from ballast.hf_trainer import BallastCallback

    checkpoints = BallastCallback("runs/notes", every_n_steps=100, keep_last=3)
    arguments = transformers.TrainingArguments("out", save_strategy="no")
    trainer = transformers.Trainer(model, arguments, train_dataset=data, callbacks=[checkpoints])
    trainer.train(resume_from_checkpoint=checkpoints.resume_folder())
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
from typing import Any

from ballast._stateful import capture_random, restore_random
from ballast.checkpoint import CheckpointManager

__all__ = ["BallastCallback"]


def _import_callback() -> Any:
    try:
        return importlib.import_module("transformers.trainer_callback")
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "transformers":
            raise
        raise ImportError("ballast.hf_trainer needs transformers: pip install transformers accelerate") from error


class BallastCallback(_import_callback().TrainerCallback):  # type: ignore[misc]  # pyright: ignore[reportUntypedBaseClass]
    """Saves model, optimizer, scheduler, scaler, the trainer's state and the random states, without stopping training.

    Saves every ``every_n_steps`` steps and at the end. Other arguments are those of ``ballast.CheckpointManager``;
    ``metric`` is one that the trainer logs. For training in one process; the states of other callbacks (early
    stopping) are not saved.
    """

    def __init__(self, folder: str | os.PathLike[str], *, every_n_steps: int = 500, **options: Any) -> None:
        if every_n_steps < 1:
            raise ValueError("every_n_steps must be at least 1")
        self._folder = os.fspath(folder)
        self._every_n_steps = every_n_steps
        self._options = options
        self._manager: CheckpointManager | None = None
        self._resumed: int | None = None
        self._saved = 0
        self._random: dict[str, Any] | None = None
        self._metrics: dict[str, float] = {}

    def resume_folder(self) -> str | None:
        """For ``trainer.train(resume_from_checkpoint=...)``: None where there is nothing yet to go on from.

        The trainer wants a folder with the weights and its own state, which is written inside the run's; everything
        else is restored by this callback.
        """
        if not os.path.isdir(self._folder):
            return None
        place = os.path.join(self._folder, "resume")
        with CheckpointManager(self._folder, rng=False, **self._options) as manager:
            restored = manager._restore_and_export(place, "model.safetensors")  # pyright: ignore[reportPrivateUsage]
        if restored is None:
            return None
        with open(os.path.join(place, "trainer_state.json"), "w", encoding="utf-8") as file:
            file.write(restored.state["trainer"])
        self._resumed = restored.step
        return place

    def close(self) -> None:
        """For a training that ended with an exception, of which the trainer tells nobody."""
        if self._manager is not None:
            manager, self._manager = self._manager, None
            manager.close()

    # ---- events of the trainer

    def on_train_begin(self, args: Any, state: Any, control: Any, **objects: Any) -> None:
        if args.world_size > 1:
            raise ValueError("BallastCallback saves the training of one process; this one has several")
        self.close()
        self._manager = CheckpointManager(self._folder, _trained(objects), rng=False, **self._options)
        self._saved = state.global_step
        if self._resumed is None:
            return
        if self._resumed != state.global_step:
            raise ValueError(f"give resume_folder() to train(resume_from_checkpoint=...): step {self._resumed} is to be resumed")
        restored = self._manager.restore(self._resumed)
        assert restored is not None
        self._random, self._resumed = restored.state["random"], None

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        self._metrics.update({name: value for name, value in (logs or {}).items() if isinstance(value, (int, float))})

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        # Here, not at the end of the step before: its log is written now, and the batch for this one has been drawn. The
        # same holds when the trainer comes here after resuming.
        if self._random is not None:
            restore_random(self._random)
            self._random = None
        elif state.global_step > self._saved and state.global_step % self._every_n_steps == 0:
            self._save(state)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step > self._saved:
            self._save(state)
        self.close()

    def _save(self, state: Any) -> None:
        assert self._manager is not None
        trainer = json.dumps(dataclasses.asdict(state))
        self._manager.save(state.global_step, {"trainer": trainer, "random": capture_random()}, metrics=self._metrics)
        self._saved = state.global_step


def _trained(objects: dict[str, Any]) -> dict[str, Any]:
    """What the trainer passes to every event. accelerate keeps the scaler of mixed precision with the optimizer."""
    optimizer = objects["optimizer"]
    chosen = {"model": objects["model"], "optimizer": optimizer, "scheduler": objects["lr_scheduler"]}
    scaler: Any = getattr(optimizer, "scaler", None)
    return chosen if scaler is None else {**chosen, "scaler": scaler}
