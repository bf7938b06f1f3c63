"""netcl's io, on arrays and on the objects of the package itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ballast import netcl


@pytest.fixture
def model() -> netcl.Sequential:
    rng = np.random.default_rng(2)
    linear = netcl.Layer({"type": "Linear", "args": {"in_features": 3, "out_features": 2, "bias": True}},
                         {"weight": rng.standard_normal((3, 2)).astype("f4"), "bias": np.ones(2, "f4")})  # fmt: skip
    return netcl.Sequential(linear, netcl.Layer({"type": "ReLU", "args": {}}, {}))


@pytest.fixture
def without_netcl(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without the package or without a device."""
    monkeypatch.setattr(netcl, "_default_queue", lambda: None)


@pytest.mark.usefixtures("without_netcl")
def test_a_model_comes_back(here: Path, model: netcl.Sequential) -> None:
    netcl.save_model(model, "folder/model.netcl")
    loaded = netcl.load_model("folder/model.netcl")
    assert [layer.type for layer in loaded] == ["Linear", "ReLU"]
    for ours, theirs in zip(model.layers, loaded.layers):
        for name, array in ours.state_dict().items():
            np.testing.assert_array_equal(array, theirs.state_dict()[name])


@pytest.mark.usefixtures("without_netcl")
def test_files_of_netcls_are_read(data: Path) -> None:
    for name in ("mlp_basic.netcl", "cnn_all_layers.netcl", "old_0_1_0", "old_0_1_4.netcl", "only_relu.netcl", "empty.netcl"):
        model = netcl.load_model(data / "netcl" / name)
        assert isinstance(model, netcl.Sequential)
    with pytest.raises(FileNotFoundError):
        netcl.load_model(data / "netcl" / "nothing")


def test_parameters_come_back(here: Path) -> None:
    saved = [np.arange(3, dtype="f4"), np.ones((2, 2), "f4")]
    netcl.save_params(saved, "raw/p", names=["a", "b"])
    filled = [np.zeros(3, "f4"), np.zeros((2, 2), "f4")]
    netcl.load_params(None, filled, "raw/p.npz", names=["a", "b"])
    assert all(np.array_equal(a, b) for a, b in zip(saved, filled))


def test_what_does_not_fit_is_told_at_once_and_changes_nothing(here: Path) -> None:
    netcl.save_params([np.ones(3, "f4"), np.ones(2, "f4")], "p.npz")
    filled = [np.zeros(3, "f4"), np.zeros(5, "f4")]
    with pytest.raises(ValueError, match=r"p1 is \[2\] in the file and \[5\]"):
        netcl.load_params(None, filled, "p.npz")
    with pytest.raises(KeyError, match="x, y"):
        netcl.load_params(None, filled, "p.npz", names=["x", "y"])
    with pytest.raises(ValueError, match="names"):
        netcl.load_params(None, filled, "p.npz", names=["x"])
    assert not filled[0].any()


def test_checkpoints_come_back(here: Path) -> None:
    params = [np.ones(3, "f4")]
    netcl.save_checkpoint(params, "ckpt/iter_10", optim_state={"t": 10}, config={"lr": 0.1})
    assert sorted(path.name for path in Path("ckpt").iterdir()) == ["iter_10.json", "iter_10.npz"]
    params[0][:] = 0
    assert netcl.load_checkpoint(None, params, "ckpt/iter_10") == {"optim_state": {"t": 10}, "config": {"lr": 0.1}}
    assert params[0].sum() == 3


class TestThePackageItself:
    """Both read what the other wrote."""

    @pytest.fixture
    def queue(self) -> Any:
        from netcl.core.device import manager

        device = manager.default("auto")
        assert device is not None, "netcl found no OpenCL device; install a driver for the CPU, e.g. pocl-opencl-icd"
        return device.queue

    @pytest.fixture
    def theirs(self, queue: Any) -> Any:
        from netcl.nn import BatchNorm2d, Conv2d, Flatten, Linear, MaxPool2d, ReLU, Sequential

        return Sequential(Conv2d(queue, 2, 4, 3, pad=1), BatchNorm2d(queue, 4), ReLU(), MaxPool2d(2, 2), Flatten(),
                          Linear(queue, 16, 3))  # fmt: skip

    @staticmethod
    def assert_same(a: Any, b: Any) -> None:
        for mine, other in zip(a.layers, b.layers):
            assert type(mine) is type(other)
            for name, array in mine.state_dict().items():
                np.testing.assert_array_equal(array, other.state_dict()[name])

    def test_models(self, here: Path, queue: Any, theirs: Any) -> None:
        from netcl.io import load_model, save_model

        netcl.save_model(theirs, "ours.netcl")
        self.assert_same(load_model("ours.netcl", queue), theirs)
        save_model(theirs, "theirs.netcl")
        self.assert_same(netcl.load_model("theirs.netcl", queue), theirs)

    def test_parameters_and_checkpoints(self, here: Path, queue: Any, theirs: Any) -> None:
        from netcl.io import checkpoint

        params = list(theirs.parameters())
        before = [np.array(param.to_host()) for param in params]
        netcl.save_checkpoint(params, "run", optim_state={"t": 1}, config={"lr": 0.1})
        for loader in (checkpoint.load_checkpoint, netcl.load_checkpoint):
            for param in params:
                param.write(np.zeros(param.shape, np.float32))
            assert loader(queue, params, "run") == {"optim_state": {"t": 1}, "config": {"lr": 0.1}}
            for param, values in zip(params, before):
                np.testing.assert_array_equal(param.to_host(), values)
