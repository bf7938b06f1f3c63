"""``AutoModelForCausalLM`` and ``AutoTokenizer`` in the manner of transformers, for the calls that most programs make.

    from ballast.transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained("folder")
    model = AutoModelForCausalLM.from_pretrained("folder")
    inputs = tokenizer("Once upon a time", return_tensors="np")
    print(tokenizer.decode(model.generate(**inputs, max_new_tokens=20)[0]))

Tensors are NumPy arrays, or torch tensors where the inputs are or ``return_tensors="pt"`` asks for them. Unknown
arguments raise. These arguments of ``from_pretrained`` are accepted and change nothing, because Ballast reads weights as
they are, when they are needed, and downloads nothing: ``torch_dtype``, ``dtype``, ``device_map``, ``low_cpu_mem_usage``,
``trust_remote_code``, ``use_safetensors``, ``attn_implementation``, ``use_fast``, ``local_files_only`` and ``cache_dir``
(HF_HUB_CACHE and HF_HOME say where the cache is). Nor do ``eval()`` and ``to()`` of a model: ``device`` of
``from_pretrained`` says where it computes.
"""

from __future__ import annotations

from ballast.transformers._model import AutoModelForCausalLM, CausalLM
from ballast.transformers._tokenizer import AutoTokenizer, BatchEncoding, PreTrainedTokenizer

__all__ = ["AutoModelForCausalLM", "AutoTokenizer", "BatchEncoding", "CausalLM", "PreTrainedTokenizer"]
