"""Results that stay, a file for each row: a run that was cut off goes on, and a table can be measured in parts.

A record counts as long as harness, peers and processor are the same. One that another build of Ballast made stays in tables,
which mark it, until its row is measured again.
"""
import functools, json, os, re, subprocess, time
from pathlib import Path

from environment import key_of, machine, pins
from llama_source import llama_key

from .disturbance import MOST_OF_A_CORE
from .rust_program import crate_key

ROOT = Path(__file__).resolve().parents[2]
# Rows have what they are in their names; the others only show results.
NOT_MEASURING = ("rows.py", "tables.py", "drawing.py", "targets.py")
MADE_BY = ("bench/llama_source.py", "bench/random_gguf.py", "bench/storage.py", "tests/interop/torch_weights.py",
           "tests/interop/token_texts.py")
BUILD_ID = re.compile(rb"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0.{20}", re.DOTALL)  # a digest that the linker adds


def harness_key(requirements):
    """What results depend on beside Ballast: peers, this harness with what makes its models and texts, and the processor."""
    scripts = [p for p in sorted((ROOT / "bench/peers").rglob("*.py")) if p.name not in NOT_MEASURING]
    return key_of(*scripts, *(ROOT / name for name in MADE_BY), llama_key().encode(), crate_key().encode(),
                  json.dumps([pins(requirements), machine()]).encode())


class Build:
    """The programs as they were built: of which commit, and whether one is still the same."""

    def __init__(self, programs):
        self.programs = programs
        version = subprocess.run([programs["ballast"], "--version"], check=True, capture_output=True, text=True).stdout
        self.commit = re.search(r"^build: +(.*?) \(", version, re.MULTILINE)[1]

    @functools.cache
    def digest(self, name):
        """Without the commit: one that changes documents alone leaves programs as they are."""
        return key_of(BUILD_ID.sub(b"", self.programs[name].read_bytes().replace(self.commit.encode(), b"")))

    def key(self, kind):
        limits = ["machine_limits"] if kind.limit else []
        return " ".join(self.digest(name) for name in (*kind.built, *limits))


def is_quiet(turns):
    return turns["others"]["cores"] <= MOST_OF_A_CORE


class Records:
    """Written after each round. Where only quiet rounds count, those in which others used the machine are measured again."""

    def __init__(self, folder, build, requirements, only_quiet):
        self.folder, self.build, self.only_quiet = folder, build, only_quiet
        folder.mkdir(parents=True, exist_ok=True)
        self.harness = harness_key(requirements)

    def path(self, row):
        return self.folder / f"{row.slug()}.json"

    def read(self, row):
        """As it is kept, of this harness and any build; or None."""
        try:
            record = json.loads(self.path(row).read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return None
        if record.get("harness") != self.harness:
            return None
        if self.only_quiet:
            record["rounds"] = [turns for turns in record["rounds"] if is_quiet(turns)]
        return record

    def is_current(self, row, record):
        return record["program"] == self.build.key(row.kind)

    def is_of_other_build(self, row):
        record = self.read(row)
        return record is not None and not self.is_current(row, record)

    def load(self, row):
        """To go on with: of this very build, or without rounds."""
        record = self.read(row)
        if record and self.is_current(row, record):
            return record
        return {"harness": self.harness, "program": self.build.key(row.kind), "commit": self.build.commit, "rounds": [],
                "settings": {}}

    def store(self, row, record):
        record["date"] = time.strftime("%Y-%m-%d")
        path = self.path(row)
        unfinished = path.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(record, indent=1) + "\n")
        os.replace(unfinished, path)

    def forget(self, row):
        self.path(row).unlink(missing_ok=True)
