"""Links, cited tests and the README hold; spelling is left to scripts/check_docs itself, which needs codespell."""
import pathlib
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parents[2]
sys.exit(subprocess.run([sys.executable, root / "scripts/check_docs", "--no-spelling"]).returncode)
