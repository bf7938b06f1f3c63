"""The public tests of the package safetensors, run on ``ballast.safetensors``: only their imports are changed.

usage: python tests/python/borrowed_safetensors.py SDIST [--torch]

SDIST is the package's source distribution, which scripts/test_python fetches and keeps; nothing of it is in this
repository. Exit code 0: every test passed but those below. --torch: without the file that needs JAX.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

# Files that do not apply, and why.
LEFT_OUT = {
    "test_tf_comparison.py": "TensorFlow is not installed, and has no adapter here",
    "test_paddle_comparison.py": "Paddle is not installed, and has no adapter here",
    "test_mlx_comparison.py": "MLX runs on Apple's machines",
}
NEEDS_JAX = {"test_flax_comparison.py": "--torch: JAX is not installed"}
# Tests that do not apply, and why. Those for CUDA, MPS, NPU, HPU and S3 skip themselves.
NOT_APPLICABLE: dict[str, str] = {}
IMPORT = re.compile(r"^(\s*)(from|import) safetensors\b", re.MULTILINE)


def unpack(sdist: Path, folder: Path, left_out: dict[str, str]) -> Path:
    """The tests, with their imports changed."""
    tests = folder / "tests"
    (tests / "data").mkdir(parents=True)
    with tarfile.open(sdist) as archive:
        for member in archive.getmembers():
            path = Path(member.name)
            if path.parts[-2:-1] != ("tests",) or not path.name.startswith("test_") or path.name in left_out:
                continue
            source = archive.extractfile(member)
            assert source is not None
            (tests / path.name).write_text(IMPORT.sub(r"\1\2 ballast.safetensors", source.read().decode()))
    return tests


def main(sdist: str, form: str = "") -> int:
    left_out = {**LEFT_OUT, **(NEEDS_JAX if form == "--torch" else {})}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tests = unpack(Path(sdist), folder, left_out)
        found = sorted(path.name for path in tests.glob("test_*.py"))
        for file, why in left_out.items():
            print(f"left out: {file}: {why}")
        print(f"borrowed: {', '.join(found)}", flush=True)
        assert len(found) == 11 - len(left_out), "the source distribution holds other tests than when this was written"
        skips = [word for test in NOT_APPLICABLE for word in ("--deselect", f"tests/{test}")]
        words = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *skips, "tests"]
        return subprocess.run(words, cwd=folder).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
