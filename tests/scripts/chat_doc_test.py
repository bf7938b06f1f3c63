#!/usr/bin/env python3
"""The C++ in docs/chat.md is that of examples/chat.cc, which is compiled and run."""

import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parent.parent.parent
blocks = re.findall(r"```cpp\n(.*?)```", (root / "docs/chat.md").read_text(encoding="utf-8"), re.DOTALL)
example = (root / "examples/chat.cc").read_text(encoding="utf-8")
if not blocks:
    sys.exit("docs/chat.md: its example is gone")
for block in blocks:
    if block.strip() not in example:
        sys.exit(f"docs/chat.md: this is not in examples/chat.cc:\n{block}")
print(f"{len(blocks)} example of docs/chat.md is in examples/chat.cc")
