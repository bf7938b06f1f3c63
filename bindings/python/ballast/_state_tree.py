"""Trees of Python values as tensors and JSON, and back. Nothing is pickled, and nothing is executed on load.

What JSON has words for is written as it is. Everything else is an object with one key that begins with "$":

    {"$torch": NAME}, {"$numpy": NAME}      a tensor, stored under that name
    {"$tuple": [...]}, {"$set": [...]}, {"$frozenset": [...]}, {"$size": [...]}
    {"$dict": [[key, value], ...]}          keys that are no texts; also "$ordered", "$counter" and "$default"
    {"$int": "0x..."}                       beyond 53 bits
    {"$float": "nan"}                       nan, inf and -inf
    {"$complex": [re, im]}, {"$bytes": NAME}, {"$bytearray": NAME}
    {"$scalar": "float32", "hex": "..."}    of NumPy
    {"$dtype": "float32"}, {"$device": "cuda:0"}    of PyTorch
"""

from __future__ import annotations

import importlib
import math
import sys
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from ballast import _core
from ballast.safetensors._dtypes import BY_ANY_NAME
from ballast.safetensors._handle import converted

# The JSON of a checkpoint may be nested 256 levels deep, of which a level here takes up to three.
_MAX_DEPTH = 64
_EXACT_INT = 1 << 53
# Types that safetensors files have no name for: stored as pairs of floats.
_PAIRS = {"complex128": "float64", "complex32": "float16"}
# torch packs two 4-bit floats into an element, which no array library can tell us about.
_STORED = frozenset(BY_ANY_NAME) - {"float4_e2m1fn_x2"} | frozenset(_PAIRS)
_FACTORIES: dict[str, Callable[[], Any]] = {"list": list, "dict": dict, "int": int, "float": float, "set": set}


def loaded_module(name: str) -> Any:
    """A module that the program has imported itself, or None: what is not imported has made no objects either."""
    return sys.modules.get(name)


def corrupt(message: str) -> _core.FormatError:
    """As the library raises it for files that are damaged."""
    error = _core.FormatError(message)
    error.code = "corrupt"
    return error


def _type_name(value: Any) -> str:
    kind: type[Any] = type(value)  # pyright: ignore[reportUnknownVariableType]
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


