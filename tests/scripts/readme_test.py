"""The C++ example in README.md is examples/convert.cc, which the build compiles and runs."""
import re
import sys
from pathlib import Path

root = Path(__file__).resolve().parents[2]
shown = re.search(r"```cpp\n(.*?)```", (root / "README.md").read_text(), re.S)
if shown is None or shown.group(1) != (root / "examples/convert.cc").read_text():
    sys.exit("README.md: the C++ example differs from examples/convert.cc")
