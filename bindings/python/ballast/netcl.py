"""netcl's ``io``: the same calls, on netcl's own objects where netcl is installed, and on NumPy arrays where it is not.

Files are whole or not there at all, and what does not fit is told in one error that names all of it.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ballast import _core

__all__ = ["Layer", "Sequential", "load_checkpoint", "load_model", "load_params", "save_checkpoint", "save_model", "save_params"]

# ---------------------------------------------------------------- models without netcl


class Layer:
    """One layer of a model that was loaded without netcl: its type, its arguments and its arrays."""

    def __init__(self, config: dict[str, Any], state: dict[str, Any]) -> None:
        self.config = config
        self._state = state

    @property
    def type(self) -> str:
        return str(self.config.get("type", ""))

    def state_dict(self) -> dict[str, Any]:
        """The arrays themselves."""
        return dict(self._state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes the arrays of ``state`` under the names that the layer has."""
        import numpy

        for name in self._state:
            if name in state:
                self._state[name] = numpy.asarray(state[name])

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in self._state.items())
        return f"Layer({self.type}{': ' + shapes if shapes else ''})"


class Sequential:
    """Layers one after the other, as a file holds them."""

    def __init__(self, *layers: Layer) -> None:
        self.layers = list(layers)

    def parameters(self) -> list[Any]:
        return [array for layer in self.layers for array in layer.state_dict().values()]

    def __iter__(self) -> Iterator[Layer]:
        return iter(self.layers)

    def __repr__(self) -> str:
        return f"Sequential({', '.join(map(repr, self.layers))})"


def _is_netcl(thing: Any) -> bool:
    return type(thing).__module__.partition(".")[0] == "netcl"


def _layer_config(layer: Any) -> dict[str, Any]:
    if isinstance(layer, Layer):
        return layer.config
    factory: Any = importlib.import_module("netcl.nn.factory")
    config: dict[str, Any] = factory.layer_to_config(layer)
    return config


def save_model(model: Any, path: str | os.PathLike[str]) -> None:
    """Writes a Sequential model to one file, which netcl's own ``load_model`` reads."""
    import numpy

    if not hasattr(model, "layers"):
        raise TypeError(f"expected a Sequential, not {type(model).__name__}")
    config = {"type": "Sequential", "config": [_layer_config(layer) for layer in model.layers], "version": 2,
              "format": "netcl.single-file"}  # fmt: skip
    arrays: list[tuple[str, Any]] = []
    for place, layer in enumerate(model.layers):
        state: dict[str, Any] = layer.state_dict()
        arrays += [(f"{place}:{key}", value) for key, value in state.items() if isinstance(value, numpy.ndarray)]
    place_ = _with_folder(path)
    _core.save_path(str(place_), arrays, "netcl", None, json.dumps(config))


def load_model(path: str | os.PathLike[str], queue: Any = None, pool: Any = None) -> Any:
    """Reads a model: netcl's Sequential where netcl is installed and has a device, else one of NumPy arrays.

    ``queue`` is netcl's; ``pool`` is accepted as netcl accepts it, and has no effect there either.

    >>> from ballast import netcl
    >>> import numpy
    >>> layer = netcl.Layer({"type": "Linear", "args": {"in_features": 2, "out_features": 1, "bias": False}},
    ...                     {"weight": numpy.ones((2, 1), "f4")})
    >>> netcl.save_model(netcl.Sequential(layer), "model.netcl")
    >>> netcl.load_model("model.netcl").layers[0].state_dict()["weight"].shape
    (2, 1)
    """
    del pool
    with _core.open_path(os.fspath(path), "read") as archive:
        meta: Any = archive.config
        if meta is None or meta.get("type") != "Sequential":
            raise ValueError(f"{os.fspath(path)}: holds no Sequential model of netcl's")
        arrays = archive.arrays(copy=True)
    config: list[dict[str, Any]] = _layer_list(meta)
    queue = queue if queue is not None else _default_queue()
    if queue is None:
        return Sequential(*(Layer(entry, _state_of(place, arrays)) for place, entry in enumerate(config)))
    factory: Any = importlib.import_module("netcl.nn.factory")
    model = factory.build_sequential(queue, config)
    for place, layer in enumerate(model.layers):
        layer.load_state_dict({**layer.state_dict(), **_state_of(place, arrays)})
    return model


def _layer_list(meta: dict[str, Any]) -> list[dict[str, Any]]:
    """Files of version 1 have the arguments beside the type."""
    layers: list[dict[str, Any]] | None = meta.get("config")
    if layers is not None:
        return layers
    return [{"type": row["type"], "args": {k: v for k, v in row.items() if k != "type"}} for row in meta["layers"]]


