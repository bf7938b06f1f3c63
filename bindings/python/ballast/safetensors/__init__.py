"""The interface of the package ``safetensors``: change the import, keep the program.

``from ballast.safetensors import safe_open`` and ``from ballast.safetensors.torch import load_file, save_file`` take the
same arguments, give the same values, and write the same bytes.
"""

from ballast.safetensors._handle import (
    SafeSlice,
    SafetensorError,
    _safe_open_handle,  # pyright: ignore[reportPrivateUsage]
    safe_open,
)
from ballast.safetensors._raw import TensorSpec, deserialize, serialize, serialize_file

# Of the package whose interface this is.
__version__ = "0.8.0"

__all__ = [
    "SafeSlice",
    "SafetensorError",
    "TensorSpec",
    "__version__",
    "_safe_open_handle",
    "deserialize",
    "safe_open",
    "serialize",
    "serialize_file",
]
