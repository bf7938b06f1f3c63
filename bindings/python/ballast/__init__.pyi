"""Inspect, convert, run and train neural networks."""

from ballast import gguf as gguf
from ballast import netcl as netcl
from ballast import safetensors as safetensors
from ballast import torch as torch
from ballast._core import Archive as Archive
from ballast._core import CancelledError as CancelledError
from ballast._core import FormatError as FormatError
from ballast._core import Tensor as Tensor
from ballast._core import __version__ as __version__
from ballast._open import formats as formats
from ballast._open import open as open
from ballast._open import save as save
from ballast._tools import convert as convert
from ballast._tools import diff as diff
from ballast._tools import doctor as doctor
from ballast._tools import hash as hash
from ballast._tools import quantization_types as quantization_types
from ballast._tools import quantize as quantize
from ballast._tools import stats as stats
from ballast._tools import verify as verify
