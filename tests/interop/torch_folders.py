"""Hugging Face folders that Ballast writes from GGUF files: transformers loads each, finds every weight, and computes the logits,
the greedy text and the tokens that Ballast gets from the file."""

import types
from functools import partial
from pathlib import Path

import numpy as np
import torch
import transformers

from harness import require
from token_program import encode_all

DATA = Path(__file__).resolve().parents[1] / "data"
TEXTS = ["", "hello", " ab ab", "The quick brown fox\n\njumps", "it's 1234 I'LL", "<s>ab</s>", "größe 中\U0001F600", "  a  b\t"]
NEW_TOKENS = 12
LEAD = 2e-3  # by which the likeliest token must lead for the next ones to be compared
TOLERANCE = 1e-4


def load(folder):
    config = transformers.AutoConfig.from_pretrained(folder)
    loops = {"experts_implementation": "eager"} if "moe" in config.model_type or config.model_type == "mixtral" else {}
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True, **loops)
    require(not info["missing_keys"], f"transformers misses {info['missing_keys']}")
    require(not info["unexpected_keys"], f"transformers does not know {info['unexpected_keys']}")
    require(not info["mismatched_keys"], f"transformers wants other shapes for {info['mismatched_keys']}")
    return model.eval()


@torch.inference_mode()
def greedy(model, ids):
    """Tokens up to the first that leads by too little, and the logits of the prompt."""
    prompt = model(torch.tensor([ids])).logits[0].numpy()
    written = list(ids)
    for _ in range(NEW_TOKENS):
        best = model(torch.tensor([written])).logits[0, -1].topk(2)
        if best.values[0] - best.values[1] < LEAD:
            break
        written.append(int(best.indices[0]))
    return prompt, written[len(ids):]


def check_folder(path, parity, ballast, folder, table, _):
    name = f"{path.parent.name}/{path.name}"
    out = folder / f"{path.parent.name}_{path.stem}"
    ballast.run("convert", path, f"{out}/", *(("--dequantize", "f32") if "q8_0" in path.name else ()))
    model = load(out)
    for length in (5, 40):
        ids = [3 + i * 37 % (model.config.vocab_size - 3) for i in range(length)]
        theirs, text = greedy(model, ids)
        ours = parity.ballast_logits(ballast, path, folder, "--tokens", parity.comma(ids), "--numerics", "exact")
        error = float(np.abs(ours.astype(np.float64) - theirs).max())
        table.add(name, f"logits of {length} tokens", f"{np.abs(theirs).max():.2f}", f"{error:.2e}", error <= TOLERANCE)
        if text:
            table.tokens(name, f"{len(text)} greedy tokens", parity.ballast_tokens(ballast, path, ids, len(text), "--numerics", "exact"), text)
    if path.parent.name != "tiny":
        return  # its tokens are made up, without single characters
    tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    suite = types.SimpleNamespace(ballast=ballast)
    ours = encode_all(suite, path, [text.encode() for text in TEXTS], "special,add")
    table.tokens(name, f"tokens of {len(TEXTS)} texts", ours, [tokenizer(text)["input_ids"] for text in TEXTS])


@torch.inference_mode()
def check_bert(parity, ballast, folder, table, _):
    """There and back: GGUF has no place for the pooler, whose task is another."""
    gguf, out = folder / "bert.gguf", folder / "bert"
    ballast.run("convert", DATA / "hf/bert", gguf)
    ballast.run("convert", gguf, f"{out}/")
    model, info = transformers.AutoModel.from_pretrained(out, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    require(all(name.startswith("pooler.") for name in info["missing_keys"]), f"transformers misses {info['missing_keys']}")
    require(not info["unexpected_keys"], f"transformers does not know {info['unexpected_keys']}")
    ids = [3 + i * 37 % 120 for i in range(40)]
    ballast.run("forward", gguf, "--tokens", parity.comma(ids), "--out", folder / "states.npz")
    with np.load(folder / "states.npz") as arrays:
        table.logits("bert.gguf", "states of 40 tokens", arrays["states"], model(torch.tensor([ids])).last_hidden_state[0].numpy())


def folder_checks(parity):
    paths = sorted([*DATA.glob("gguf_models/*/*.gguf"), *DATA.glob("gguf/tiny/*.f32.gguf"), *DATA.glob("gguf/tiny/*.q8_0.gguf")])
    checks = {f"folder {path.parent.name} {path.stem}": partial(check_folder, path, parity) for path in paths}
    return {**checks, "folder bert": partial(check_bert, parity)}
