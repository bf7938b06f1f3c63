"""A training in PyTorch that is killed with -9 at random moments ends with the losses of one that was left alone."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import ballast
from conftest import ROOT

pytest.importorskip("torch")

EXAMPLE = ROOT / "examples/python/resume_training.py"
STEPS = 60
KILLS = 5


def read_losses(text: str, losses: dict[int, str], draws: str) -> None:
    """Steps that are computed again after a kill must give the same loss again."""
    for step, loss in re.findall(r"^step (\d+) loss (\S+)$", text, re.MULTILINE):
        assert losses.setdefault(int(step), loss) == loss, f"step {step} differs; {draws}"


def run_until_killed(folder: Path, draw: random.Random) -> tuple[str, bool]:
    """What it printed, and whether it came to its end. Killed some time after a random line: the start takes seconds."""
    words = [sys.executable, str(EXAMPLE), str(folder), "--steps", str(STEPS), "--save-every", "1"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        lines = []
        last = draw.randrange(1, STEPS // 4)
        for line in child.stdout:
            lines.append(line)
            if len(lines) == last:
                timer = threading.Timer(draw.random() * 0.03, child.kill)
                timer.start()
        if len(lines) >= last:
            timer.cancel()
        child.wait()
        return "".join(line for line in lines if line.endswith("\n")), child.returncode == 0


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """The losses of a training that nobody disturbs."""
    words = [sys.executable, str(EXAMPLE), str(tmp_path_factory.mktemp("undisturbed")), "--steps", str(STEPS), "--save-every", "50"]
    losses: dict[int, str] = {}
    read_losses(subprocess.check_output(words, text=True), losses, "")
    assert len(losses) == STEPS
    return losses


# One seed is always the same; the other is drawn, or given to repeat what failed.
@pytest.mark.parametrize("seed", [1, int(os.environ.get("BALLAST_KILL_SEED", random.SystemRandom().randrange(2**32)))], ids=["fixed", "drawn"])
def test_a_killed_training_ends_with_the_same_losses(seed: int, expected: dict[int, str], here: Path) -> None:
    draw = random.Random(seed)
    draws = f"repeat with BALLAST_KILL_SEED={seed}"
    losses: dict[int, str] = {}
    kills = 0
    for _ in range(KILLS):
        text, finished = run_until_killed(here / "killed", draw)
        read_losses(text, losses, draws)
        if finished:
            break
        kills += 1
    if not finished:
        words = [sys.executable, str(EXAMPLE), str(here / "killed"), "--steps", str(STEPS), "--save-every", "1"]
        read_losses(subprocess.check_output(words, text=True), losses, draws)
    assert losses == expected, draws
    assert kills >= 2, draws
    with ballast.CheckpointManager("killed") as manager:
        assert manager.latest() == STEPS, draws
