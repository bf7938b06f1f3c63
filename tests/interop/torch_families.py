"""Families of Hugging Face models beside transformers: tiny ones with seeded weights, over the switches of their configs.

Each case of family_cases.py is written as a folder, loaded by transformers and by Ballast, and compared: the logits of
every position of a short and of a long prompt, and a greedy continuation that uses the cache. Encoders: the states of all
tokens, and the vectors of texts. Numbers are compared with transformers in f64 (torch_double.py), and transformers in f32
is held to the same bound, which shows that both are one model; tokens are compared with transformers in f32.
"""

import dataclasses
import json
import multiprocessing
import os
import tempfile
import zlib
from functools import partial
from pathlib import Path

import numpy as np
import tokenizers
import tokenizers.models
import tokenizers.pre_tokenizers
import tokenizers.processors
import torch
import transformers
from safetensors.torch import load_file, save_file

from family_cases import CONTEXT, LONG, NEUTRAL, SHORT, every_case
from harness import Ballast, Mismatch, require
from torch_double import double_precision

NEW_TOKENS = 12
TOLERANCE = 1e-4  # largest distance from transformers in f64, of Ballast and of transformers in f32
LEAD = 2e-3  # by which the likeliest token must lead for the next ones to be compared
ROUTER_LEAD = 3e-4  # by which the score of the last chosen expert must lead
MOST_PROMPTS = 40  # that are drawn until no router hangs on a rounding error


# ---------------------------------------------------------------- making a folder


def seed_of(case):
    return zlib.crc32(f"{case.family}/{case.name}".encode())


def spread(name, shape):
    """(mean, deviation) of a parameter's numbers, so that every part matters and nothing saturates."""
    low = name.lower()
    if len(shape) == 1:
        return (1.0, 0.3) if low.endswith("weight") else (0.0, 0.3)
    if "position" in low or "wpe" in low or "token_type" in low:
        return 0.0, 0.4
    if "embed" in low or "wte" in low:
        return 0.0, 0.5
    if low.endswith("gate.weight"):
        return 0.0, 2.5 / shape[-1] ** 0.5
    fan_in = shape[0] if any(word in low for word in ("c_attn", "c_fc", "c_proj")) else shape[-1]
    looks = any(word in low for word in ("q_proj", "k_proj", "qkv", "c_attn", "query", "key"))
    return 0.0, (3.0 if "lm_head" in low else 1.5 if looks else 1.2) / fan_in ** 0.5


@torch.no_grad()
def draw_weights(model, seed, shifted_norms):
    random = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        mean, deviation = spread(name, parameter.shape)
        mean -= 1.0 if shifted_norms and mean == 1.0 else 0.0
        parameter.copy_(torch.randn(parameter.shape, generator=random) * deviation + mean)


def renamed(name, pairs):
    for old, new in pairs:
        if name.startswith(old):
            return new + name[len(old):]
    return name


def rename_tensors(path, pairs):
    tensors = {renamed(name, pairs): tensor for name, tensor in load_file(path).items()}
    save_file(tensors, path, metadata={"format": "pt"})


def model_class(case):
    if "text_config" in case.config:
        return transformers.AutoModelForImageTextToText
    return transformers.AutoModel if case.config["model_type"] == "bert" else transformers.AutoModelForCausalLM


def write_folder(case, folder):
    folder.mkdir(parents=True)
    text = json.dumps(case.config, indent=1)
    (folder / "config.json").write_text(text)
    for name, content in case.files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(content))
    if case.refused:
        return save_file({"nothing": torch.zeros(1)}, folder / "model.safetensors")
    config = transformers.AutoConfig.from_pretrained(folder)
    model = model_class(case).from_config(config)
    draw_weights(model, seed_of(case), "gemma" in case.config["model_type"])
    model.tie_weights()
    shards = {"max_shard_size": "40KB"} if case.shards else {}
    model.to(getattr(torch, case.dtype)).save_pretrained(folder, **shards)
    (folder / "generation_config.json").unlink(missing_ok=True)
    (folder / "config.json").write_text(text)
    if case.rename:
        rename_tensors(folder / "model.safetensors", case.rename)


def load_reference(case, folder, dtype=torch.float32, **changes):
    has_experts = case.config["model_type"] in ("mixtral", "qwen2_moe", "qwen3_moe")
    loops = {"experts_implementation": "eager"} if has_experts else {}
    model, info = model_class(case).from_pretrained(folder, dtype=dtype, attn_implementation="eager",
                                                    output_loading_info=True, **loops, **changes)
    require(not info["missing_keys"], f"transformers misses {info['missing_keys']}")
    return model.eval()


