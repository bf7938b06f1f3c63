"""Checkpoints for PyTorch Lightning. Needs the package ``lightning`` or ``pytorch-lightning``.

::

    from ballast.lightning import BallastCheckpoint

    checkpoints = BallastCheckpoint("runs/digits", keep_last=3)
    trainer = lightning.Trainer(callbacks=[checkpoints], max_epochs=10)
    trainer.fit(model, data, ckpt_path=checkpoints.resume_path())
"""

from __future__ import annotations

import copy
import importlib
import os
import sys
from typing import Any

from ballast import _core
from ballast._stateful import capture_random, restore_random
from ballast.checkpoint import CheckpointManager

__all__ = ["BallastCheckpoint"]


def _import_lightning() -> tuple[Any, Any]:
    """The callbacks and the plugins of the package that the program uses; the two have classes of their own."""
    names = ["lightning.pytorch", "pytorch_lightning"]
    names.sort(key=lambda name: name not in sys.modules)
    for name in names:
        try:
            return importlib.import_module(f"{name}.callbacks"), importlib.import_module(f"{name}.plugins")
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] != name.split(".")[0]:
                raise
    raise ImportError("ballast.lightning needs PyTorch Lightning: pip install lightning")


_callbacks, _plugins = _import_lightning()


class BallastCheckpoint(_callbacks.Checkpoint):  # type: ignore[misc, name-defined]  # pyright: ignore[reportUntypedBaseClass]
    """Saves everything that Lightning would put into a ``.ckpt`` file, and the random states, without stopping training.

    Saves when an epoch has ended, after its validation, and with ``every_n_steps`` within epochs too: a run goes on in
    the middle of an epoch only if its data loader has ``state_dict`` and ``load_state_dict``. Other arguments are those
    of ``ballast.CheckpointManager``; ``metric`` is one that the module logs. For training in one process.
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, every_n_steps: int = 0, every_n_epochs: int = 1, **options: Any
    ) -> None:
        if every_n_steps < 0 or every_n_epochs < 0:
            raise ValueError("every_n_steps and every_n_epochs must not be negative")
        self._folder = os.fspath(folder)
        self._every_n_steps = every_n_steps
        self._every_n_epochs = every_n_epochs
        self._options = options
        self._manager: CheckpointManager | None = None
        self._random: dict[str, Any] | None = None
        self._within_epoch = False
        self._ended_epoch: dict[str, Any] | None = None
        self._metrics: dict[str, float] = {}

    def resume_path(self) -> str | None:
        """For ``trainer.fit(ckpt_path=...)``: None where there is nothing yet to go on from."""
        if not os.path.isdir(self._folder):
            return None
        rows, damaged = _core.list_checkpoints(self._folder)
        return self._folder if rows or damaged else None

    # ---- hooks of Lightning

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        if stage != "fit":
            return
        if trainer.world_size > 1:
            raise ValueError("BallastCheckpoint saves the training of one process; this one has several")
        self._manager = CheckpointManager(self._folder, {"model": pl_module}, rng=False, **self._options)
        trainer.strategy.checkpoint_io = _FolderIO(self, self._folder, trainer.strategy.checkpoint_io)

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        # Before the loader's iterator is made, which draws random numbers.
        if self._random is not None and not self._within_epoch:
            self._restore_random()

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        if self._random is not None:
            self._restore_random()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if self._every_n_steps and trainer.global_step % self._every_n_steps == 0:
            self._save(trainer, within_epoch=True)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        # Schedulers that follow a metric are stepped after this hook, so that the checkpoint has to wait for the next
        # one; but Lightning knows how to go on from loops as they are now.
        if self._every_n_epochs and (trainer.current_epoch + 1) % self._every_n_epochs == 0:
            self._ended_epoch = copy.deepcopy(trainer.fit_loop.state_dict())

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        if self._ended_epoch is not None:
            self._save(trainer, within_epoch=False)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._ended_epoch = None  # the loops themselves have ended
        self._save(trainer, within_epoch=False)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._close()

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        if stage == "fit":
            self._close()

    # ---- how it is done

    def _restore_random(self) -> None:
        assert self._random is not None
        restore_random(self._random)
        self._random = None

    def _save(self, trainer: Any, *, within_epoch: bool) -> None:
        self._within_epoch = within_epoch
        self._metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
        trainer.save_checkpoint(self._folder)  # comes to store() through _FolderIO

    def _close(self) -> None:
        if self._manager is not None:
            manager, self._manager = self._manager, None
            manager.close()

    def store(self, checkpoint: dict[str, Any]) -> None:
        """What Lightning has put together. Tensors of the module are stored once, as weights."""
        assert self._manager is not None
        if self._ended_epoch is not None:
            checkpoint["loops"]["fit_loop"], self._ended_epoch = self._ended_epoch, None
        state = {"lightning": checkpoint, "within_epoch": self._within_epoch, "random": capture_random()}
        self._manager.save(checkpoint["global_step"], state, metrics=self._metrics)

    def load(self) -> dict[str, Any]:
        """What ``store`` was given; the random states are set when Lightning has done its own part."""
        assert self._manager is not None
        restored = self._manager.restore()
        if restored is None:
            raise FileNotFoundError(f"{self._folder}: there is no checkpoint")
        self._random = restored.state["random"]
        self._within_epoch = restored.state["within_epoch"]
        checkpoint: dict[str, Any] = restored.state["lightning"]
        return checkpoint


class _FolderIO(_plugins.CheckpointIO):  # type: ignore[misc, name-defined]  # pyright: ignore[reportUntypedBaseClass]
    """Sends Lightning's checkpoints to the callback's folder, and all others where they went before."""

    def __init__(self, callback: BallastCheckpoint, folder: str, others: Any) -> None:
        self._callback = callback
        self._folder = folder
        self._others = others

    def _is_ours(self, path: str | os.PathLike[str]) -> bool:
        return os.fspath(path) == self._folder

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        if self._is_ours(path):
            self._callback.store(checkpoint)
        else:
            self._others.save_checkpoint(checkpoint, path, storage_options)

    def load_checkpoint(self, path: Any, *words: Any, **options: Any) -> Any:
        return self._callback.load() if self._is_ours(path) else self._others.load_checkpoint(path, *words, **options)

    def remove_checkpoint(self, path: Any) -> None:
        self._others.remove_checkpoint(path)

    def teardown(self) -> None:
        self._others.teardown()
