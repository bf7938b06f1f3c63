"""Hugging Face folders that Ballast writes from GGUF files and from models that it trained: transformers loads each, finds every
weight, and computes the logits, the greedy text and the tokens that Ballast gets from the file."""

import types
from functools import partial
from pathlib import Path

import numpy as np
import torch
import transformers

from harness import require
from token_program import encode_all
from torch_double import double_precision

DATA = Path(__file__).resolve().parents[1] / "data"
TEXTS = ["", "hello", " ab ab", "The quick brown fox\n\njumps", "it's 1234 I'LL", "<s>ab</s>", "größe 中\U0001F600", "  a  b\t"]
NEW_TOKENS = 12
LEAD = 2e-3  # by which the likeliest token must lead for the next ones to be compared
TRAINED = """
model = {{kind = "gpt", context_length = 32, embed_dim = 32, num_layers = 2, num_heads = 2, gelu = "{gelu}"}}
data = {{kind = "text", path = "corpus.txt"}}
optimizer = {{type = "adamw", lr = 0.01}}
train = {{steps = 60, batch_size = 8, seed = 1, output = "gpt/model.gptrs"}}
checkpoint = {{folder = "run"}}
"""


@double_precision()
def load(folder):
    config = transformers.AutoConfig.from_pretrained(folder)
    loops = {"experts_implementation": "eager"} if "moe" in config.model_type or config.model_type == "mixtral" else {}
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float64, attn_implementation="eager", output_loading_info=True, **loops)
    require(not info["missing_keys"], f"transformers misses {info['missing_keys']}")
    require(not info["unexpected_keys"], f"transformers does not know {info['unexpected_keys']}")
    require(not info["mismatched_keys"], f"transformers wants other shapes for {info['mismatched_keys']}")
    return model.eval()


@double_precision()
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


def compare_texts(name, path, model, lengths, parity, ballast, folder, table):
    for length in lengths:
        ids = [3 + i * 37 % (model.config.vocab_size - 3) for i in range(length)]
        theirs, text = greedy(model, ids)
        ours = parity.ballast_logits(ballast, path, folder, "--tokens", parity.comma(ids), "--numerics", "exact")
        table.logits(name, f"logits of {length} tokens", ours, theirs)
        if text:
            table.tokens(name, f"{len(text)} greedy tokens", parity.ballast_tokens(ballast, path, ids, len(text), "--numerics", "exact"), text)


def compare_tokens(name, path, out, ballast, table):
    tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    suite = types.SimpleNamespace(ballast=ballast)
    ours = encode_all(suite, path, [text.encode() for text in TEXTS], "special,add")
    table.tokens(name, f"tokens of {len(TEXTS)} texts", ours, [tokenizer(text)["input_ids"] for text in TEXTS])


def check_folder(path, parity, ballast, folder, table, _):
    name = f"{path.parent.name}/{path.name}"
    out = folder / f"{path.parent.name}_{path.stem}"
    ballast.run("convert", path, f"{out}/", *(("--dequantize", "f32") if "q8_0" in path.name else ()))
    compare_texts(name, path, load(out), (5, 40), parity, ballast, folder, table)
    if path.parent.name == "tiny":  # tokens of the others are made up, without single characters
        compare_tokens(name, path, out, ballast, table)


def check_trained(gelu, parity, ballast, folder, table, _):
    """A GPT of bytes, trained here and exported from its checkpoints, beside the model that training saved."""
    place = folder / f"trained_{gelu}"
    place.mkdir()
    (place / "corpus.txt").write_text("the cat sat on the mat. it's 1234!\n" * 200)
    (place / "run.toml").write_text(TRAINED.format(gelu=gelu))
    ballast.run("train", place / "run.toml", "--quiet")
    ballast.run("checkpoints", "export", place / "run", "latest", f"{place}/out/")
    name = f"trained gpt, {gelu}"
    compare_texts(name, place / "gpt/model.gptrs", load(place / "out"), (5, 20), parity, ballast, folder, table)
    compare_tokens(name, place / "gpt/tokenizer.json", place / "out", ballast, table)


@double_precision()
@torch.inference_mode()
def check_bert(parity, ballast, folder, table, _):
    """There and back: GGUF has no place for the pooler, whose task is another."""
    gguf, out = folder / "bert.gguf", folder / "bert"
    ballast.run("convert", DATA / "hf/bert", gguf)
    ballast.run("convert", gguf, f"{out}/")
    model, info = transformers.AutoModel.from_pretrained(out, dtype=torch.float64, attn_implementation="eager", output_loading_info=True)
    require(all(name.startswith("pooler.") for name in info["missing_keys"]), f"transformers misses {info['missing_keys']}")
    require(not info["unexpected_keys"], f"transformers does not know {info['unexpected_keys']}")
    ids = [3 + i * 37 % 120 for i in range(40)]
    ballast.run("forward", gguf, "--tokens", parity.comma(ids), "--out", folder / "states.npz")
    with np.load(folder / "states.npz") as arrays:
        table.logits("bert.gguf", "states of 40 tokens", arrays["states"], model(torch.tensor([ids])).last_hidden_state[0].numpy())


def folder_checks(parity):
    paths = sorted([*DATA.glob("gguf_models/*/*.gguf"), *DATA.glob("gguf/tiny/*.f32.gguf"), *DATA.glob("gguf/tiny/*.q8_0.gguf")])
    checks = {f"folder {path.parent.name} {path.stem}": partial(check_folder, path, parity) for path in paths}
    trained = {f"folder trained {gelu}": partial(check_trained, gelu, parity) for gelu in ("tanh", "erf")}
    return {**checks, **trained, "folder bert": partial(check_bert, parity)}
