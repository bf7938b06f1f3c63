"""ballast.CheckpointManager beside other processes, threads and signals, on a full disk, and when the program ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import ballast


def test_use_after_close_is_an_error(here: Path) -> None:
    manager = ballast.CheckpointManager("run")
    manager.close()
    manager.close()
    assert manager.closed and "closed" in repr(manager)
    for call in (lambda: manager.save(1), manager.restore, manager.steps, manager.latest, manager.wait):
        with pytest.raises(ValueError, match="run is closed"):
            call()


FULL_DISK = """
import resource, signal, sys, numpy as np, ballast
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
limit = resource.getrlimit(resource.RLIMIT_FSIZE)
array = np.random.default_rng(0).random(200_000)
manager = ballast.CheckpointManager("run", {"array": array})
manager.save(1); manager.wait()
array += 1
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limit[1]))
for call in (manager.wait, lambda: manager.save(3), manager.restore, manager.steps, manager.latest):
    manager.save(2)
    if call != manager.wait:
        while manager._core.is_writing(): pass
    try:
        call()
        sys.exit("no error")
    except OSError as error:
        assert "saving step 2" in str(error), error
    manager.wait()
manager.save(2)
try:
    manager.close()
    sys.exit("no error")
except OSError: pass
assert manager.closed
resource.setrlimit(resource.RLIMIT_FSIZE, limit)
with ballast.CheckpointManager("run", {"array": array}) as manager:
    assert manager.steps() == [1]
    manager.save(2)
    manager.wait()
    assert manager.steps() == [1, 2]
try:
    with ballast.CheckpointManager("run", {"array": array}) as manager:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limit[1]))
        array += 1
        manager.save(3)
        raise KeyError("mine")
except KeyError: print("kept my error")
"""


def test_a_full_disk_is_raised_by_the_next_call_and_by_wait_and_close(here: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FULL_DISK], cwd=here, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout == "kept my error\n", done.stdout + done.stderr
    assert "the last checkpoint could not be written" in done.stderr


def test_what_was_saved_last_becomes_durable_when_the_program_ends(here: Path) -> None:
    code = "import numpy as np, ballast; m = ballast.CheckpointManager('run', {'a': np.zeros(3_000_000)}); m.save(5)"
    assert subprocess.run([sys.executable, "-c", code], cwd=here).returncode == 0
    with ballast.CheckpointManager("run") as manager:
        assert manager.latest() == 5


def test_a_forked_child_neither_uses_nor_holds_the_folder(here: Path) -> None:
    code = """
import os, sys, time, numpy as np, ballast
array = np.zeros(2_000_000)
manager = ballast.CheckpointManager("run", {"array": array})
manager.save(1)  # forks while this is being written
ready, told = os.pipe()
child = os.fork()
if child == 0:
    try:
        manager.save(2)
    except RuntimeError as error:
        assert "belongs to process" in str(error)
        manager.close()
        del manager
        os.write(told, b"x")
        time.sleep(60)
    os._exit(1)
assert os.read(ready, 1) == b"x"
manager.save(2)
manager.close()
with ballast.CheckpointManager("run", {"array": array}) as again:
    print(again.steps())
os.kill(child, 9)
os.waitpid(child, 0)
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=here, capture_output=True, text=True, timeout=120)
    assert done.stdout == "[1, 2]\n", done.stdout + done.stderr


def test_a_forked_child_may_end_as_usual(here: Path) -> None:
    code = """
import os, sys, numpy as np, ballast
manager = ballast.CheckpointManager("run", {"a": np.zeros(1_000_000)})
manager.save(1)
if os.fork() == 0:
    sys.exit(0)
assert os.wait()[1] == 0
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=here, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_ctrl_c_ends_a_wait_and_the_checkpoint_is_written_all_the_same(here: Path) -> None:
    code = """
import numpy as np, ballast, sys
manager = ballast.CheckpointManager("run", {"a": np.random.default_rng(0).random(40_000_000)})
manager.save(1)
print("ready", flush=True)
manager.wait()
print("written", flush=True)
manager.wait()
import time; time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code], cwd=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stderr is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        errors = child.stderr.read()
        assert "KeyboardInterrupt" in errors and child.wait(60) != 0
    with ballast.CheckpointManager("run") as manager:
        assert manager.latest() == 1


def test_an_array_that_cannot_be_made_is_raised_as_it_was_and_is_no_damage(here: Path) -> None:
    code = """
import numpy as np, ballast
empty, no_room = np.empty, True
def empty_if_there_is_room(*words):
    if no_room:
        raise MemoryError("no room for it")
    return empty(*words)
np.empty = empty_if_there_is_room
array = np.ones(1_000_000)
with ballast.CheckpointManager("run", {"array": array}) as manager:
    manager.save(1)
    for step in (None, 1):
        try:
            manager.restore(step)
        except MemoryError as error:
            print(error)
    no_room, array[:] = False, 0
    print(manager.restore().step, array.sum())
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=here, capture_output=True, text=True, timeout=60)
    assert done.stdout == "no room for it\nno room for it\n1 1000000.0\n", done.stdout + done.stderr


def test_a_handler_of_signals_may_close_it_during_a_wait(here: Path) -> None:
    code = """
import signal, time, numpy as np, ballast
manager = ballast.CheckpointManager("run", {"array": np.ones(8_000_000)})
signal.signal(signal.SIGALRM, lambda *_: manager.close())
manager.save(1)
signal.setitimer(signal.ITIMER_REAL, 0.001)
try:
    manager.wait()
except ValueError as error:
    assert "run is closed" in str(error), error
while not manager.closed: time.sleep(0.001)  # it was written before the signal came
with ballast.CheckpointManager("run") as again:
    print(again.steps())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("[1]\n", "")


def test_several_threads_may_use_one_manager(here: Path) -> None:
    failures: list[BaseException] = []
    with ballast.CheckpointManager("run", keep_last=0, sync=False) as manager:

        def work(first: int) -> None:
            try:
                for step in range(first, first + 10):
                    manager.save(step, {"a": np.full(1000, step)})
                    manager.steps()
                    manager.latest()
            except BaseException as error:  # noqa: BLE001
                failures.append(error)

        threads = [threading.Thread(target=work, args=(i * 100,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        manager.wait()
        assert len(manager.steps()) == 40
        restored = manager.restore(305)
        assert restored is not None and restored.state["a"][0] == 305


def test_memory_does_not_grow(here: Path) -> None:
    code = """
import gc, resource, numpy as np, ballast
array = np.zeros(50_000)
def use(times):
    for step in range(times):
        with ballast.CheckpointManager("run", {"a": array}, sync=False) as manager:
            manager.save(step, {"b": [np.ones(10), (1, 2.5)]}); manager.restore()
    gc.collect()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
first = use(50)
print(use(300) - first)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=here, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 4 << 10
