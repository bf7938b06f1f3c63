"""safetensors files of torch tensors and modules."""

from __future__ import annotations

import importlib
import os
from collections import defaultdict
from typing import Any

from ballast import _core
from ballast.safetensors._dtypes import BY_ANY_NAME, TO_BALLAST
from ballast.safetensors._handle import safe_open, torch_tensor, translated_errors
from ballast.safetensors._raw import write_file

__all__ = ["load", "load_file", "load_model", "save", "save_file", "save_model"]

Tensor = Any
Module = Any

# ---------------------------------------------------------------- memory that tensors share


def storage_ptr(tensor: Tensor) -> int:
    """Where the storage of a tensor begins."""
    return int(tensor.untyped_storage().data_ptr())


def storage_size(tensor: Tensor) -> int:
    """How many bytes its storage has."""
    return int(tensor.untyped_storage().nbytes())


def _end_ptr(tensor: Tensor) -> int:
    """Just behind its last element."""
    if not tensor.nelement():
        return int(tensor.data_ptr())
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return int(tensor.data_ptr() + (last + 1) * tensor.element_size())


def _find_shared_tensors(state_dict: dict[str, Tensor]) -> list[set[str]]:
    """Names of tensors that overlap in memory, together; each of the others alone. Without memory, none."""
    storages: dict[tuple[Any, int, int], list[str]] = defaultdict(list)
    for name, tensor in state_dict.items():
        if tensor.device.type != "meta" and storage_ptr(tensor) != 0 and storage_size(tensor) != 0:
            storages[tensor.device, storage_ptr(tensor), storage_size(tensor)].append(name)
    groups: list[set[str]] = []
    for names in storages.values():
        groups.extend(_overlapping(names, state_dict))
    return groups


def _overlapping(names: list[str], state_dict: dict[str, Tensor]) -> list[set[str]]:
    """Splits the tensors of one storage where one ends before the next begins."""
    ordered = sorted(names, key=lambda name: (state_dict[name].data_ptr(), _end_ptr(state_dict[name]), name))
    groups: list[set[str]] = []
    reached = -1
    for name in ordered:
        begin, end = state_dict[name].data_ptr(), _end_ptr(state_dict[name])
        if groups and begin < reached:
            groups[-1].add(name)
        else:
            groups.append({name})
        reached = max(reached, end)
    return groups


def _is_complete(tensor: Tensor) -> bool:
    """Whether it is the whole of its storage."""
    return bool(
        tensor.data_ptr() == storage_ptr(tensor) and tensor.nelement() * tensor.element_size() == storage_size(tensor)
    )


def _remove_duplicate_names(
    state_dict: dict[str, Tensor],
    *,
    preferred_names: list[str] | None = None,
    discard_names: list[str] | None = None,
) -> dict[str, list[str]]:
    """Which name of each group to keep, with the names to leave out."""
    preferred, discarded = set(preferred_names or ()), set(discard_names or ())
    removals: dict[str, list[str]] = defaultdict(list)
    for group in _find_shared_tensors(state_dict):
        complete = sorted(name for name in group if _is_complete(state_dict[name]))
        if not complete:
            raise RuntimeError(
                f"Error while trying to find names to remove to save state dict, but found no suitable name to keep for "
                f"saving amongst: {group}. None is covering the entire storage. Refusing to save/load the model since "
                f"you could be storing much more memory than needed."
            )
        keep = complete[0]
        wanted = [name for name in complete if name not in discarded]
        if wanted:
            keep = wanted[0]
        if chosen := sorted(preferred.intersection(complete)):
            keep = chosen[0]
        for name in sorted(group - {keep}):
            removals[keep].append(name)
    return dict(removals)


# ---------------------------------------------------------------- saving


def _check_tensors(tensors: Any) -> None:
    torch: Any = importlib.import_module("torch")
    if not isinstance(tensors, dict):
        raise ValueError(f"Expected a dict of [str, torch.Tensor] but received {type(tensors)}")
    given: dict[str, Any] = tensors  # pyright: ignore[reportUnknownVariableType]
    for name, tensor in given.items():
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(f"Key `{name}` is invalid, expected torch.Tensor but received {type(tensor)}")
    sparse = [name for name, tensor in given.items() if tensor.layout != torch.strided]
    if sparse:
        raise ValueError(
            f"You are trying to save a sparse tensors: `{sparse}` which this library does not support. You can make it a "
            f"dense tensor before saving with `.to_dense()` but be aware this might make a much larger file than needed."
        )
    shared = [group for group in _find_shared_tensors(given) if len(group) > 1]
    if shared:
        raise RuntimeError(
            f"Some tensors share memory, this will lead to duplicate memory on disk and potential differences when "
            f"loading them again: {shared}. A potential way to correctly save your model is to use `save_model`."
        )
    for name, tensor in given.items():
        if not tensor.is_contiguous():
            raise ValueError(
                f"You are trying to save a non contiguous tensor: `{name}` which is not allowed. It either means you "
                f"are trying to save tensors which are reference of each other in which case it's recommended to save "
                f"only the full tensors, and reslice at load time, or simply call `.contiguous()` on your tensor to "
                f"pack it before saving."
            )


