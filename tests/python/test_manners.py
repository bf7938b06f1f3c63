"""Ctrl-C, the GIL, and the end of the interpreter."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import ballast


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=120)


def test_importing_takes_less_than_80_ms() -> None:
    code = "import time; t = time.perf_counter(); import ballast; print((time.perf_counter() - t) * 1e3)"
    times = [float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(5)]
    assert min(times) < 80


def test_ctrl_c_ends_long_work(here: Path) -> None:
    ballast.save("a.npz", {f"t{i}": np.zeros(1 << 20, np.float32) for i in range(64)}, sync=False)
    code = "import ballast\nprint('ready', flush=True)\nwhile True: ballast.hash('a.npz', sha256=True, threads=1)"
    with subprocess.Popen([sys.executable, "-c", code], cwd=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stderr is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.2)
        child.send_signal(signal.SIGINT)
        begin = time.monotonic()
        errors = child.stderr.read()
        assert child.wait(30) != 0 and "KeyboardInterrupt" in errors and time.monotonic() - begin < 5


def test_other_threads_run_meanwhile(here: Path) -> None:
    import threading

    ballast.save("a.npz", {f"t{i}": np.zeros(1 << 20, np.float32) for i in range(32)}, sync=False)
    ticks = 0
    done = threading.Event()

    def count() -> None:
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    ballast.hash("a.npz", sha256=True, threads=1)
    done.set()
    thread.join()
    assert ticks > 5


def test_the_interpreter_may_end_with_everything_open(here: Path) -> None:
    ballast.save("a.npz", {"a": np.ones(4)})
    code = """
import io, threading, ballast
file = ballast.open("a.npz"); array = file["a"].numpy(); tensor = file["a"]
other = ballast.open(io.BytesIO(open("a.npz", "rb").read())); part = other["a"]
def work():
    while True: ballast.hash("a.npz")
threading.Thread(target=work, daemon=True).start()
"""
    done = run(code, here)
    assert done.returncode == 0 and done.stderr == ""


def test_a_file_that_is_truncated_meanwhile_is_an_error(here: Path) -> None:
    ballast.save("a.safetensors", {"a": np.ones(1 << 20)})
    for mode in ("r", "read"):
        with ballast.open("a.safetensors", mode=mode) as file:
            content = Path("a.safetensors").read_bytes()
            with open("a.safetensors", "r+b") as other:
                other.truncate(4096)
            with pytest.raises(OSError, match="truncated"):
                file["a"].numpy()
            Path("a.safetensors").write_bytes(content)


def test_memory_does_not_grow_over_10000_cycles(here: Path) -> None:
    ballast.save("a.safetensors", {"a": np.ones(1000), "b": np.ones((10, 10), np.float32)}, metadata={"k": "v"})
    code = """
import gc, resource, ballast
def use(times):
    for _ in range(times):
        with ballast.open("a.safetensors") as file:
            file["a"].numpy(); file["b"][1:3]; file.metadata; file.arrays(copy=True)
    gc.collect()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
first = use(1000)
print(use(10000) - first)
"""
    done = run(code, here)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 4 << 10
