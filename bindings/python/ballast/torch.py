"""PyTorch's files without the danger of pickles, and torch tensors from any file of weights."""

from __future__ import annotations

import importlib
import os
import pickle
from typing import Any

from ballast import _core
from ballast._open import local_path
from ballast.safetensors._handle import torch_tensor

__all__ = ["load", "load_state_dict", "tensor"]


def load(f: str | os.PathLike[str], map_location: Any = None, *, mmap: bool | None = None) -> Any:
    """``torch.load`` for files that others made: nothing in them is executed.

    The file is first checked by Ballast's own reader, which follows the pickle without running it: names that are not
    in its list, lengths that lie, nesting without end and checksums that are wrong are a ``FormatError`` that says where.
    What passes is loaded with ``weights_only=True``. Files of other formats (safetensors, GGUF, npz, ...) give a dict of their tensors.

    >>> import ballast.torch, pickle
    >>> class Attack:
    ...     def __reduce__(self):
    ...         return print, ("executed",)
    >>> with open("attack.pt", "wb") as file:
    ...     pickle.dump(Attack(), file)
    >>> ballast.torch.load("attack.pt")
    Traceback (most recent call last):
        ...
    ballast.FormatError: ...
    """
    path = local_path(os.fspath(f))
    with _core.open_path(path, "r") as archive:
        is_torch = archive.format == "torch" and os.path.isfile(path)
        if is_torch:
            for lazy in archive.values():
                lazy.raw()  # looks at the checksum, which torch does not
    if not is_torch:
        return load_state_dict(path, device=map_location or "cpu")
    torch: Any = importlib.import_module("torch")
    try:
        return torch.load(path, map_location=map_location, weights_only=True, mmap=mmap)
    except pickle.UnpicklingError as error:
        refusal = _core.FormatError(f"{path}: {error}")
        refusal.code = "unsupported"
        raise refusal from error


def load_state_dict(f: str | os.PathLike[str], *, device: Any = "cpu") -> dict[str, Any]:
    """All tensors of a file of any format as torch tensors, by name: views of the file, whose changes stay in memory.

    Quantised blocks, which torch has no type for, are dequantised to float32.
    """
    with _core.open_path(local_path(os.fspath(f)), "c") as archive:
        return {name: tensor(lazy, device=device) for name, lazy in archive.items()}


def tensor(lazy: _core.Tensor, *, device: Any = "cpu") -> Any:
    """One tensor of an open archive as a torch tensor: a view of the file where it was opened with ``mode="c"``."""
    from ballast.safetensors._dtypes import TO_TORCH

    if lazy.type in TO_TORCH:
        return torch_tensor(lazy, device)
    torch: Any = importlib.import_module("torch")
    values = lazy.numpy()
    made = torch.from_numpy(values if values.flags.writeable else values.copy())
    return made if str(device) == "cpu" else made.to(device)
