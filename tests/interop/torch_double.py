"""PyTorch in double precision: what both sides round.

Logits are compared with what a model computes in f64, not in f32: the distance of two f32 results adds the errors of
both. In phi3/longrope_new one logit of ours is 5.6e-5 too small and that of transformers in f32 4.6e-5 too large, most
of it from angles of rope that it rounds to f32. Neither is wrong, and they are 1.02e-4 apart.
"""

import contextlib

import torch
from torch.overrides import TorchFunctionMode


class Widening(TorchFunctionMode):
    """f64 for whatever asks for f32: transformers computes rope, norms and softmax in f32 in a model of any type."""

    def __torch_function__(self, function, types, arguments=(), options=None):
        function = torch.Tensor.double if function is torch.Tensor.float else function
        return function(*map(widened, arguments), **{name: widened(value) for name, value in (options or {}).items()})


def widened(value):
    return torch.float64 if value is torch.float32 else value


@contextlib.contextmanager
def double_precision():
    """Models are made, loaded and run in f64 herein; also a decorator."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with Widening():
            yield
    finally:
        torch.set_default_dtype(before)
