"""The C++ examples in README.md are files of examples/, which the build compiles and runs."""
import re
import sys
from pathlib import Path

root = Path(__file__).resolve().parents[2]
shown = re.findall(r"```cpp\n(.*?)```", (root / "README.md").read_text(), re.S)
files = ["convert.cc", "generate.cc"]
if len(shown) != len(files):
    sys.exit(f"README.md: {len(shown)} C++ examples instead of {len(files)}")
for text, name in zip(shown, files):
    if text != (root / "examples" / name).read_text():
        sys.exit(f"README.md: a C++ example differs from examples/{name}")
