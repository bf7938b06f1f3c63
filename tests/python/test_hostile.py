"""Every file of the hostile corpus is an exception or a sound archive, never a crash."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ballast
from conftest import ROOT

FOLDERS = ["gguf/hostile", "torch_files/attacks", "npz", "burnpack", "netcl", "safetensors"]
USE = """
import sys, ballast
for path in sys.argv[1:]:
    for source in (path, open(path, "rb").read()):
        try:
            with ballast.open(source) as file:
                for tensor in file.values():
                    try:
                        tensor.numpy(); tensor[..., :1]; repr(tensor)
                    except (ValueError, OSError, IndexError, MemoryError, TypeError):
                        pass
                file.metadata, file.config, repr(file)
        except (ValueError, OSError, MemoryError):
            pass
    for work in (ballast.verify, ballast.doctor):
        try:
            repr(work(path)), work(path)._repr_html_()
        except (ValueError, OSError):
            pass
print("survived")
"""


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_interpreter_survives(folder: str, tmp_path: Path) -> None:
    files = sorted(str(path) for path in (ROOT / "tests/data" / folder).rglob("*") if path.is_file())
    assert files
    done = subprocess.run([sys.executable, "-c", USE, *files], capture_output=True, text=True, cwd=tmp_path, timeout=600)
    assert done.returncode == 0 and done.stdout.strip() == "survived", done.stderr[-2000:]


@pytest.mark.parametrize("name", ["a.safetensors", "a.npz", "a.gguf", "a.bpk"])
def test_a_file_that_was_cut_is_an_exception(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    ballast.save(path, {"w": np.ones((3, 50), np.float32), "v": np.zeros(20, np.float32)})
    content = path.read_bytes()
    for length in range(0, len(content) - 64, 7):  # the last bytes may be padding
        with pytest.raises((ValueError, OSError)):
            ballast.open(content[:length]).arrays(copy=True)
