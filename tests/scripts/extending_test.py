"""What docs/extending.md quotes stands where it says: in an example that the build runs, or in the library itself."""
import re
import sys
from pathlib import Path

root = Path(__file__).resolve().parents[2]
sources = ["examples/extend_runtime.cc", "ballast/ops/activation_gradient.cc", "ballast/models/hf_config.cc"]
def one_line(text):
    return " ".join(text.split())


quotable = [one_line((root / source).read_text()) for source in sources]
blocks = re.findall(r"```cpp\n(.*?)```", (root / "docs/extending.md").read_text(), re.S)
if len(blocks) < 3:
    sys.exit("docs/extending.md: its examples are gone")
for block in blocks:
    # How it is used is said in fewer words than the example has.
    quoted = re.split(r"\n\n(?=LoadOptions|const ModelKind)", block)[0].rstrip()
    if not any(one_line(quoted) in text for text in quotable):
        sys.exit(f"docs/extending.md: this is not in {' or '.join(sources)}:\n" + quoted)