class TreeWriter:
    """Collects the tensors of one checkpoint while its trees become JSON."""

    def __init__(self) -> None:
        self.weights: list[tuple[str, Any]] = []
        self.state: list[tuple[str, Any]] = []
        self._names: dict[str, set[str]] = {"weights": set(), "state": set()}
        # Memory that is stored already. `_kept` holds the arrays: freed memory might come back as another array.
        self._stored: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._kept: list[Any] = []

    def encode(self, value: Any, where: str, name: str, part: str = "state") -> Any:
        """``where`` is what errors call the value, ``name`` begins the names of its tensors."""
        return self._encode(value, where, name, part, 0)

    # ---- tensors

    def _unique(self, name: str, part: str) -> str:
        """{"a.b": x, "a": {"b": y}} gives two tensors one name."""
        name = name.encode("utf-8", "backslashreplace").decode()
        taken = self._names[part]
        made, number = name, 2
        while made in taken:
            made, number = f"{name}#{number}", number + 1
        taken.add(made)
        return made

    def _add(self, array: Any, name: str, part: str) -> str:
        name = self._unique(name, part)
        (self.weights if part == "weights" else self.state).append((name, array))
        return name

    def _tensor(self, array: Any, kind: str, key: tuple[Any, ...] | None, name: str, part: str) -> dict[str, Any]:
        """``key`` says which memory it is: tied tensors are stored once, and come back as one."""
        if key is not None and key in self._stored:
            return self._stored[key]
        self._kept.append(array)
        reference: dict[str, Any] = {}
        stored = array
        dtype = str(array.dtype).removeprefix("torch.")
        if dtype in _PAIRS:
            stored = importlib.import_module("torch").view_as_real(array) if kind == "$torch" else _as_pairs(array)
            reference["dtype"] = dtype
        order = _axis_order(array, kind)
        if order is not None:
            reference["order"] = order
        reference = {kind: self._add(stored, name, part), **reference}
        if part == "weights":
            reference["part"] = part
        if key is not None:
            self._stored[key] = reference
        return reference

    def _torch(self, tensor: Any, torch: Any, where: str, name: str, part: str) -> dict[str, Any]:
        tensor = tensor.detach()
        kind = str(tensor.dtype).removeprefix("torch.")
        if tensor.layout != torch.strided:
            raise TypeError(f"{where}: sparse tensors cannot be saved; call .to_dense() first")
        if hasattr(tensor, "full_tensor"):
            raise TypeError(f"{where}: a tensor that is spread over processes cannot be saved; call .full_tensor() first")
        if tensor.device.type == "meta" or (tensor.numel() > 0 and not _has_memory(tensor)):
            raise TypeError(f"{where}: a tensor without data ({tensor.device}) cannot be saved")
        if kind not in _STORED:
            raise TypeError(f"{where}: tensors of type {tensor.dtype} cannot be saved")
        place = (tensor.device, tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), kind, tensor.is_conj(), tensor.is_neg())
        if tensor.is_conj() or tensor.is_neg():
            tensor = tensor.resolve_conj().resolve_neg()
        reference = self._tensor(tensor, "$torch", place if tensor.numel() > 0 else None, name, part)
        if tensor.device.type != "cpu":
            reference["device"] = str(tensor.device)
        return reference

    def _numpy(self, array: Any, where: str, name: str, part: str) -> dict[str, Any]:
        kind: str = array.dtype.name
        if kind not in _STORED:
            raise TypeError(f"{where}: arrays of type {array.dtype} cannot be saved")
        interface = array.__array_interface__
        place = ("numpy", interface["data"][0], array.shape, array.strides, array.dtype.str, kind)
        return self._tensor(array, "$numpy", place if array.size > 0 else None, name, part)

    # ---- values

    def _encode(self, value: Any, where: str, name: str, part: str, depth: int) -> Any:
        if value is None or isinstance(value, bool):
            return value
        kind: type[Any] = type(value)  # pyright: ignore[reportUnknownVariableType]
        if kind is str:
            return _text(value, where)
        if kind is int:
            return value if -_EXACT_INT <= value <= _EXACT_INT else {"$int": hex(value)}
        if kind is float:
            return value if math.isfinite(value) else {"$float": str(value)}
        if depth >= _MAX_DEPTH:
            raise ValueError(f"{where}: nested more than {_MAX_DEPTH} levels deep, or a part of itself")
        numpy = loaded_module("numpy")
        torch = loaded_module("torch")
        if torch is not None and isinstance(value, torch.Tensor):
            return self._torch(value, torch, where, name, part)
        if numpy is not None and kind in (numpy.ndarray, numpy.memmap):
            return self._numpy(value, where, name, part)
        if numpy is not None and isinstance(value, numpy.generic):
            return _scalar(value, where)
        if isinstance(value, dict):
            return self._mapping(value, where, name, part, depth)  # pyright: ignore[reportUnknownArgumentType]
        if kind in (list, tuple, set, frozenset) or (torch is not None and kind is torch.Size):
            return self._sequence(value, where, name, part, depth)
        if kind is complex:
            return {"$complex": [self._encode(x, where, name, part, depth + 1) for x in (value.real, value.imag)]}
        if kind in (bytes, bytearray):
            numbers: Any = importlib.import_module("numpy").frombuffer(bytes(value), "uint8")
            self._kept.append(numbers)
            return {f"${kind.__name__}": self._add(numbers, name, "state")}
        if torch is not None and kind in (torch.dtype, torch.device):
            return {f"${kind.__name__}": str(value).removeprefix("torch.")}
        raise TypeError(
            f"{where}: objects of type {_type_name(value)} cannot be saved; a checkpoint holds tensors, numbers, texts, "
            "None, and dicts, lists, tuples and sets of these"
        )

    def _sequence(self, value: Iterable[Any], where: str, name: str, part: str, depth: int) -> Any:
        items = [self._encode(x, f"{where}[{i}]", f"{name}.{i}", part, depth + 1) for i, x in enumerate(value)]
        kind = type(value).__name__.lower()
        return items if kind == "list" else {f"${kind}": items}

    def _mapping(self, value: dict[Any, Any], where: str, name: str, part: str, depth: int) -> Any:
        def entry(key: Any) -> Any:
            return self._encode(value[key], f"{where}[{key!r}]", f"{name}.{key}" if name else str(key), part, depth + 1)

        kind: type[Any] = type(value)  # pyright: ignore[reportUnknownVariableType]
        if kind is dict and all(type(key) is str and not key.startswith("$") for key in value):
            return {_text(key, where): entry(key) for key in value}
        pairs = [[self._encode(key, f"{where}: key {key!r}", name, part, depth + 1), entry(key)] for key in value]
        if kind is dict:
            return {"$dict": pairs}
        if kind is Counter:
            return {"$counter": pairs}
        if isinstance(value, defaultdict) and kind is defaultdict:
            factory: Any = value.default_factory
            named: str | None = None if factory is None else str(getattr(factory, "__name__", ""))
            if named is not None and _FACTORIES.get(named) is not factory:
                raise TypeError(f"{where}: a defaultdict of {factory!r} cannot be saved; turn it into a dict")
            return {"$default": pairs, "factory": named}
        if kind is OrderedDict:
            # torch.nn.Module.state_dict() hangs the versions of its modules on the dict.
            extra: Any = getattr(value, "_metadata", None)
            made: dict[str, Any] = {"$ordered": pairs}
            if extra is not None:
                made["metadata"] = self._encode(extra, f"{where}._metadata", f"{name}._metadata", part, depth + 1)
            return made
        raise TypeError(f"{where}: mappings of type {_type_name(value)} cannot be saved; turn it into a dict")


