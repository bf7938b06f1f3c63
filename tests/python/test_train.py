"""ballast.train(): the same run as the command's, with callbacks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

import numpy
import pytest
from program import MODELS, ROOT, run_json

import ballast

CONFIG = MODELS / "digits" / "train.toml"
SHORT = {"train.steps": 6}


def losses(events):
    return [event["loss"] for event in events if event["event"] == "step"]


def test_trains_as_the_command_does(tmp_path):
    log = tmp_path / "log.jsonl"
    sets = [argument for key, value in SHORT.items() for argument in ("--set", f"{key}={value}")]
    told = run_json("train", CONFIG, *sets, "--log", log, "--quiet")
    events = []
    result = ballast.train(CONFIG, events.append, overrides=SHORT)
    assert result.loss == told["loss"]
    assert result.parameters == told["parameters"]
    assert losses(events) == [json.loads(line)["loss"] for line in log.read_text().splitlines() if '"event"' not in line]


def test_takes_a_mapping():
    config = {
        "model": {"kind": "mlp", "hidden": [8]},
        "data": {"kind": "npz", "path": MODELS / "digits" / "train.npz", "shape": [64]},
        "train": {"steps": 3},
    }
    result = ballast.train(config, overrides={"train.batch_size": 16})
    assert (result.step, result.finished) == (3, True)
    assert result.config["train"]["batch_size"] == 16
    assert "step 3 of 3" in repr(result)


def test_writes_the_model_and_the_log(tmp_path):
    output, log = tmp_path / "digits.netcl", tmp_path / "steps.jsonl"
    result = ballast.train(CONFIG, overrides={**SHORT, "train.output": str(output), "log.file": str(log)})
    assert result.output == str(output)
    assert len([line for line in log.read_text().splitlines() if '"event"' not in line]) == 6
    with ballast.load(output) as model:
        assert model.forward(numpy.zeros((1, 1, 8, 8), numpy.float32)).shape == (1, 10)
    with pytest.raises(FileExistsError):
        ballast.train(CONFIG, overrides={**SHORT, "train.output": str(output)})
    ballast.train(CONFIG, overrides={**SHORT, "train.output": str(output)}, overwrite=True)


def test_a_callback_stops_a_run_and_it_resumes_with_the_same_losses(tmp_path):
    whole = []
    ballast.train(CONFIG, whole.append, overrides=SHORT)
    settings = {**SHORT, "checkpoint.folder": str(tmp_path / "checkpoints")}
    first, rest = [], []

    def stop_at_three(event):
        first.append(event)
        return not (event["event"] == "step" and event["step"] == 3)

    stopped = ballast.train(CONFIG, stop_at_three, overrides=settings)
    assert not stopped.finished
    assert stopped.step == 3
    resumed = ballast.train(CONFIG, rest.append, overrides=settings)
    assert resumed.resumed_from == 3
    assert resumed.finished
    assert rest[0]["event"] == "resume"
    assert losses(first) + losses(rest) == losses(whole)


def test_what_a_callback_raises_ends_the_run(tmp_path):
    seen = []

    class Enough(Exception):
        pass

    def raise_at_two(event):
        seen.append(event)
        if event["event"] == "step" and event["step"] == 2:
            raise Enough("enough")

    with pytest.raises(Enough, match="enough"):
        ballast.train(CONFIG, raise_at_two, overrides=SHORT)
    assert [event["step"] for event in seen if event["event"] == "step"] == [1, 2]
    assert ballast.train(CONFIG, overrides=SHORT).finished


def test_several_callbacks_are_all_called():
    first, second = [], []
    ballast.train(CONFIG, [first.append, second.append], overrides=SHORT)
    assert first == second
    assert len(losses(first)) == 6


def test_what_is_wrong_raises(tmp_path):
    with pytest.raises(FileNotFoundError):
        ballast.train(tmp_path / "nothing.toml")
    with pytest.raises(ValueError, match="colour"):
        ballast.train(CONFIG, overrides={"train.colour": "blue"})
    with pytest.raises(ValueError, match="report"):
        ballast.train(CONFIG, overrides={**SHORT, "log.report": str(tmp_path / "report.html")})
    with pytest.raises(TypeError, match="set"):
        ballast.train({"train": {1, 2}})
    with pytest.raises(ValueError):
        ballast.train(CONFIG, overrides=SHORT, device="abacus")


def test_pictures_are_read_with_pillow(tmp_path):
    image = pytest.importorskip("PIL.Image")
    for name, shade in (("dark", 10), ("light", 240)):
        (tmp_path / "data" / name).mkdir(parents=True)
        for number in range(4):
            image.new("RGB", (8, 8), (shade + number,) * 3).save(tmp_path / "data" / name / f"{number}.png")
    config = {
        "model": {"kind": "mlp", "hidden": [8]},
        "data": {"kind": "images", "path": tmp_path / "data", "size": 8, "channels": 1},
        "train": {"steps": 2, "batch_size": 4},
    }
    assert ballast.train(config).finished
    (tmp_path / "data" / "dark" / "broken.png").write_bytes(b"no picture")
    with pytest.raises(OSError):
        ballast.train(config)


def test_ctrl_c_ends_a_run(tmp_path):
    code = """
        import os, signal, sys, ballast
        def interrupt(event):
            if event["event"] == "step" and event["step"] == 2:
                os.kill(os.getpid(), signal.SIGINT)
        try:
            ballast.train(sys.argv[1], interrupt, overrides={"train.steps": 100000})
        except KeyboardInterrupt:
            print("interrupted")
        """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(CONFIG)],
        capture_output=True, text=True, timeout=60, cwd=ROOT, env={**os.environ},
    )
    assert done.stdout == "interrupted\n", done.stderr
