"""netcl: model files, parameter files and checkpoints of the real package on OpenCL, both ways."""

import json
import shutil

import cases_netcl_training
import numpy as np
from netcl.core.device import manager
from netcl.core.tensor import Tensor as NetclTensor
from netcl.io import load_model, save_model
from netcl.io.checkpoint import load_checkpoint, load_params, save_checkpoint, save_params
from netcl.nn import (BatchNorm2d, Conv2d, Dropout, Flatten, LeakyReLU, Linear, MaxPool2d, ReLU, Sequential, Sigmoid, Tanh)

from harness import compare, of_array, of_arrays, require, same_bytes

STATE_KEYS = ("weight", "bias", "gamma", "beta", "running_mean", "running_var")
META = "__netcl_meta__"


def models(queue):
    return {
        "an MLP with every activation": Sequential(
            Linear(queue, 6, 16), ReLU(), Dropout(0.25, seed=11), Linear(queue, 16, 8), Tanh(),
            Linear(queue, 8, 8, bias=False), LeakyReLU(0.1), Linear(queue, 8, 3), Sigmoid()),
        "a CNN with every layer": Sequential(
            Conv2d(queue, 2, 6, 3, pad=1), BatchNorm2d(queue, 6), ReLU(), MaxPool2d(2, 2),
            Conv2d(queue, 6, 8, 3, stride=2, pad=1, bias=False), BatchNorm2d(queue, 8, momentum=0.2, eps=1e-3),
            LeakyReLU(0.05), Conv2d(queue, 8, 8, 3, pad=2, dilation=2), Tanh(), Conv2d(queue, 8, 4, 1, groups=2),
            Sigmoid(), Flatten(), Dropout(0.5), Linear(queue, 24, 5)),
        "a model without tensors": Sequential(ReLU()),
        "an empty model": Sequential(),
    }


def state(model):
    """{member name: array}, in the order netcl saves them."""
    out = {}
    for i, layer in enumerate(model.layers):
        for key in STATE_KEYS:
            tensor = getattr(layer, key, None)
            if tensor is not None and hasattr(tensor, "to_host"):
                out[f"{i}:{key}"] = np.array(tensor.to_host())
    return out


def randomise(model, rng):
    for layer in model.layers:
        for key in STATE_KEYS:
            tensor = getattr(layer, key, None)
            if tensor is not None and hasattr(tensor, "to_host"):
                tensor.write(rng.standard_normal(tensor.shape).astype(np.float32))


def config_is(report, text):
    """The metadata text, whether the report shows it as text or as the object it stands for."""
    config = report["config"]
    require(config == text or config == json.loads(text), f"config {config!r}, expected {text!r}")


def run(suite):
    device = manager.default("auto")
    require(device is not None, "netcl found no OpenCL device; install a driver for the CPU, e.g. pocl-opencl-icd")
    queue = device.queue
    np.random.seed(20260101)  # netcl draws initial weights from NumPy's global generator
    rng = np.random.default_rng(3)
    for what, model in models(queue).items():
        randomise(model, rng)
        model_cases(suite, queue, what, model)
    parameter_cases(suite, queue, rng)
    checkpoint_cases(suite, queue, rng)
    cases_netcl_training.run(suite, queue, rng)


def model_cases(suite, queue, what, model):
    folder = suite.folder / what.replace(" ", "_")
    shutil.rmtree(folder, ignore_errors=True)
    theirs = folder / "theirs.netcl"
    folder.mkdir(parents=True)
    save_model(model, str(theirs))
    arrays = state(model)
    with np.load(theirs, allow_pickle=False) as file:
        meta = file[META].item()
        require(set(file.files) == {*arrays, META}, "netcl saved other members than these cases expect")

    with suite.case("read", f"save_model: {what}"):
        report = suite.ballast.inspect(theirs)
        require(report["format"] == "netcl", f"taken for {report['format']}")
        compare(of_arrays(arrays), suite.ballast.tensors(theirs))
        require([t["name"] for t in report["tensors"]] == list(arrays), "order of the tensors")
        config_is(report, meta)
        suite.ballast.verify(theirs)
    with suite.case("read", f"save_model, found by content under another name: {what}"):
        shutil.copy(theirs, folder / "renamed.bin")
        require(suite.ballast.inspect(folder / "renamed.bin")["format"] == "netcl", "not recognised")

    for between in ("safetensors", "bpk", "npz"):
        with suite.case("write", f"netcl > {between} > netcl is netcl's file, and load_model gives the model: {what}"):
            middle = suite.ballast.convert(theirs, folder / f"middle.{between}", "--container-only")
            ours = suite.ballast.convert(middle, folder / f"from_{between}.netcl", "--to", "netcl")
            same_bytes(ours, theirs)
            compare(of_arrays(arrays), of_arrays(state(load_model(str(ours), queue))))
    with suite.case("write", f"netcl-legacy, read by load_model: {what}"):
        suite.ballast.convert(theirs, folder / "legacy", "--to", "netcl-legacy")
        require((folder / "legacy.json").exists() and (folder / "legacy.npz").exists(), "the pair is not there")
        compare(of_arrays(arrays), of_arrays(state(load_model(str(folder / "legacy"), queue))))
    with suite.case("read", f"the legacy pair, opened by its prefix: {what}"):
        compare(of_arrays(arrays), suite.ballast.tensors(folder / "legacy"))
    with suite.case("write", f"netcl-legacy > netcl, read by load_model: {what}"):
        ours = suite.ballast.convert(folder / "legacy", folder / "from_legacy.netcl", "--to", "netcl")
        compare(of_arrays(arrays), of_arrays(state(load_model(str(ours), queue))))