def _text(value: str, where: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{where}: {value!r} is not valid Unicode and cannot be saved") from None
    return value


def _scalar(value: Any, where: str) -> dict[str, str]:
    kind: str = value.dtype.name
    if kind not in _STORED:
        raise TypeError(f"{where}: NumPy scalars of type {value.dtype} cannot be saved")
    return {"$scalar": kind, "hex": value.tobytes().hex()}


def _has_memory(tensor: Any) -> bool:
    try:
        return bool(tensor.data_ptr())
    except RuntimeError:  # subclasses that only wrap others
        return False


def _as_pairs(array: Any) -> Any:
    numpy: Any = importlib.import_module("numpy")
    return numpy.ascontiguousarray(array).view(_PAIRS[array.dtype.name]).reshape(*array.shape, 2)


def _axis_order(array: Any, kind: str) -> list[int] | None:
    """Axes from the slowest to the fastest where that is not 0, 1, 2: what makes a transposed tensor dense again."""
    contiguous: bool = array.is_contiguous() if kind == "$torch" else array.flags.c_contiguous
    if contiguous or array.ndim < 2:
        return None
    strides: tuple[int, ...] = array.stride() if kind == "$torch" else array.strides
    order = sorted(range(array.ndim), key=lambda axis: (-strides[axis], axis))
    turned = array.permute(order) if kind == "$torch" else array.transpose(order)
    dense: bool = turned.is_contiguous() if kind == "$torch" else turned.flags.c_contiguous
    return order if dense and order != list(range(array.ndim)) else None


class TreeReader:
    """Makes values of JSON and of the tensors of a checkpoint."""

    def __init__(self, checkpoint: _core.LoadedCheckpoint) -> None:
        self._checkpoint = checkpoint
        self._made: dict[tuple[str, str, str, bool], Any] = {}

    def decode(self, value: Any, where: str, *, keep_device: bool = False) -> Any:
        """``keep_device`` puts tensors on the device that they came from; otherwise they are on the CPU.

        ``FormatError``, naming ``where``, for JSON that TreeWriter does not write.
        """
        try:
            return self._decode(value, keep_device)
        except _core.FormatError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise corrupt(f"step {self._checkpoint.step}: {where} cannot be understood: {error}") from error

    def _decode(self, value: Any, device: bool) -> Any:
        if isinstance(value, list):
            items: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
            return [self._decode(item, device) for item in items]
        if not isinstance(value, dict):
            return value
        entries: dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
        tag = next(iter(entries), "")
        if not tag.startswith("$"):
            return {key: self._decode(item, device) for key, item in entries.items()}
        if tag in ("$torch", "$numpy"):
            return self._tensor(entries, tag, device)
        if tag in ("$dict", "$ordered", "$counter", "$default"):
            return self._mapping(entries, tag, device)
        return self._value(tag, entries[tag], entries, device)

    def _value(self, tag: str, content: Any, entries: dict[str, Any], device: bool) -> Any:
        if tag in ("$tuple", "$set", "$frozenset"):
            kinds: dict[str, Callable[[Any], Any]] = {"$tuple": tuple, "$set": set, "$frozenset": frozenset}
            return kinds[tag](self._decode(list(content), device))
        if tag == "$size":
            return importlib.import_module("torch").Size([int(dim) for dim in content])
        if tag == "$int":
            return int(content, 16)
        if tag == "$float":
            return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[content]
        if tag == "$complex":
            real, imaginary = self._decode(list(content), device)
            return complex(float(real), float(imaginary))
        if tag in ("$bytes", "$bytearray"):
            raw: bytes = self._checkpoint.read("state", content)[0].tobytes()
            return raw if tag == "$bytes" else bytearray(raw)
        if tag == "$scalar":
            return _numpy_scalar(content, entries["hex"])
        if tag == "$dtype":
            return _torch_dtype(content)
        if tag == "$device":
            return importlib.import_module("torch").device(content)
        raise ValueError(f'"{tag}" is unknown; a newer version of ballast may have written it')

    def _mapping(self, entries: dict[str, Any], tag: str, device: bool) -> Any:
        pairs = [(self._decode(key, device), self._decode(item, device)) for key, item in entries[tag]]
        if tag == "$counter":
            return Counter(dict(pairs))
        if tag == "$default":
            factory = entries["factory"]
            return defaultdict(None if factory is None else _FACTORIES[factory], pairs)
        if tag == "$dict":
            return dict(pairs)
        made: Any = OrderedDict(pairs)
        if "metadata" in entries:
            made._metadata = self._decode(entries["metadata"], device)
        return made

    def _tensor(self, entries: dict[str, Any], tag: str, device: bool) -> Any:
        part: str = entries.get("part", "state")
        key = (tag, part, str(entries[tag]), device)
        if key not in self._made:
            self._made[key] = self._read(entries, tag, part, device)
        return self._made[key]

    def _read(self, entries: dict[str, Any], tag: str, part: str, device: bool) -> Any:
        array, kind = self._checkpoint.read(part, entries[tag])
        order: list[int] | None = entries.get("order")
        if tag == "$numpy":
            if "dtype" in entries:
                array = array.view(_known(entries["dtype"])).reshape(array.shape[:-1])
            return array if order is None else array.transpose(order).copy().transpose(_inverse(order))
        tensor = converted(array, kind, "pt", "cpu")
        if "dtype" in entries:
            tensor = importlib.import_module("torch").view_as_complex(tensor)
        if order is not None:
            tensor = tensor.permute(order).contiguous().permute(_inverse(order))
        return _to_device(tensor, entries["device"]) if device and "device" in entries else tensor


def _known(dtype: Any) -> str:
    if dtype not in _PAIRS:
        raise ValueError(f'unknown type "{dtype}"')
    return str(dtype)


def _inverse(order: list[int]) -> list[int]:
    return sorted(range(len(order)), key=order.__getitem__)


def _numpy_scalar(kind: str, text: str) -> Any:
    numpy: Any = importlib.import_module("numpy")
    if kind not in _STORED:
        raise ValueError(f'unknown type "{kind}"')
    # bfloat16 and 8-bit floats are ml_dtypes'.
    home: Any = numpy if kind == "bool" or hasattr(numpy, kind) else importlib.import_module("ml_dtypes")
    dtype = numpy.dtype(kind if kind == "bool" else getattr(home, kind))
    return numpy.frombuffer(bytes.fromhex(text), dtype, count=1)[0]


def _torch_dtype(name: str) -> Any:
    torch: Any = importlib.import_module("torch")
    found: Any = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise ValueError(f'torch has no type "{name}"')
    return found


def _to_device(tensor: Any, device: str) -> Any:
    """Where the device is gone (a GPU less, or none), the tensor stays on the CPU."""
    torch: Any = importlib.import_module("torch")
    wanted = torch.device(device)
    if wanted.type == "cuda" and (wanted.index or 0) >= torch.cuda.device_count():
        return tensor
    return tensor.to(wanted)
