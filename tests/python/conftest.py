"""What the tests of the Python module share."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_is_heard() -> None:
    """A shell that starts this in the background has Ctrl-C ignored, and programs that tests start would inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def data() -> Path:
    """The files that the library's own tests read."""
    return ROOT / "tests" / "data"


# A few words that are tokens of the recorded encoder, which comes without a tokenizer.
WORDS = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "the": 4, "ship": 5, "sails": 6, "at": 7, "dawn": 8}


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model that embeds texts."""
    import json
    import shutil

    folder = tmp_path_factory.mktemp("encoder")
    for name in ("config.json", "model.safetensors"):
        shutil.copy(ROOT / "tests/data/hf/bert" / name, folder)
    tokenizer = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": WORDS, "unk_token": "[UNK]"},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    return folder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of its own, which is the current one."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path


@pytest.fixture
def here_with_models(here: Path) -> Path:
    """The same, with the models that the repository ships: what examples show works from the root of a clone too."""
    (here / "models").symlink_to(ROOT / "models")
    return here


def bytes_read() -> int:
    """By this process so far, from files."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["rchar"])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Names the tests for which a package was missing, where that counts as a failure (see pytest_sessionfinish)."""
    for where in missing_packages(terminalreporter.config):
        terminalreporter.write_line(f"FAILED for want of a package: {where}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    if missing_packages(session.config) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def missing_packages(config: pytest.Config) -> list[str]:
    """Skipped tests for which a package was missing that BALLAST_TESTS_REQUIRE names ("*": any)."""
    required = os.environ.get("BALLAST_TESTS_REQUIRE", "")
    reporter: pytest.TerminalReporter | None = config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter and required else []
    wanted = "could not import '" if required == "*" else f"could not import '{required}"
    return [f"{one.nodeid}: {one.longrepr[2]}" for one in skipped if wanted in str(one.longrepr)]


def without_package(name: str, code: str, also: str = "") -> str:
    """What a program prints that runs where this package is not installed."""
    hidden = f"import sys; sys.modules.update(dict.fromkeys({[name, also or name]!r}))\n"
    return subprocess.run([sys.executable, "-c", hidden + code], capture_output=True, text=True).stderr
