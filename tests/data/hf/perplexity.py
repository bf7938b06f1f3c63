"""Records tests/data/hf/perplexity.json: what transformers makes of a token sequence, window by window.

usage: perplexity.py (in an environment with tests/interop/torch_requirements.txt)

The loop is that of transformers' guide to the perplexity of models with a fixed context; f32 weights, losses summed in f64.
"""
import json, pathlib

import torch
from transformers import AutoModelForCausalLM

HERE = pathlib.Path(__file__).parent
CASES = [("llama_plain", 64, 32), ("llama_plain", 64, 64), ("llama_plain", 128, 16), ("gemma2", 48, 24),
         ("mistral_swa", 64, 32), ("qwen3", 100, 33), ("phi3", 64, 64), ("llama_rope_dynamic", 32, 16)]
TOKENS = 301


def sequence(vocabulary):
    """The same as in tests/text/perplexity_test.cc."""
    state, ids = 1, []
    for _ in range(TOKENS):
        state = (state * 1103515245 + 12345) % 2**31
        ids.append((state >> 16) % vocabulary)
    return ids


def measure(model, ids, context, stride):
    total, scored, previous = 0.0, 0, 0
    for begin in range(0, len(ids), stride):
        end = min(begin + context, len(ids))
        window = torch.tensor([ids[begin:end]])
        with torch.no_grad():
            logits = model(window).logits[0].double()
        losses = torch.nn.functional.cross_entropy(logits[:-1], window[0, 1:], reduction="none")
        new = losses[-(end - previous):] if end - previous < len(losses) else losses
        total, scored, previous = total + float(new.sum()), scored + len(new), end
        if end == len(ids):
            break
    return total / scored, scored


cases = []
for name, context, stride in CASES:
    model = AutoModelForCausalLM.from_pretrained(HERE / name, dtype=torch.float32, attn_implementation="eager").eval()
    mean, scored = measure(model, sequence(model.config.vocab_size), context, stride)
    cases.append({"model": name, "context": context, "stride": stride, "scored": scored, "nats_per_token": mean})
(HERE / "perplexity.json").write_text(json.dumps({"tokens": TOKENS, "cases": cases}, indent=1) + "\n")