def _items(tensors: Any) -> list[tuple[str, Any]]:
    _check_tensors(tensors)
    return [(name, _writable_form(tensor)) for name, tensor in tensors.items()]


def _writable_form(tensor: Tensor) -> Any:
    """Types of torch's that no other library has go as bytes with a name."""
    name = str(tensor.dtype).removeprefix("torch.")
    if name != "float4_e2m1fn_x2":
        return tensor
    torch: Any = importlib.import_module("torch")
    bytes_ = tensor.detach().cpu().view(torch.uint8)
    shape = [*tensor.shape[:-1], tensor.shape[-1] * 2]
    return _core.typed_bytes(bytes_.numpy().data, TO_BALLAST[BY_ANY_NAME[name]], shape)


def save(tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of a safetensors file."""
    items = _items(tensors)
    with translated_errors():
        return _core.save_bytes(items, "safetensors", metadata)


def save_file(
    tensors: dict[str, Tensor], filename: str | os.PathLike[str], metadata: dict[str, str] | None = None
) -> None:
    """Writes a safetensors file, whole or not at all. Tensors must be contiguous and share no memory."""
    write_file(_items(tensors), filename, metadata)


def save_model(
    model: Module, filename: str, metadata: dict[str, str] | None = None, force_contiguous: bool = True
) -> None:
    """Writes the parameters and buffers of a module; what it holds under several names is written once."""
    state_dict: dict[str, Tensor] = model.state_dict()
    noted = dict(metadata or {})
    for kept, names in _remove_duplicate_names(state_dict).items():
        for name in names:
            noted.setdefault(name, kept)
            del state_dict[name]
    if force_contiguous:
        state_dict = {name: tensor.contiguous() for name, tensor in state_dict.items()}
    try:
        save_file(state_dict, filename, metadata=noted or None)
    except ValueError as error:
        raise ValueError(f"{error} Or use save_model(..., force_contiguous=True), read the docs for potential caveats.") from error


# ---------------------------------------------------------------- loading


def load_file(filename: str | os.PathLike[str], device: Any = "cpu", *, backend: str = "mmap") -> dict[str, Tensor]:
    """Tensors from a file: views of it, whose changes stay in memory."""
    with safe_open(filename, framework="pt", device=device, backend=backend) as file:
        return file.get_tensors()


def load(data: bytes) -> dict[str, Tensor]:
    """Tensors from the bytes of a file."""
    with translated_errors():
        archive = _core.open_buffer(data, "memory")
        return {name: torch_tensor(tensor) for name, tensor in archive.items()}


def load_model(
    model: Module,
    filename: str | os.PathLike[str],
    strict: bool = True,
    device: Any = "cpu",
    *,
    backend: str = "mmap",
) -> tuple[list[str], list[str]]:
    """Fills a module from a file; gives the names that the file lacks and those that it has too many."""
    loaded = load_file(filename, device=device, backend=backend)
    state_dict: dict[str, Tensor] = model.state_dict()
    duplicates = _remove_duplicate_names(state_dict, preferred_names=list(loaded))
    missing, unexpected = model.load_state_dict(loaded, strict=False)
    absent, extra = set(missing), set(unexpected)
    for kept, names in duplicates.items():
        # One name of a group in the file is enough, and more than one is too many.
        present = [name for name in (kept, *names) if name in loaded]
        if present:
            absent -= {kept, *names}
            extra.update(present[1:])
    if strict and (absent or extra):
        text = f"Error(s) in loading state_dict for {type(model).__name__}:"
        for what, found in (("Missing", sorted(absent)), ("Unexpected", sorted(extra))):
            if found:
                listed = ", ".join(f'"{name}"' for name in found)
                text += f"\n    {what} key(s) in state_dict: {listed}"
        raise RuntimeError(text)
    return sorted(absent), sorted(extra)
