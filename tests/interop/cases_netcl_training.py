"""netcl: what models compute and how training goes on, in the other program, both ways."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pyopencl as cl
from netcl import autograd as ag
from netcl.core.tensor import Tensor as NetclTensor
from netcl.io import load_model, save_model
from netcl.io.checkpoint import load_checkpoint, save_checkpoint
from netcl.nn import (BatchNorm2d, Conv2d, Dropout, Flatten, LeakyReLU, Linear, MaxPool2d, ReLU, Sequential, Sigmoid, Tanh)
from netcl.optim import SGD, Adam, AdamW

import netcl_losses
from harness import COMMAND_TIMEOUT_S, Mismatch, require

OUTPUT_TOLERANCE = 1e-5
LOSS_TOLERANCE = 2e-6  # relative: two programs, two orders of adding


def forward(model, queue, x):
    model.train(False)
    y = model(NetclTensor.from_host(queue, x)).to_host().copy()
    model.train(True)
    return y


def close(ours, theirs, tolerance, what):
    ours, theirs = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    require(ours.shape == theirs.shape, f"{what}: shapes {ours.shape} and {theirs.shape}")
    worst = float(np.max(np.abs(ours - theirs) / np.maximum(1, np.abs(theirs)))) if ours.size else 0.0
    require(worst <= tolerance, f"{what}: {worst:.2e} apart, allowed are {tolerance}")


def models(queue):
    return {
        "an MLP": (Sequential(Linear(queue, 6, 16), ReLU(), Linear(queue, 16, 8), Tanh(), Dropout(0.25),
                              Linear(queue, 8, 8, bias=False), LeakyReLU(0.1), Linear(queue, 8, 3), Sigmoid()), (4, 6)),
        "a CNN": (Sequential(Conv2d(queue, 2, 6, 3, pad=1), BatchNorm2d(queue, 6), ReLU(), MaxPool2d(2, 2),
                             Conv2d(queue, 6, 8, 3, stride=2, pad=1, bias=False), LeakyReLU(0.05),
                             Conv2d(queue, 8, 8, 3, pad=2, dilation=2), Tanh(), Conv2d(queue, 8, 4, 1, groups=2),
                             Flatten(), Linear(queue, 16, 5)), (3, 2, 8, 8)),
    }


def ballast_forward(suite, model, x, folder):
    np.savez(folder / "input.npz", input=x)
    suite.ballast.run("forward", model, "--input", folder / "input.npz", "--out", folder / "output.npz", "--overwrite")
    with np.load(folder / "output.npz") as file:
        return file["logits"]


def forward_cases(suite, queue, rng):
    for what, (model, shape) in models(queue).items():
        folder = suite.folder / "forward" / what.replace(" ", "_")
        folder.mkdir(parents=True, exist_ok=True)
        for layer in model.layers:
            for key in ("running_mean", "running_var"):
                if hasattr(layer, key):
                    getattr(layer, key).write(rng.uniform(0.5, 1.5, getattr(layer, key).shape).astype(np.float32))
        x = rng.standard_normal(shape).astype(np.float32)
        save_model(model, str(folder / "theirs.netcl"))
        with suite.case("read", f"`ballast forward` of a model that netcl saved gives netcl's output: {what}"):
            close(ballast_forward(suite, folder / "theirs.netcl", x, folder), forward(model, queue, x), OUTPUT_TOLERANCE, "output")
        with suite.case("write", f"netcl computes our output from a file that our save_model wrote: {what}"):
            rows = shape[0]
            y = np.eye(3 if len(shape) == 2 else 5, dtype=np.float32)[np.arange(rows) % 3]
            np.savez(folder / "data.npz", x=x, y=y)
            trained = train_here(suite, model=folder / "theirs.netcl", data=folder / "data.npz", optimizer="SGD",
                                 settings={"lr": 0.05}, steps=2, save_model=folder / "ours.netcl")
            require(len(trained) == 2, "two steps give two losses")
            close(ballast_forward(suite, folder / "ours.netcl", x, folder),
                  forward(load_model(str(folder / "ours.netcl"), queue), queue, x), OUTPUT_TOLERANCE, "output")


# ---------------------------------------------------------------- training

def train_here(suite, **task):
    program = suite.ballast.program.rsplit("/", 1)[0] + "/interop_train_sequential"
    text = json.dumps({key: value if isinstance(value, (int, dict)) else str(value) for key, value in task.items()})
    done = subprocess.run([program, text], capture_output=True, encoding="utf-8", timeout=COMMAND_TIMEOUT_S)
    if done.returncode != 0:
        raise Mismatch(f"train_sequential: {done.stderr.strip()}")
    return json.loads(done.stdout)["losses"]


def train_there(model, optimizer, queue, x, y, steps):
    losses = []
    model.train(True)
    for _ in range(steps):
        tape = ag.Tape()
        ag.set_current_tape(tape)
        out = model(ag.tensor(NetclTensor.from_host(queue, x)))
        loss = ag.cross_entropy(out, ag.tensor(NetclTensor.from_host(queue, y)))
        ag.set_current_tape(None)
        losses.append(float(loss.value.to_host().reshape(-1)[0]))
        tape.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    return losses


def listed(state):
    """netcl's JSON refuses its own arrays."""
    if isinstance(state, dict):
        return {key: listed(value) for key, value in state.items()}
    if isinstance(state, (list, tuple)):
        return [listed(value) for value in state]
    return state.tolist() if isinstance(state, np.ndarray) else state