@double_precision()
def load_exact(case, folder):
    # GPT-2's way of widening f16 to f32 refuses f64; it computes the same without.
    changes = {"reorder_and_upcast_attn": False} if case.config["model_type"] == "gpt2" else {}
    return load_reference(case, folder, torch.float64, **changes)


# ---------------------------------------------------------------- decoders


class Routers:
    """How close the choice of experts was, over all that a model has run."""

    def __init__(self, model):
        self.lead = np.inf
        for module in model.modules():
            if type(module).__name__.endswith("TopKRouter"):
                module.register_forward_hook(self.watch)

    def watch(self, module, _, output):
        scores = output[0].sort(-1, descending=True).values
        if module.top_k < scores.shape[-1]:
            self.lead = min(self.lead, float((scores[..., module.top_k - 1] - scores[..., module.top_k]).min()))


def forget_length(model):
    """Dynamic rope remembers the longest text until it sees a short one."""
    rope = getattr(model.config.get_text_config(), "rope_parameters", None) or {}
    if any("dynamic" in str(part) for part in rope.values()):
        model(torch.tensor([[1]]), use_cache=False)


@torch.inference_mode()
def reference_logits(model, ids):
    forget_length(model)
    return model(torch.tensor([ids]), use_cache=False).logits[0].numpy()


@double_precision()
def exact_logits(model, ids):
    return reference_logits(model, ids)


@torch.inference_mode()
def reference_greedy(model, ids, cached):
    """Tokens, as many as were not close."""
    forget_length(model)
    model.generation_config = transformers.GenerationConfig(do_sample=False, pad_token_id=0)
    made = model.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long),
                          max_new_tokens=NEW_TOKENS, use_cache=cached, return_dict_in_generate=True, output_logits=True)
    tokens = []
    for step, logits in enumerate(made.logits):
        best = logits[0].topk(2)
        if float(best.values[0] - best.values[1]) < LEAD:
            break
        tokens.append(int(best.indices[0]))
    return tokens


def draw_prompt(case, length, vocab, run, routers):
    random = np.random.default_rng(seed_of(case) + length)
    for _ in range(MOST_PROMPTS):
        ids = random.integers(3, vocab - 4, length).tolist()
        routers.lead = np.inf
        answer = run(ids)
        if routers.lead > ROUTER_LEAD:
            return ids, answer
    raise Mismatch("every prompt has a router that cannot decide")


def difference(what, ours, exact):
    require(exact.dtype == np.float64, f"{what}: the reference is {exact.dtype}")
    require(ours.shape == exact.shape, f"{what}: {ours.shape}, not {exact.shape}")
    error = float(np.abs(ours - exact).max())
    require(error <= TOLERANCE, f"{what} differ by {error:.2e} (largest {np.abs(exact).max():.1f})")
    return error


def compare_output(ballast, folder, ids, exact, single):
    """`exact` and `single`: what transformers computes in f64, and in f32 as it is used."""
    difference(f"transformers' outputs of {len(ids)} tokens in f32 and in f64", single, exact)
    out = folder / "output.npz"
    ballast.run("forward", folder, "--tokens", ",".join(map(str, ids)), "--numerics", "exact", "--out", out, "--overwrite")
    with np.load(out) as arrays:
        (ours,) = (arrays[name] for name in arrays.files)
    return difference(f"outputs of {len(ids)} tokens", ours, exact)


def compare_greedy(ballast, folder, ids, theirs):
    done = ballast.run("generate", folder, "--tokens", ",".join(map(str, ids)), "--greedy", "--ignore-eos", "--max-tokens",
                       NEW_TOKENS, "--numerics", "exact", "--json")
    ours = json.loads(done.stdout)["tokens"][:len(theirs)]
    require(ours == theirs, f"{len(ids)} tokens go on with {ours}, not {theirs}")
    return len(theirs)


def compare_decoder(case, ballast, folder):
    model, exact = load_reference(case, folder), load_exact(case, folder)
    routers = Routers(model)
    vocab = model.config.get_text_config().vocab_size
    error = 0.0
    for length in (SHORT, LONG):
        ids, theirs = draw_prompt(case, length, vocab, lambda ids: reference_logits(model, ids), routers)
        error = max(error, compare_output(ballast, folder, ids, exact_logits(exact, ids), theirs))
    ids, theirs = draw_prompt(case, case.prompt, vocab, lambda ids: reference_greedy(model, ids, case.cached), routers)
    return error, compare_greedy(ballast, folder, ids, theirs)


# ---------------------------------------------------------------- encoders