def _state_of(place: int, arrays: dict[str, Any]) -> dict[str, Any]:
    prefix = f"{place}:"
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _default_queue() -> Any:
    try:
        device: Any = importlib.import_module("netcl.core.device").manager.default()
    except Exception:  # noqa: BLE001 - no netcl, no OpenCL, no driver: all mean that there is no device
        return None
    return None if device is None else device.queue


# ---------------------------------------------------------------- parameters


def _host_array(param: Any) -> Any:
    return param.to_host() if hasattr(param, "to_host") else param


def _names_for(params: Sequence[Any], names: Iterable[str] | None) -> list[str]:
    chosen = [f"p{place}" for place in range(len(params))] if names is None else list(names)
    if len(chosen) != len(params) or len(set(chosen)) != len(chosen):
        raise ValueError(f"{len(chosen)} names, {len(set(chosen))} of them different, for {len(params)} parameters")
    return chosen


def _with_folder(path: str | os.PathLike[str]) -> Path:
    place = Path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def _npz_path(path: Path) -> Path:
    """As numpy.savez names it."""
    return path if path.name.endswith(".npz") else path.with_name(path.name + ".npz")


def save_params(params: Iterable[Any], path: str | os.PathLike[str], names: Iterable[str] | None = None) -> None:
    """Writes parameters to an .npz, under ``names`` or as p0, p1, ..."""
    given = list(params)
    arrays = [(name, _host_array(param)) for name, param in zip(_names_for(given, names), given)]
    _core.save_path(str(_npz_path(_with_folder(path))), arrays, "npz")


def load_params(
    queue: Any, params: Iterable[Any], path: str | os.PathLike[str], names: Iterable[str] | None = None
) -> None:
    """Fills parameters from an .npz: KeyError names all that are missing, ValueError all of another shape.

    Nothing is changed where either is raised. ``queue`` is netcl's, and None for arrays.
    """
    given = list(params)
    chosen = _names_for(given, names)
    with _core.open_path(str(_found(Path(path))), "read") as archive:
        missing = [name for name in chosen if name not in archive]
        if missing:
            raise KeyError(f"missing from {os.fspath(path)}: {', '.join(missing)}")
        wrong = [
            f"{name} is {list(archive[name].shape)} in the file and {list(param.shape)} in the model"
            for name, param in zip(chosen, given)
            if tuple(archive[name].shape) != tuple(param.shape)
        ]
        if wrong:
            raise ValueError("; ".join(wrong))
        arrays = archive.arrays(chosen, copy=True)
    for name, param in zip(chosen, given):
        _fill(queue, param, arrays[name])


def _found(path: Path) -> Path:
    for candidate in (path, _npz_path(path), path.with_suffix(".npz")):
        if candidate.exists():
            return candidate
    raise FileNotFoundError(f"no such file: {path}, nor {_npz_path(path)}")


def _fill(queue: Any, param: Any, array: Any) -> None:
    if not _is_netcl(param):
        param[...] = array
        return
    values = array.astype("float32")
    if getattr(param, "backend", "cl") == "cpu":
        param.array[...] = values
    else:
        importlib.import_module("netcl.core.transfer").write(queue, param.buffer, values).wait()


# ---------------------------------------------------------------- checkpoints


def _json_path(path: Path) -> Path:
    return path.with_suffix(".json")


def save_checkpoint(
    params: Iterable[Any],
    path: str | os.PathLike[str],
    optim_state: dict[str, Any] | None = None,
    config: dict[str, Any] | None = None,
    names: Iterable[str] | None = None,
) -> None:
    """Writes the parameters to an .npz and the states to a .json beside it."""
    place = _with_folder(path)
    text = json.dumps({"optim_state": optim_state or {}, "config": config or {}})
    given = list(params)
    save_params(given, place, names)
    partial = _json_path(place).with_suffix(".json.partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(_json_path(place))


def load_checkpoint(
    queue: Any, params: Iterable[Any], path: str | os.PathLike[str], names: Iterable[str] | None = None
) -> dict[str, Any]:
    """Fills parameters, and gives the states: ``{"optim_state": ..., "config": ...}``."""
    load_params(queue, params, path, names)
    states = _json_path(Path(path))
    if not states.exists():
        return {}
    loaded: dict[str, Any] = json.loads(states.read_text(encoding="utf-8"))
    return loaded