def own_state(optimizer):
    return listed(optimizer.state_dict())


def load_own_state(optimizer, state):
    optimizer.load_state_dict(state)


def adam_state(optimizer):
    """netcl's Adam has no state_dict: its moments lie on the device."""
    state = {"t": optimizer.t, "m": [], "v": []}
    for param in optimizer.params:
        for key, buffers in (("m", optimizer._m_buf), ("v", optimizer._v_buf)):
            values = np.empty(param.shape, np.float32)
            cl.enqueue_copy(param.queue, values, buffers[id(param)]).wait()
            state[key].append(values.tolist())
    return state


def load_adam_state(optimizer, state):
    optimizer.t = state["t"]
    for i, param in enumerate(optimizer.params):
        for key, buffers in (("m", optimizer._m_buf), ("v", optimizer._v_buf)):
            values = np.array(state[key][i], np.float32)
            require(values.shape == tuple(param.shape), f"{key} of parameter {i} has the shape {values.shape}")
            buffers[id(param)] = cl.Buffer(param.context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR,
                                           hostbuf=np.ascontiguousarray(values))


def training_cases(suite, queue, rng):
    folder = suite.folder / "training"
    folder.mkdir(parents=True, exist_ok=True)
    x = rng.standard_normal((32, 8)).astype(np.float32)
    y = np.eye(4, dtype=np.float32)[rng.integers(0, 4, 32)]
    np.savez(folder / "data.npz", x=x, y=y)
    names = ["0.weight", "0.bias", "2.weight", "2.bias"]
    optimizers = {
        "SGD": (lambda p: SGD(p, lr=0.05, momentum=0.9), {"lr": 0.05, "momentum": 0.9}, own_state, load_own_state),
        "Adam": (lambda p: Adam(p, lr=0.01, weight_decay=0.01), {"lr": 0.01, "weight_decay": 0.01}, adam_state, load_adam_state),
        "AdamW": (lambda p: AdamW(p, lr=0.01, weight_decay=0.01), {"lr": 0.01, "weight_decay": 0.01}, own_state, load_own_state),
    }
    for name, (make, settings, state_of, load_state) in optimizers.items():
        start = folder / f"{name}.netcl"
        model = Sequential(Linear(queue, 8, 16), ReLU(), Linear(queue, 16, 4))
        save_model(model, str(start))
        task = {"model": start, "data": folder / "data.npz", "optimizer": name, "settings": settings}
        # The whole run, by netcl alone: what every mixed run must print.
        optimizer = make(model.parameters())
        whole = train_there(model, optimizer, queue, x, y, 10)
        saved = folder / f"{name}_theirs"
        save_checkpoint(model.parameters(), str(saved), optim_state=state_of(optimizer), config={"step": 10}, names=names)
        whole += train_there(model, optimizer, queue, x, y, 10)

        with suite.case("both", f"20 steps of {name} give the same losses here and there"):
            close(train_here(suite, **task, steps=20), whole, LOSS_TOLERANCE, "losses")
        with suite.case("read", f"netcl's checkpoint of {name} after 10 steps goes on here to the same losses"):
            close(train_here(suite, **task, steps=10, checkpoint=saved), whole[10:], LOSS_TOLERANCE, "losses")
        with suite.case("write", f"our checkpoint of {name} after 10 steps goes on in netcl to the same losses"):
            ours = folder / f"{name}_ours"
            train_here(suite, **task, steps=10, save_checkpoint=ours)
            fresh = load_model(str(start), queue)
            state = load_checkpoint(queue, fresh.parameters(), str(ours), names=names)
            require(state["config"] == {"from": "ballast"}, "config changed")
            optimizer = make(fresh.parameters())
            load_state(optimizer, state["optim_state"])
            close(train_there(fresh, optimizer, queue, x, y, 10), whole[10:], LOSS_TOLERANCE, "losses")


