"""What a checkpoint takes out of a program's objects, and how it is put back: modules, optimizers, random states, plain data."""

from __future__ import annotations

import importlib
import logging
import random
from typing import Any

from ballast._state_tree import loaded_module

_log = logging.getLogger("ballast")


def has_state_dict(value: Any) -> bool:
    """Modules, optimizers, schedulers, scalers, stateful data loaders, or whatever has the same two methods."""
    return callable(getattr(value, "state_dict", None)) and callable(getattr(value, "load_state_dict", None))


def is_module(value: Any) -> bool:
    """Whether its tensors are a model's weights."""
    torch = loaded_module("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


def _is_of(value: Any, module: str, name: str) -> bool:
    home = loaded_module(module)
    return home is not None and isinstance(value, getattr(home, name))


def is_plain(value: Any) -> bool:
    """Whether the content is the object, so that tensors go back to their own devices."""
    return not has_state_dict(value)


def check_object(name: str, value: Any) -> None:
    """TypeError for what cannot be restored in place."""
    known = (
        has_state_dict(value)
        or type(value) in (dict, list)
        or isinstance(value, random.Random)
        or _is_of(value, "numpy", "ndarray")
        or _is_of(value, "numpy.random", "Generator")
        or _is_of(value, "torch", "Tensor")
        or _is_of(value, "torch", "Generator")
    )
    if not known:
        raise TypeError(
            f"{name}: a {type(value).__qualname__} cannot be restored in place; give an object with state_dict() and "
            "load_state_dict(), a dict, a list, an array or a generator of random numbers, or pass it to save(state=...)"
        )


def capture(value: Any) -> Any:
    """The tree to be saved. Its tensors are the object's own, not copies."""
    if has_state_dict(value):
        return value.state_dict()
    if isinstance(value, random.Random):
        return _python_state(value.getstate())
    if _is_of(value, "numpy.random", "Generator"):
        return value.bit_generator.state
    if _is_of(value, "torch", "Generator"):
        return value.get_state()
    return value


def expected_bytes(value: Any) -> int:
    """About what the tensors of capture() are going to take, as far as that can be told without calling state_dict()."""
    if is_module(value):
        tensors: list[Any] = [*value.parameters(), *value.buffers()]
        return sum(map(_tensor_bytes, tensors))
    if _is_of(value, "torch.optim", "Optimizer"):
        return sum(_optimizer_bytes(value, group, parameter) for group in value.param_groups for parameter in group["params"])
    if _is_of(value, "torch", "Tensor"):
        return _tensor_bytes(value)
    if _is_of(value, "numpy", "ndarray"):
        return int(value.nbytes)
    return 0


def _tensor_bytes(tensor: Any) -> int:
    try:
        return int(tensor.numel() * tensor.element_size())
    except (RuntimeError, ValueError):
        return 0  # of a lazy module, which makes its tensors when it is first used


def _optimizer_bytes(optimizer: Any, group: dict[str, Any], parameter: Any) -> int:
    """An optimizer makes its state in its first step. Until then: two moments for Adam and its relatives, one for SGD's."""
    known: dict[str, Any] | None = optimizer.state.get(parameter)
    if known:
        return sum(_tensor_bytes(value) for value in known.values() if _is_of(value, "torch", "Tensor"))
    moments = 2 + bool(group.get("amsgrad")) if "betas" in group else bool(group.get("momentum"))
    return moments * _tensor_bytes(parameter) if parameter.requires_grad else 0


def put_back(name: str, value: Any, tree: Any) -> None:
    """Restores an object in place."""
    if has_state_dict(value):
        value.load_state_dict(tree)
    elif isinstance(value, random.Random):
        value.setstate(_python_tuple(tree))
    elif _is_of(value, "numpy.random", "Generator"):
        value.bit_generator.state = tree
    elif _is_of(value, "torch", "Generator"):
        value.set_state(tree)
    elif isinstance(value, dict):
        table: dict[Any, Any] = value  # pyright: ignore[reportUnknownVariableType]
        table.clear()
        table.update(tree)
    elif isinstance(value, list):
        value[:] = tree
    else:
        _fill_array(name, value, tree)


def _fill_array(name: str, array: Any, saved: Any) -> None:
    if tuple(array.shape) != tuple(saved.shape) or array.dtype != saved.dtype:
        raise ValueError(
            f"{name}: has shape {tuple(array.shape)} and type {array.dtype}, the checkpoint {tuple(saved.shape)} and {saved.dtype}"
        )
    if _is_of(array, "numpy", "ndarray"):
        array[...] = saved
    else:
        with importlib.import_module("torch").no_grad():
            array.copy_(saved)


# ---------------------------------------------------------------- random states


def _python_state(state: tuple[Any, ...]) -> dict[str, Any]:
    """625 words of 32 bits make a better tensor than a list."""
    version, words, gauss = state
    return {"version": version, "words": importlib.import_module("numpy").array(words, "uint32"), "gauss": gauss}


def _python_tuple(tree: Any) -> tuple[Any, ...]:
    return (tree["version"], tuple(int(word) for word in tree["words"]), tree["gauss"])


def capture_random() -> dict[str, Any]:
    """The global generators of Python, and of NumPy and torch where these are imported."""
    states: dict[str, Any] = {"python": _python_state(random.getstate())}
    numpy_random = loaded_module("numpy.random")
    if numpy_random is not None:
        states["numpy"] = numpy_random.get_state(legacy=False)
    torch = loaded_module("torch")
    if torch is not None:
        states["torch"] = torch.get_rng_state()
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            states["cuda"] = torch.cuda.get_rng_state_all()
    return states


def restore_random(states: dict[str, Any]) -> None:
    """Sets the global generators."""
    random.setstate(_python_tuple(states["python"]))
    if "numpy" in states:
        importlib.import_module("numpy.random").set_state(states["numpy"])
    if "torch" not in states:
        return
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        _log.warning("the checkpoint has torch's random state, but torch is not installed here")
        return
    torch.set_rng_state(states["torch"])
    cuda: list[Any] = states.get("cuda", [])
    count: int = torch.cuda.device_count() if cuda else 0
    if count < len(cuda):
        _log.warning("the checkpoint has random states of %d GPUs, this machine has %d", len(cuda), count)
    for device, state in enumerate(cuda[:count]):
        torch.cuda.set_rng_state(state, device)