def host_tensors(queue, arrays):
    return [NetclTensor.from_host(queue, a, dtype=str(a.dtype)) for a in arrays.values()]


def blank(queue, arrays):
    return host_tensors(queue, {name: np.zeros_like(a) for name, a in arrays.items()})


def parameter_cases(suite, queue, rng):
    folder = suite.folder / "params"
    shutil.rmtree(folder, ignore_errors=True)
    floats = {f"p{i}": rng.standard_normal(s).astype(np.float32) for i, s in enumerate([(5, 7), (7,), (1, 2, 3, 4)])}
    mixed = {"p0": rng.standard_normal((3, 4)).astype(np.float16), "p1": rng.integers(-9, 9, 5).astype(np.int32),
             "p2": rng.standard_normal(3), "p3": rng.integers(-2**40, 2**40, (2, 2))}
    named = {f"fc{i}.weight": a for i, a in enumerate(floats.values())}
    for what, arrays, names in (("default names", floats, None), ("own names", named, list(named)), ("other dtypes", mixed, None)):
        theirs = folder / f"{what.replace(' ', '_')}.npz"
        save_params(host_tensors(queue, arrays), theirs, names=names)
        with suite.case("read", f"save_params: {what}"):
            compare(of_arrays(arrays), suite.ballast.tensors(theirs))
        with suite.case("write", f"parameters through safetensors and back, byte for byte: {what}"):
            middle = suite.ballast.convert(theirs, folder / f"{what}.safetensors")
            ours = suite.ballast.convert(middle, folder / f"ours {what}.npz", "--target", "numpy")
            same_bytes(ours, theirs)
        if arrays is mixed:
            continue  # load_params itself turns everything but float32 into garbage
        with suite.case("write", f"our aligned npz, read by load_params: {what}"):
            ours = suite.ballast.convert(theirs, folder / f"aligned {what}.npz")
            tensors = blank(queue, arrays)
            load_params(queue, tensors, ours, names=names)
            compare(of_arrays(arrays), {name: of_array(t.to_host()) for name, t in zip(arrays, tensors)})


def checkpoint_cases(suite, queue, rng):
    folder = suite.folder / "checkpoint"
    shutil.rmtree(folder, ignore_errors=True)
    arrays = {f"p{i}": rng.standard_normal(s).astype(np.float32) for i, s in enumerate([(5, 7), (7,)])}
    # netcl's JSON refuses arrays, so a state that can be saved at all holds lists.
    optim_state = {"t": 10, "moments": [[rng.standard_normal(a.shape).astype(np.float32).tolist() for _ in "mv"]
                                        for a in arrays.values()]}
    config = {"lr": 0.001, "name": "прогон", "nested": {"a": [1, 2.5, None, True]}}
    (folder / "their").mkdir(parents=True)
    save_checkpoint(host_tensors(queue, arrays), folder / "their" / "step_10", optim_state=optim_state, config=config)
    theirs = {suffix: folder / "their" / f"step_10{suffix}" for suffix in (".npz", ".json")}

    with suite.case("read", "save_checkpoint, opened by its prefix"):
        compare(of_arrays(arrays), suite.ballast.tensors(folder / "their" / "step_10"))
        config_is(suite.ballast.inspect(folder / "their" / "step_10"), theirs[".json"].read_text())
    with suite.case("write", "checkpoint through safetensors and back, byte for byte, read by load_checkpoint"):
        middle = suite.ballast.convert(folder / "their" / "step_10", folder / "middle.safetensors")
        ours = folder / "our" / "step_10"
        suite.ballast.convert(middle, ours, "--to", "netcl-checkpoint")
        for suffix, path in theirs.items():
            same_bytes(ours.with_name(ours.name + suffix), path)
        tensors = blank(queue, arrays)
        meta = load_checkpoint(queue, tensors, ours)
        compare(of_arrays(arrays), {name: of_array(t.to_host()) for name, t in zip(arrays, tensors)})
        require(meta == {"optim_state": optim_state, "config": config}, "optimizer state or config changed")