def loss_cases(suite, queue):
    recorded = json.loads((Path(__file__).resolve().parents[1] / "data/netcl/recorded_losses.json").read_text())
    with suite.case("both", "the losses that the tests compare ours with are netcl's"):
        now = netcl_losses.record(queue)
        require(now.keys() == recorded.keys(), "the recording has other losses")
        for name, value in now.items():
            if not isinstance(value, dict):
                require(value == recorded[name], f"{name}: the input is another")
                continue
            close(value["value"], recorded[name]["value"], 1e-5, name)
            close(value["gradient"], recorded[name]["gradient"], 1e-5, f"gradient of {name}")


def checkpoint_case(suite, queue):
    folder = suite.folder / "checkpoints"
    folder.mkdir(parents=True, exist_ok=True)
    digits = Path(__file__).resolve().parents[2] / "models/digits"
    with suite.case("write", "netcl loads the weights of a checkpoint that `ballast train` keeps as .netcl"):
        suite.ballast.run("train", digits / "train.toml", "--set", "train.epochs=1", "--checkpoints", folder / "run", "--set",
                          "checkpoint.format=netcl", "--out", folder / "end.netcl", "--quiet")
        weights = list((folder / "run").glob("step-*-weights-*.netcl"))  # one, of the end
        require(len(weights) == 1, f"{len(weights)} files of weights")
        kept, end = load_model(str(weights[0]), queue), load_model(str(folder / "end.netcl"), queue)
        for ours, theirs in zip(kept.parameters(), end.parameters(), strict=True):
            require(np.array_equal(ours.to_host(), theirs.to_host()), "weights differ")


def demo_case(suite, queue):
    digits = Path(__file__).resolve().parents[2] / "models/digits"
    folder = suite.folder / "digits"
    folder.mkdir(parents=True, exist_ok=True)
    with suite.case("write", "netcl loads the classifier that `ballast train` made of the digits, and computes our output"):
        suite.ballast.run("train", digits / "train.toml", "--out", folder / "digits.netcl", "--quiet")
        with np.load(digits / "test.npz") as file:
            x, y = file["x"].reshape(-1, 1, 8, 8).astype(np.float32) / 16, file["y"]
        theirs = forward(load_model(str(folder / "digits.netcl"), queue), queue, x)
        close(ballast_forward(suite, folder / "digits.netcl", x, folder), theirs, OUTPUT_TOLERANCE, "output")
        right = float(np.mean(np.argmax(theirs, axis=1) == y))
        require(right > 0.9, f"netcl finds {right:.0%} of the held-out digits with it")


def run(suite, queue, rng):
    demo_case(suite, queue)
    checkpoint_case(suite, queue)
    forward_cases(suite, queue, rng)
    training_cases(suite, queue, rng)
    loss_cases(suite, queue)
