"""What ballast.CheckpointManager reads, and where its snapshots go."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import ballast
from conftest import bytes_read


def test_restoring_reads_a_checkpoint_once(here: Path) -> None:
    weights = np.arange(4 << 20, dtype=np.float32)
    with ballast.CheckpointManager("run", {"weights": weights}) as manager:
        manager.save(1)
        manager.wait()
        weights[:] = 0
        before = bytes_read()
        manager.restore()
        assert weights.nbytes <= bytes_read() - before < 1.2 * weights.nbytes
    np.testing.assert_array_equal(weights, np.arange(4 << 20, dtype=np.float32))


def test_a_snapshot_that_outgrows_what_was_reserved_is_whole(here: Path) -> None:
    weights, history = np.arange(1 << 20, dtype=np.float32), {"losses": np.zeros(10)}
    with ballast.CheckpointManager("run", {"weights": weights, "history": history}) as manager:
        for step, size in enumerate((1 << 19, 1 << 20, 1 << 21, 1 << 16)):
            history["losses"] = np.full(size, float(step))
            manager.save(step)
            manager.wait()
            weights[:] = 0
            history.clear()
            assert manager.restore()
            np.testing.assert_array_equal(weights, np.arange(1 << 20, dtype=np.float32))
            np.testing.assert_array_equal(history["losses"], np.full(size, float(step)))
