"""Checkpoints of a training loop in Python: asynchronous, incremental and crash-safe.

The folders are those of ``ballast train``: ``ballast checkpoints list``, ``verify`` and ``export`` read them.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import operator
import os
import threading
import warnings
import weakref
from collections.abc import Mapping
from typing import Any

from ballast import _core
from ballast._open import save
from ballast._state_tree import TreeReader, TreeWriter, corrupt
from ballast._stateful import (
    capture,
    capture_random,
    check_object,
    expected_bytes,
    is_module,
    is_plain,
    put_back,
    restore_random,
)

__all__ = ["CheckpointManager", "CommitReport", "DamagedCheckpointWarning", "RestoredCheckpoint", "SaveReport"]

# Room for what expected_bytes() does not count: states of random numbers, counters of optimizers, gaps between tensors.
_SMALL_TENSORS = 1 << 20

_log = logging.getLogger("ballast")
_LAYOUT = 1  # of the state that this module writes


class DamagedCheckpointWarning(UserWarning):
    """A checkpoint is damaged, and an older one is used instead. ``warnings.simplefilter("error", ...)`` forbids that."""


@dataclasses.dataclass(frozen=True)
class SaveReport:
    """What a call of ``save`` cost the training loop."""

    step: int
    bytes: int  # of the snapshot
    wait_seconds: float  # for the checkpoint before, where that was still being written
    copy_seconds: float


@dataclasses.dataclass(frozen=True)
class CommitReport:
    """The last checkpoint that became durable."""

    step: int
    seconds: float  # from the end of the copy
    bytes_written: int
    bytes_reused: int  # of tensors that had not changed
    pruned: list[int]  # steps removed to make room


@dataclasses.dataclass(frozen=True)
class RestoredCheckpoint:
    """What ``restore`` found, besides what it has put back into the objects."""

    step: int
    state: Any  # what save() was given as state=
    metrics: dict[str, float]
    rejected: list[str]  # newer checkpoints that are damaged, each with the reason


class CheckpointManager:
    """Saves and restores the objects of a training loop.

    ``objects`` are modules, optimizers, schedulers, scalers, data loaders (whatever has ``state_dict`` and
    ``load_state_dict``), generators of random numbers, arrays, and dicts or lists of numbers, texts, tensors and arrays.
    With ``rng`` the global random states of Python, NumPy and PyTorch are saved too.

    A checkpoint is kept while any of the rules wants it: the newest ``keep_last`` (0: all), the best ``keep_best`` by
    ``metric``, and those whose step is a multiple of ``keep_every``.

    A snapshot is a copy in memory, which is kept for the next one. With ``reserve``, memory for the modules, optimizers and
    arrays among the objects is prepared in the background from the beginning, so that the first ``save`` need not take
    longer than later ones; without, it is taken by the first ``save``, for a manager that perhaps only restores. Never more
    than half of the available memory is reserved.

    >>> import ballast, numpy
    >>> weights, progress = numpy.zeros(3), {"epoch": 0}
    >>> with ballast.CheckpointManager("run", {"weights": weights, "progress": progress}) as manager:
    ...     weights += 1; progress["epoch"] = 1
    ...     _ = manager.save(100, metrics={"loss": 0.5})
    >>> weights[:] = -1
    >>> with ballast.CheckpointManager("run", {"weights": weights, "progress": progress}) as manager:
    ...     manager.restore().step
    100
    >>> weights, progress
    (array([1., 1., 1.]), {'epoch': 1})
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        objects: Mapping[str, Any] | None = None,
        *,
        rng: bool = True,
        keep_last: int = 3,
        keep_every: int = 0,
        keep_best: int = 0,
        metric: str = "",
        larger_is_better: bool = False,
        incremental: bool = True,
        sync: bool = True,
        threads: int = 0,
        reserve: bool = True,
    ) -> None:
        self._folder = os.fspath(folder)
        self._objects = dict(objects or {})
        for name, value in self._objects.items():
            check_object(name, value)
        self._rng = rng
        self._lock = threading.RLock()
        self._process = os.getpid()
        rules = {"keep_last": keep_last, "keep_every": keep_every, "keep_best": keep_best, "threads": threads}
        for name, number in rules.items():
            _count(name, number)
        expected = sum(map(expected_bytes, self._objects.values())) if reserve else 0
        self._core = _core.open_checkpoints(
            self._folder, keep_last, keep_best, metric, larger_is_better, keep_every, incremental, sync, threads
        )
        # Also when the interpreter ends: what was saved last is to become durable.
        self._finalizer = weakref.finalize(self, _finish, self._core, self._folder, self._process)
        _managers.add(self)
        if expected:
            self._core.reserve(expected + expected // 100 + _SMALL_TENSORS)

    @property
    def folder(self) -> str:
        return self._folder

    @property
    def closed(self) -> bool:
        return not self._finalizer.alive

    def save(self, step: int, state: Any = None, *, metrics: Mapping[str, float] | None = None) -> SaveReport:
        """Takes a snapshot and returns; it is written in the background.

        Where the checkpoint before is still being written, waits for it; where writing that failed, raises its error
        and takes no snapshot. ``state`` is any tree of values; ``restore`` gives it back. TypeError, naming the place,
        for what cannot be saved.
        """
        number = _count("step", step)
        values = [(str(name), float(value)) for name, value in (metrics or {}).items()]
        with self._lock:
            core = self._usable()
            self._raise_failure(core)
            writer, text = self._snapshot(state)
            row = core.save(number, writer.weights, writer.state, text, values)
        return SaveReport(number, **row)

    def restore(self, step: int | None = None, *, strict: bool = True) -> RestoredCheckpoint | None:
        """Puts the newest checkpoint, or that of ``step``, back into the objects. None: the folder has none.

        A damaged checkpoint is passed over with a ``DamagedCheckpointWarning``; where none is sound, or the one of
        ``step`` is not, that is a ``FormatError``. Everything is read and checked before the first object is changed.
        With ``strict=False``, objects that the checkpoint does not have keep their state, and what it has besides is
        left out.
        """
        with self._lock:
            loaded, rejected = self._load(step)
            return None if loaded is None else self._put_back(loaded, rejected, strict)

    def export(self, path: str | os.PathLike[str], step: int | None = None) -> int:
        """Writes the modules' weights of a checkpoint into one file, in the format of its extension. Gives the step.

        FileNotFoundError where there is no checkpoint. ``ballast checkpoints export`` does the same without Python.
        """
        with self._lock:
            loaded, _ = self._load(step)
            if loaded is None:
                raise FileNotFoundError(f"{self._folder}: there is no checkpoint")
            _save_weights(path, loaded)
            return loaded.step

    def steps(self) -> list[int]:
        """The checkpoints that are durable, the one saved last at the end."""
        with self._lock:
            self._raise_failure(self._usable())
            rows, damaged = _core.list_checkpoints(self._folder)
            _warn_of(damaged)
            return [row["step"] for row in rows]

    def latest(self) -> int | None:
        """The step of the newest durable checkpoint; None: there is none. FormatError: there are only damaged ones."""
        with self._lock:
            self._raise_failure(self._usable())
            rows, damaged = _core.list_checkpoints(self._folder)
            if damaged and not rows:
                raise corrupt(f"{self._folder}: no checkpoint is sound; {'; '.join(damaged)}")
            _warn_of(damaged)
            return rows[-1]["step"] if rows else None

    def wait(self) -> CommitReport | None:
        """Waits until everything saved is durable, and raises the error where that failed. Ctrl-C ends the wait alone."""
        with self._lock:
            core = self._usable()
            core.finish()
            row = core.last_commit()
            return None if row is None else CommitReport(**row)

    def close(self) -> None:
        """Waits as ``wait`` does, and gives the folder free. May be called twice."""
        with self._lock:
            if self.closed or os.getpid() != self._process:
                return
            core = self._core
            try:
                core.finish()
            except KeyboardInterrupt:
                raise  # still open: close() again, or leave it to the end of the program
            except BaseException:
                self._release(core)
                raise
            self._release(core)

    def __enter__(self) -> CheckpointManager:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            self.close()
        except Exception:
            if error is None:
                raise
            _log.exception("%s: the last checkpoint could not be written", self._folder)

    def __repr__(self) -> str:
        return f"<ballast.CheckpointManager {self._folder}: {', '.join(self._objects) or 'no objects'}{', closed' * self.closed}>"

    # ---- how it is done

    def _usable(self) -> _core.Checkpoints:
        if os.getpid() != self._process:
            raise RuntimeError(
                f"{self._folder}: the CheckpointManager belongs to process {self._process}, which was forked; "
                "use it there, or open another folder here"
            )
        return self._core  # which knows whether it is closed

    def _raise_failure(self, core: _core.Checkpoints) -> None:
        """Of the last write, where that has ended."""
        if not core.is_writing():
            core.finish()

    def _load(self, step: int | None) -> tuple[_core.LoadedCheckpoint | None, list[str]]:
        core = self._usable()
        if step is not None:
            return core.resume_from(_count("step", step)), []
        loaded, rejected = core.resume()
        if loaded is None and rejected:
            raise corrupt(f"{self._folder}: no checkpoint is sound; {'; '.join(rejected)}")
        _warn_of(rejected, 4)
        return loaded, rejected

    def _release(self, core: _core.Checkpoints) -> None:
        self._finalizer.detach()
        core.close()

    def _snapshot(self, state: Any) -> tuple[TreeWriter, str]:
        writer = TreeWriter()
        trees: dict[str, Any] = {}
        # The weights of the only module keep their names, so that the file is an ordinary one for other programs.
        alone = sum(map(is_module, self._objects.values())) == 1
        for name, value in self._objects.items():
            part = "weights" if is_module(value) else "state"
            trees[name] = writer.encode(capture(value), name, "" if alone and part == "weights" else name, part)
        document: dict[str, Any] = {"python": _LAYOUT, "objects": trees}
        if self._rng:
            document["rng"] = writer.encode(capture_random(), "rng", "rng")
        document["state"] = writer.encode(state, "state", "state")
        return writer, json.dumps(document, allow_nan=False)

    def _restore_and_export(self, folder: str, file: str) -> RestoredCheckpoint | None:
        """``restore(strict=False)``, and ``export`` of the same checkpoint, which is read once. Makes the folder."""
        with self._lock:
            loaded, rejected = self._load(None)
            if loaded is None:
                return None
            restored = self._put_back(loaded, rejected, strict=False)
            os.makedirs(folder, exist_ok=True)
            _save_weights(os.path.join(folder, file), loaded)
            return restored

    def _put_back(
        self, loaded: _core.LoadedCheckpoint, rejected: list[str], strict: bool
    ) -> RestoredCheckpoint:
        document = json.loads(loaded.state_json)
        if document.get("python") != _LAYOUT or not isinstance(document.get("objects"), dict):
            raise corrupt(f"{self._folder}: the checkpoint of step {loaded.step} was not saved from Python")
        saved: dict[str, Any] = document["objects"]
        if strict:
            self._check_names(loaded.step, saved)
        reader = TreeReader(loaded)
        trees = {
            name: reader.decode(saved[name], name, keep_device=is_plain(value))
            for name, value in self._objects.items()
            if name in saved
        }
        randoms = reader.decode(document["rng"], "rng") if self._rng and "rng" in document else None
        state = reader.decode(document.get("state"), "state", keep_device=True)
        for name, tree in trees.items():
            put_back(name, self._objects[name], tree)
        if randoms is not None:
            restore_random(randoms)
        return RestoredCheckpoint(loaded.step, state, loaded.metrics, rejected)

    def _check_names(self, step: int, saved: dict[str, Any]) -> None:
        for names, others, what in (
            (self._objects, saved, "the checkpoint does not have"),
            (saved, self._objects, "the checkpoint has besides"),
        ):
            missing = [name for name in names if name not in others]
            if missing:
                raise ValueError(f"{self._folder}: step {step}: objects that {what}: {', '.join(missing)}; see strict=")


def _save_weights(path: str | os.PathLike[str], loaded: _core.LoadedCheckpoint) -> None:
    save(path, {name: loaded.read("weights", name)[0] for name in loaded.weights})


def _count(name: str, value: int) -> int:
    number = operator.index(value)
    if not 0 <= number < 1 << 63:
        raise ValueError(f"{name} must be between 0 and 2**63, not {number}")
    return number


def _warn_of(damaged: list[str], level: int = 3) -> None:
    for why in damaged:
        warnings.warn(f"damaged checkpoint: {why}", DamagedCheckpointWarning, stacklevel=level)


def _finish(core: _core.Checkpoints, folder: str, process: int) -> None:
    """For a manager that nobody closed."""
    if os.getpid() != process:
        return
    try:
        core.finish()
    except Exception:  # noqa: BLE001 - there is nobody left to raise it to
        _log.exception("%s: the last checkpoint could not be written", folder)
    core.close()


_managers: weakref.WeakSet[CheckpointManager] = weakref.WeakSet()


def _abandon_all() -> None:
    """In a forked child, whose copies of the locks would outlive the parent."""
    for manager in list(_managers):
        manager._core.abandon()  # pyright: ignore[reportPrivateUsage]


os.register_at_fork(after_in_child=_abandon_all)
