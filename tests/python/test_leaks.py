"""Nothing grows: neither memory, nor open files, nor threads."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ballast
from conftest import ROOT

TINY = ROOT / "tests/data/gguf/tiny/tiny_llama.f32.gguf"

# Runs work(i) 10,000 times, the first thousand of which may still fill caches and pools.
MEASURE = """
import gc, json, os, sys, io, ballast, numpy as np
def state():
    gc.collect()
    with open("/proc/self/statm") as statm:
        resident = int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return resident, len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
def measure(work, times):
    for i in range(times // 10):
        work(i)
    before = state()
    for i in range(times // 10, times):
        work(i)
    print(json.dumps([after - first for first, after in zip(before, state())]))
"""
CYCLES = {
    "archives that are opened and closed": (10_000, """
def work(i):
    with ballast.open("a.safetensors", mode=("r", "c", "read")[i % 3]) as file:
        file["a"].numpy(); file["b"][1:3]; file.metadata; repr(file); file.arrays(copy=True)
"""),
    "archives that are dropped": (10_000, """
data = open("a.safetensors", "rb").read()
def work(i):
    file = ballast.open(data if i % 2 else io.BytesIO(data))
    array = file["a"].numpy()
    if i % 3: file.close()
"""),
    "files that cannot be opened": (10_000, """
bad = open("a.safetensors", "rb").read()[:-9]
def work(i):
    try:
        ballast.open(bad if i % 2 else "missing.npz")
    except (ValueError, OSError):
        return
    raise AssertionError
"""),
    "texts that are generated, dropped and cancelled": (10_000, """
model = ballast.load(sys.argv[1], threads=1)
def work(i):
    generation = model.generate("1 2", max_tokens=2, temperature=0, stop=["x"])
    if i % 4 == 0: next(generation, None)
    elif i % 4 == 1: generation.cancel()
    elif i % 4 == 2: generation.text, generation.token_ids
"""),
    "models that are opened and closed": (1_000, """
def work(i):
    model = ballast.load(sys.argv[1], threads=2, param_budget=None if i % 2 else "50%")
    model.generate("1 2", max_tokens=1, temperature=0).text
    if i % 3: model.close()
"""),
    "models that cannot be opened": (2_000, """
def work(i):
    try:
        ballast.load(sys.argv[2])
    except ValueError:
        return
    raise AssertionError
"""),
    "texts that are encoded and decoded": (10_000, """
tokenizer = ballast.Tokenizer(sys.argv[1])
def work(i):
    encoding = tokenizer.encode("1 2 3"); encoding.offsets; encoding.tokens; tokenizer.decode(encoding.ids)
    if i % 10 == 0: tokenizer.encode_batch(["1 2"] * 10, threads=2)
"""),
    "forward passes": (10_000, """
model = ballast.load(sys.argv[1], threads=1)
def work(i):
    model.forward([1, 2, 3])
    try:
        model.forward([10**6])
    except ValueError:
        return
    raise AssertionError
"""),
}  # fmt: skip


@pytest.mark.parametrize("what", CYCLES)
def test_nothing_leaks(what: str, here: Path) -> None:
    ballast.save("a.safetensors", {"a": np.ones(1000), "b": np.ones((10, 10), np.float32)}, metadata={"k": "v"})
    times, code = CYCLES[what]
    bad = ROOT / "tests/data/gguf/hostile/model_tensor_missing.gguf"
    words = [sys.executable, "-c", f"{MEASURE}{code}\nmeasure(work, {times})", str(TINY), str(bad)]
    done = subprocess.run(words, cwd=here, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    resident, files, threads = json.loads(done.stdout)
    # A lost object of 100 bytes per cycle would be 900,000.
    assert resident < 700_000, f"{resident} bytes more"
    assert (files, threads) == (0, 0)
