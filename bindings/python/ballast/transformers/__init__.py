"""``AutoModelForCausalLM`` and ``AutoTokenizer`` in the manner of transformers, for the calls that most programs make.

    from ballast.transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained("folder")
    model = AutoModelForCausalLM.from_pretrained("folder")
    inputs = tokenizer("Once upon a time", return_tensors="np")
    print(tokenizer.decode(model.generate(**inputs, max_new_tokens=20)[0]))

Tensors are NumPy arrays, or torch tensors where the inputs are or ``return_tensors="pt"`` asks for them. Arguments that
Ballast does not have raise; none is ignored silently.
"""

from __future__ import annotations

from ballast.transformers._model import AutoModelForCausalLM, CausalLM
from ballast.transformers._tokenizer import AutoTokenizer, BatchEncoding, PreTrainedTokenizer

__all__ = ["AutoModelForCausalLM", "AutoTokenizer", "BatchEncoding", "CausalLM", "PreTrainedTokenizer"]
