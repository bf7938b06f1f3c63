"""ballast.CheckpointManager on the objects of PyTorch."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ballast

torch: Any = pytest.importorskip("torch")


class Training:
    """A small training with everything that has a state."""

    def __init__(self, make_optimizer: Any = None, make_scheduler: Any = None) -> None:
        torch.manual_seed(0)
        random.seed(0)
        np.random.seed(0)
        self.model = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Dropout(0.3), torch.nn.Linear(16, 1)
        )
        self.optimizer = (make_optimizer or torch.optim.AdamW)(self.model.parameters(), lr=0.01)
        self.scheduler = (make_scheduler or (lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 50)))(self.optimizer)
        self.scaler = torch.amp.GradScaler("cpu", growth_interval=3)
        self.objects = {"model": self.model, "optimizer": self.optimizer, "scheduler": self.scheduler, "scaler": self.scaler}

    def step(self) -> float:
        scale = random.random() + np.random.random()
        inputs = torch.randn(32, 8) * scale
        loss = (self.model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
        self.optimizer.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        if isinstance(self.scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
            self.scheduler.step(loss.detach())
        else:
            self.scheduler.step()
        return float(loss.detach())


lr = torch.optim.lr_scheduler
OPTIMIZERS = {
    "sgd": lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9, nesterov=True),
    "adam": lambda p, lr: torch.optim.Adam(p, lr, amsgrad=True),
    "adagrad": torch.optim.Adagrad,
    "rmsprop": lambda p, lr: torch.optim.RMSprop(p, lr, momentum=0.9, centered=True),
    "adamw fused": lambda p, lr: torch.optim.AdamW(p, lr, fused=True),
    "nadam": torch.optim.NAdam,
    "lbfgs free: rprop": torch.optim.Rprop,
    "groups": lambda p, lr: torch.optim.AdamW([{"params": [x], "lr": lr * (i + 1)} for i, x in enumerate(p)]),
}
SCHEDULERS = {
    "steps": lambda o: lr.MultiStepLR(o, [2, 4, 20]),
    "plateau": lambda o: lr.ReduceLROnPlateau(o, patience=1),
    "one cycle": lambda o: lr.OneCycleLR(o, 0.1, total_steps=50),
    "lambda": lambda o: lr.LambdaLR(o, lambda epoch: 0.9**epoch),
    "sequence": lambda o: lr.SequentialLR(o, [lr.ConstantLR(o), lr.ExponentialLR(o, 0.9)], [5]),
    "warm restarts": lambda o: lr.CosineAnnealingWarmRestarts(o, 7),
    "cyclic": lambda o: lr.CyclicLR(o, 0.01, 0.1, step_size_up=5, cycle_momentum=False),
}


def assert_resumes(make: Any) -> None:
    undisturbed = make()
    losses = [undisturbed.step() for _ in range(12)]
    first = make()
    with ballast.CheckpointManager("run", first.objects, sync=False) as manager:
        assert [first.step() for _ in range(6)] == losses[:6]
        manager.save(6)
    second = make()
    for _ in range(2):  # a state that must not survive
        second.step()
    with ballast.CheckpointManager("run", second.objects, sync=False) as manager:
        assert manager.restore() is not None
        assert [second.step() for _ in range(6)] == losses[6:]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_goes_on_to_the_bit_with_any_optimizer(name: str, here: Path) -> None:
    assert_resumes(lambda: Training(make_optimizer=OPTIMIZERS[name]))


@pytest.mark.parametrize("name", SCHEDULERS)
def test_training_goes_on_to_the_bit_with_any_scheduler(name: str, here: Path) -> None:
    assert_resumes(lambda: Training(make_scheduler=SCHEDULERS[name]))


def round_trip(state: Any) -> Any:
    with ballast.CheckpointManager("run", sync=False) as manager:
        manager.save(1, state)
        restored = manager.restore()
    assert restored is not None
    return restored.state


def test_tensors_come_back_as_they_were(here: Path) -> None:
    image = torch.randn(2, 3, 4, 5)
    tensors = {
        "plain": torch.arange(6.0).reshape(2, 3),
        "0-dim": torch.tensor(3),
        "empty": torch.zeros(0, 3),
        "transposed": torch.arange(6.0).reshape(2, 3).T,
        "channels last": image.to(memory_format=torch.channels_last),
        "strided": torch.arange(10)[::3],
        "expanded": torch.ones(1, 3).expand(4, 3),
        "bf16": torch.randn(3).bfloat16(),
        "half": torch.randn(3).half(),
        "fp8": torch.randn(4).to(torch.float8_e4m3fn),
        "fp8 e5m2": torch.randn(4).to(torch.float8_e5m2),
        "bool": torch.tensor([True, False]),
        "uint16": torch.tensor([1, 2], dtype=torch.uint16),
        "complex": torch.tensor([1 + 2j]),
        "complex128": torch.tensor([1 + 2j, 3], dtype=torch.complex128),
        "conjugate": torch.tensor([1 + 2j]).conj(),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "grad": torch.ones(2, requires_grad=True) * 2,
    }
    back = round_trip(tensors)
    for name, tensor in tensors.items():
        assert back[name].dtype == tensor.dtype and back[name].shape == tensor.shape, name
        wide = torch.complex128 if tensor.is_complex() else torch.float64
        assert torch.equal(back[name].to(wide), tensor.detach().to(wide)), name
    for name in ("transposed", "channels last"):
        assert back[name].stride() == tensors[name].stride()


def test_other_values_of_torch_come_back(here: Path) -> None:
    values = [torch.float32, torch.bfloat16, torch.device("cpu"), torch.device("cuda:1"), torch.Size([2, 3])]
    back = round_trip(values)
    assert back == values and [type(value) for value in back] == [type(value) for value in values]


def test_tied_weights_are_stored_once(here: Path) -> None:
    def make() -> Any:
        model = torch.nn.Sequential(torch.nn.Embedding(100, 32), torch.nn.Linear(32, 100, bias=False))
        model[1].weight = model[0].weight
        return model

    model = make()
    with ballast.CheckpointManager("run", {"model": model}, rng=False, sync=False) as manager:
        manager.save(1)
        manager.wait()
        size = sum(path.stat().st_size for path in Path("run").glob("*-weights-*"))
        assert size < 100 * 32 * 4 + 1000
        other = make()
    with ballast.CheckpointManager("run", {"model": other}, rng=False, sync=False) as manager:
        manager.restore()
    assert torch.equal(other[1].weight, model[0].weight) and other[1].weight is other[0].weight


def test_memory_that_was_freed_is_not_taken_for_a_tied_tensor(here: Path) -> None:
    class Fresh:
        """Its tensors live no longer than its state."""

        def __init__(self, value: float) -> None:
            self.value = value

        def state_dict(self) -> dict[str, Any]:
            return {"t": torch.full((1000,), self.value)}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            self.value = float(state["t"][0])

    objects = {f"o{i}": Fresh(i) for i in range(20)}
    with ballast.CheckpointManager("run", objects, sync=False) as manager:
        manager.save(1)
        for one in objects.values():
            one.value = -1
        manager.restore()
    assert [one.value for one in objects.values()] == list(range(20))


def test_tensors_that_cannot_be_saved_are_named(here: Path) -> None:
    with ballast.CheckpointManager("run") as manager:
        for tensor, message in (
            (torch.eye(3).to_sparse(), "to_dense"),
            (torch.empty(3, device="meta"), "without data"),
            (torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.quint8), "quint8"),
        ):
            with pytest.raises(TypeError, match=rf"state\['a'\]\[0\].*{message}"):
                manager.save(1, {"a": [tensor]})


def test_module_versions_and_extra_state_come_back(here: Path) -> None:
    class Counting(torch.nn.Module):  # type: ignore[misc, name-defined]
        _version = 7

        def __init__(self) -> None:
            super().__init__()
            self.seen: Any = None
            self.norm = torch.nn.BatchNorm1d(2)

        def get_extra_state(self) -> Any:
            return {"count": 3, "raw": b"bytes"}

        def set_extra_state(self, state: Any) -> None:
            self.seen = state

        def _load_from_state_dict(self, state: Any, prefix: str, metadata: Any, *rest: Any) -> None:
            assert metadata["version"] == 7
            super()._load_from_state_dict(state, prefix, metadata, *rest)

    model = Counting()
    with ballast.CheckpointManager("run", {"model": model}, sync=False) as manager:
        manager.save(1)
        manager.restore()
    assert model.seen == {"count": 3, "raw": b"bytes"}


def test_generators_are_objects_too(here: Path) -> None:
    generator, tensor = torch.Generator().manual_seed(3), torch.zeros(3)
    with ballast.CheckpointManager("run", {"g": generator, "t": tensor}, sync=False) as manager:
        manager.save(1)
        expected = torch.rand(3, generator=generator)
        tensor += 1
        manager.restore()
    assert torch.equal(torch.rand(3, generator=generator), expected) and not tensor.any()


def test_the_weights_of_one_module_are_an_ordinary_file(here: Path) -> None:
    from ballast.safetensors.torch import load_file

    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    with ballast.CheckpointManager("run", {"model": model, "optimizer": optimizer}, sync=False) as manager:
        manager.save(1)
    other = torch.nn.Linear(3, 2)
    other.load_state_dict(load_file(next(Path("run").glob("*-weights-*"))))
    assert torch.equal(other.weight, model.weight)
    state = load_file(next(Path("run").glob("*-state-*")))
    assert torch.equal(state["optimizer.state.0.exp_avg"], optimizer.state_dict()["state"][0]["exp_avg"])


def test_several_modules_keep_their_names_apart(here: Path) -> None:
    from ballast.safetensors.torch import load_file

    one, two = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    with ballast.CheckpointManager("run", {"one": one, "two": two}, sync=False) as manager:
        manager.save(1)
        manager.wait()
    assert set(load_file(next(Path("run").glob("*-weights-*")))) == {"one.weight", "one.bias", "two.weight", "two.bias"}


def test_torch_is_not_imported_for_programs_without_it(here: Path) -> None:
    code = """
