"""What docs/extending.md says is true: its quotations stand in the sources, and its numbers of files are those that the
things that are already there needed."""
import re
import sys
from pathlib import Path

root = Path(__file__).resolve().parents[2]
document = (root / "docs/extending.md").read_text()

# ---------------------------------------------------------------- quotations

sources = ["extend_runtime.cc", "activation_gradient.cc", "hf_config.cc", "only_burnpack.cc"]


def one_line(text):
    return " ".join(text.split())


def find_one(name):
    found = [path for folder in ("examples", "ballast", "tests/platforms") for path in (root / folder).rglob(name)]
    if len(found) != 1:
        sys.exit(f"{name} is there {len(found)} times")
    return found[0]


quotable = [one_line(find_one(source).read_text()) for source in sources]
blocks = re.findall(r"```cpp\n(.*?)```", document, re.S)
if len(blocks) < 3:
    sys.exit("docs/extending.md: its examples are gone")
for block in blocks:
    # How it is used is said in fewer words than the example has.
    quoted = re.split(r"\n\n(?=LoadOptions|const ModelKind)", block)[0].rstrip()
    if not any(one_line(quoted) in text for text in quotable):
        sys.exit(f"docs/extending.md: this is not in {' or '.join(sources)}:\n" + quoted)

# ---------------------------------------------------------------- numbers of headers

listed = (root / "cmake/public_headers.txt").read_text()
interface, extension = (len(re.findall(r"^ballast/", part, re.M))
                        for part in re.fullmatch(r"(.*?^\[interface\]$.*?)(^\[extension\]$.*)", listed, re.S | re.M).groups())
said = f"Of the {interface + extension} headers that are installed, {interface} are the interface and {extension} the extension"
if said not in one_line(document):
    sys.exit(f"docs/extending.md does not say what cmake/public_headers.txt says: {said}")

# ---------------------------------------------------------------- numbers of files

NUMBERS = {"no change to Ballast": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
           "nine": 9, "ten": 10}

# What a heading speaks of -> one that is already there: the words that name it, and the files that belong to having it
# (beside those that only use it).
SAMPLES = {
    "A format": (r"\bkNpyDriver\b|&kNpyReader\b", r"ballast/formats/|tests/formats/npy|bindings/wasm/"),
    "A dtype": (r"\bkF8E5M2\b", r"ballast/base/"),
    "A quantised type": (r"\bkQ5_1\b|\b(?:de|en)code_q5_1\b", r"ballast/base/|ballast/tensor/"),
    "A command": (r"\badd_hash\b", r"apps/"),
    "A protocol of the service": (r"\banthropic_endpoints\b", r"ballast/serve/"),
    "An adapter": (r"\badapt_burn_to_pytorch\b", r"ballast/edit/"),
    "A kind of module": (r"\bkGroupNorm\b", r"ballast/edit/(?:.*/)?modules\.(?:h|cc)$"),
    "A functional": (r"slice_along_axis|SliceAlongAxis",
                     r"ballast/ops/(?!linear_parts)|ballast/backends/(?:host|reference)/|tests/.*/reference_test|tests/support/(?:conformance|gradient)_cases"),
    "A routine": (r"\bSpreadRowsArgs\b|\"spread_rows\"",
                  r"ballast/ops/(?:.*/)?(?:gradient_routines\.h|routines\.cc)|ballast/backends/|tests/.*/routine_conformance"),
    "Another implementation of a functional": (r"add_quick_gelu", r"ballast/"),
    "A device": (r"\bEmulatedDevice\b|\bEmulatedQueue\b|\bEmulatedMemory\b", r"examples/|ballast/"),
    "A backend": (r"\bkReferenceBackend\b", r"ballast/(?!backends/reference/)"),
    "Integer kernels for another quantised type": (r"\bQ5_1Format\b", r"ballast/"),
    "A kind of model": (r"\bkMobileNetV2Kind\b|\bkMobilenetV2Kind\b", r"ballast/"),
    "A family of decoders": (r'\.model_type = "smollm3"', r"ballast/models/"),
    "A kind of model from outside": (r"\bBigrams\b", r"ballast/"),
}


def files_with(words, where):
    for folder in ("ballast", "apps", "bindings", "tests", "examples"):
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.suffix in (".h", ".cc") and re.match(where, name) and re.search(words, path.read_text()):
                yield name


headings = re.findall(r"^## ([^:\n]+): (?:.* and )?(no change to Ballast|\w+)(?: files?)?$", document, re.M)
numbered = {what: number for what, number in headings if number in NUMBERS}
if missing := set(SAMPLES) - set(numbered):
    sys.exit(f"docs/extending.md: no heading says how many files these need: {', '.join(sorted(missing))}")
for what, number in numbered.items():
    if what not in SAMPLES:
        sys.exit(f"docs/extending.md: \"{what}: {number} files\" has no sample in tests/scripts/extending_test.py")
    files = list(files_with(*SAMPLES[what]))
    if len(files) != NUMBERS[number]:
        sys.exit(f"docs/extending.md: \"{what}\" says {number}, but there are {len(files)}: {', '.join(files)}")