WORDS = [f"w{i}" for i in range(60)]
TEXTS = ["w1 w2 w3", "w7", "", " ".join(WORDS[i * 7 % 60] for i in range(30)), " ".join(WORDS + WORDS)]


def write_tokenizer(folder):
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: i for i, word in enumerate(marks + WORDS)}, "[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.save(str(folder / "tokenizer.json"))
    return tokenizer


@torch.inference_mode()
def reference_states(model, ids):
    return model(torch.tensor([ids])).last_hidden_state[0]


@double_precision()
def exact_states(model, ids):
    return reference_states(model, ids)


@double_precision()
def exact_vector(case, model, tokenizer, text):
    tokenizer.enable_truncation(case.max_length or CONTEXT)
    states = reference_states(model, tokenizer.encode(text).ids)
    vector = states[0] if case.pooling == "cls" else states.mean(0)
    return (vector / vector.norm() if case.unit else vector).numpy()


def compare_encoder(case, ballast, folder):
    model, exact = load_reference(case, folder), load_exact(case, folder)
    tokenizer = write_tokenizer(folder)
    error = 0.0
    for length in (SHORT, LONG):
        ids = np.random.default_rng(seed_of(case) + length).integers(0, model.config.vocab_size, length).tolist()
        theirs = exact_states(exact, ids).numpy()
        error = max(error, compare_output(ballast, folder, ids, theirs, reference_states(model, ids).numpy()))
    flags = [flag for text in TEXTS for flag in ("--text", text)]
    ballast.run("embed", folder, *flags, "--numerics", "exact", "--out", folder / "vectors.npz", "--overwrite")
    with np.load(folder / "vectors.npz") as arrays:
        ours = arrays["embeddings"]
    theirs = np.stack([exact_vector(case, exact, tokenizer, text) for text in TEXTS])
    return max(error, difference("vectors", ours, theirs)), 0


# ---------------------------------------------------------------- all of them


def expect_refusal(case, ballast, folder):
    said = ballast.run("forward", folder, "--tokens", "1,2", status=2).stderr
    for word in case.refused:
        require(word in said, f"refused without a word of {word!r}: {said.strip()}")
    return 0.0, 0


def compare_case(case, ballast, folder):
    """(largest error, tokens compared)"""
    write_folder(case, folder)
    if case.refused:
        return expect_refusal(case, ballast, folder)
    return (compare_encoder if case.config["model_type"] == "bert" else compare_decoder)(case, ballast, folder)


def outcome(case, program):
    """(largest error, tokens compared, what went wrong), in a process of its own."""
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory(prefix="ballast-family-") as folder:
        try:
            return *compare_case(case, Ballast(program), Path(folder) / "model"), ""
        except Exception as error:  # noqa: BLE001 - whatever went wrong, this case was not shown to be right
            return 0.0, 0, f"{type(error).__name__}: {str(error)[-500:]}"


def check_family(cases, ballast, _, table, __):
    with multiprocessing.get_context("fork").Pool(os.cpu_count()) as pool:
        outcomes = pool.map(partial(outcome, program=ballast.program), cases, chunksize=2)
    wrong = [f"{case.family}/{case.name}: {text}" for case, (_, _, text) in zip(cases, outcomes) if text]
    refused = sum(bool(case.refused) for case in cases)
    tokens, largest = sum(row[1] for row in outcomes), max(row[0] for row in outcomes)
    table.add(cases[0].family, f"{len(cases)} configs, {tokens} tokens, {refused} refused", "", f"{largest:.2e}", not wrong)
    for text in wrong:
        print(f"     {text}", flush=True)


def check_switches(cases, _, __, table, ___):
    """Every key that a class of transformers knows is thrown in some case of it, so that a new one is noticed."""
    common = {field.name for field in dataclasses.fields(transformers.PreTrainedConfig)}
    thrown = {}
    for config in (case.config for case in cases if case.family != "other encoders" and "text_config" not in case.config):
        thrown.setdefault(config["model_type"], set()).update(config)
    for kind, keys in thrown.items():
        known = {field.name for field in dataclasses.fields(type(transformers.AutoConfig.for_model(kind)))}
        missed = known - common - keys - NEUTRAL
        table.add(kind, f"switches: {len(known - common - NEUTRAL)}", "", " ".join(sorted(missed)) or "known", not missed)


def family_checks():
    """A case of torch_parity.py for each family, and one for all."""
    families = {}
    for case in every_case():
        families.setdefault(case.family, []).append(case)
    checks = {f"family {name}": partial(check_family, cases) for name, cases in families.items()}
    return checks | {"family switches": partial(check_switches, list(every_case()))}