import sys, numpy as np, ballast
with ballast.CheckpointManager("plain", {"a": np.ones(2)}) as m:
    m.save(1); m.restore()
print("torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=here, capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


@pytest.mark.parametrize(
    ("make", "copies"),
    [
        (lambda p: torch.optim.AdamW(p), 2),
        (lambda p: torch.optim.AdamW(p, amsgrad=True), 3),
        (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), 1),
        (lambda p: torch.optim.SGD(p, lr=0.1), 0),
    ],
)
def test_memory_that_is_reserved_is_about_what_the_first_save_copies(make: Any, copies: int, here: Path) -> None:
    from ballast._stateful import expected_bytes

    model = torch.nn.Linear(64, 64)
    optimizer = make(model.parameters())
    expected = expected_bytes(model) + expected_bytes(optimizer)
    assert expected == (1 + copies) * (64 * 64 + 64) * 4
    model(torch.ones(1, 64)).sum().backward()
    optimizer.step()
    assert 0 <= expected_bytes(model) + expected_bytes(optimizer) - expected <= 8  # Adam counts its steps
    with ballast.CheckpointManager("run", {"model": model, "optimizer": optimizer}, rng=False) as manager:
        assert 0 <= manager.save(1).bytes - expected <= 8


def test_a_lazy_module_has_no_size_yet(here: Path) -> None:
    model = torch.nn.LazyLinear(4)
    with ballast.CheckpointManager("run", {"model": model}) as manager:
        model(torch.ones(1, 8))
        manager.save(1)
        with torch.no_grad():
            model.weight.zero_()
        saved = model.bias.clone()
        assert manager.restore() is not None
        assert model.weight.abs().sum() > 0 and torch.equal(model.bias, saved)
