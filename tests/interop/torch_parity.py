"""The cases of scripts/interop_torch, and the recordings that the tests compare with."""

import argparse
import json
import shutil
import sys
import tempfile
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file

import torch_families
import torch_folders
import torch_weights
from harness import Ballast, Mismatch, Tensor, compare, sha256
from torch_double import double_precision

ROOT = Path(__file__).resolve().parents[2]
TOLERANCE = 1e-4  # largest distance of any logit from PyTorch in f64
PROMPT = [i * 7919 % 50257 for i in range(40)]  # GPT-2 small
NEW_TOKENS = 16
RECORDED_ROWS = (0, 17, 39)
STRIDE = 53  # of the logits recorded of such a row
IMAGES = ((2, 224, 224), (3, 97, 131))
MARGIN = 1e-2  # by which the likeliest token must lead where tokens are compared


class Table:
    def __init__(self):
        self.failed = 0
        print(f"{'':4} {'model':<18} {'what':<44} {'largest':>8} {'max error':>10}  (at most {TOLERANCE:g})", flush=True)

    def add(self, model, what, largest, error, held):
        self.failed += not held
        print(f"{'ok' if held else 'FAIL':<4} {model:<18} {what:<44} {largest:>8} {error:>10}", flush=True)

    def logits(self, model, what, ours, theirs):
        if ours.shape != theirs.shape:
            return self.add(model, f"{what}: {ours.shape}, not {theirs.shape}", "", "", False)
        error = float(np.abs(ours - theirs).max())
        held = theirs.dtype == np.float64 and error <= TOLERANCE
        self.add(model, what, f"{np.abs(theirs).max():.2f}", f"{error:.2e}", held)

    def tokens(self, model, what, ours, theirs):
        self.add(model, what, "", "same" if ours == theirs else f"{ours} not {theirs}", ours == theirs)


# ---------------------------------------------------------------- what each side computes


def comma(ids):
    return ",".join(map(str, ids))


def ballast_logits(ballast, model, folder, *input_flags):
    out = folder / "logits.npz"
    ballast.run("forward", model, *input_flags, "--out", out, "--overwrite")
    with np.load(out) as arrays:
        return arrays["logits"]


def ballast_tokens(ballast, model, prompt, count, *flags):
    done = ballast.run("generate", model, "--tokens", comma(prompt), "--greedy", "--ignore-eos", "--max-tokens", count,
                       "--json", *flags)
    return json.loads(done.stdout)["tokens"]


@double_precision()
@torch.inference_mode()
def torch_text_logits(model, ids):
    return model(torch.tensor([ids])).logits[0].numpy()


@double_precision()
@torch.inference_mode()
def torch_greedy(model, ids, count):
    """Tokens, and the smallest lead of a chosen one."""
    written, lead, past = [], np.inf, None
    feed = torch.tensor([ids])
    for _ in range(count):
        output = model(feed, past_key_values=past, use_cache=True)
        best = output.logits[0, -1].topk(2)
        lead = min(lead, float(best.values[0] - best.values[1]))
        written.append(int(best.indices[0]))
        feed, past = best.indices[:1][None], output.past_key_values
    return written, lead


@double_precision()
@torch.inference_mode()
def torch_image_logits(model, images):
    return model(torch.from_numpy(images).double()).numpy()


# ---------------------------------------------------------------- recordings


def short(array):
    return [float(str(x)) for x in np.asarray(array, np.float32).ravel()]


def record(name, content):
    path = ROOT / f"tests/data/torch/{name}.json"
    text = json.dumps(content, separators=(",", ":")) + "\n"
    assert len(text) < 200_000, f"{path} would be {len(text)} bytes"
    path.write_text(text)
    print(f"recorded {path.relative_to(ROOT)}: {len(text)} bytes", flush=True)


def record_text(tensors, config, logits, written):
    record("gpt2_small", {
        "torch": torch.__version__.split("+")[0], "config": config, "tensors": tensors, "tokens": PROMPT,
        "argmax": logits.argmax(-1).tolist(),
        "log_sum_exp": short(np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1)) + logits.max(-1)),
        "rows": list(RECORDED_ROWS), "stride": STRIDE,
        "logits": short(np.stack([logits[row, ::STRIDE] for row in RECORDED_ROWS])), "written": written})


# ---------------------------------------------------------------- models


def import_seeded(ballast, kind, folder):
    model, tensors = torch_weights.save(kind, folder / kind)
    checkpoint = folder / f"{kind}.gptrs"
    ballast.run("import", folder / kind, checkpoint, "--no-sync", "--overwrite")
    return model.double(), tensors, checkpoint


def check_gpt2_small(ballast, folder, table, recording):
    kind = "gpt2_small"
    model, tensors, checkpoint = import_seeded(ballast, kind, folder)
    theirs = torch_text_logits(model, PROMPT)
    table.logits(kind, f"forward, {len(PROMPT)} tokens", ballast_logits(ballast, checkpoint, folder, "--tokens", comma(PROMPT)),
                 theirs)
    written, lead = torch_greedy(model, PROMPT, NEW_TOKENS)
    if lead < MARGIN:
        raise Mismatch(f"the likeliest token leads by {lead:.1e} only: the weights are no good for comparing tokens")
    for flags in ((), ("--no-kv-cache",), ("--param-budget", "25%"), ("--param-budget", "10%")):
        ours = ballast_tokens(ballast, checkpoint, PROMPT, NEW_TOKENS, *flags)
        table.tokens(kind, f"generate, {NEW_TOKENS} tokens {' '.join(flags)}", ours, written)
    if recording:
        record_text(tensors, (folder / kind / "config.json").read_text(), theirs, written)


def check_vision(kind, ballast, folder, table, recording):
    model, tensors, checkpoint = import_seeded(ballast, kind, folder)
    runs = []
    for count, height, width in IMAGES:
        images = torch_weights.images(count, height, width)
        save_file({"input": images}, folder / "input.safetensors")
        theirs = torch_image_logits(model, images)
        ours = ballast_logits(ballast, checkpoint, folder, "--input", folder / "input.safetensors")
        table.logits(kind, f"forward, {count} images of {height} x {width}", ours, theirs)
        runs.append({"images": [count, 3, height, width], "logits": short(theirs)})
    if recording:
        record(kind, {"torch": torch.__version__.split("+")[0], "tensors": tensors, "runs": runs})


def check_default(ballast, folder, table, _):
    """The trained model: exported to transformers, which runs it; the probe was recorded so too."""
    import transformers
    source = ROOT / "models/default/model.gptrs"
    exported = folder / "default"
    exported.mkdir(exist_ok=True)
    ballast.run("convert", source, exported / "model.safetensors", "--adapt", "gptrs-to-huggingface",
                "--write-config", exported / "config.json", "--overwrite")
    with double_precision():
        model = transformers.GPT2LMHeadModel.from_pretrained(exported, dtype=torch.float64).eval()
    probe = json.loads((ROOT / "tests/data/torch/default_model_probe.json").read_text())
    theirs = torch_text_logits(model, probe["tokens"])
    table.logits("default", "transformers against the recorded probe", np.array(probe["last"], np.float32), theirs[-1])
    ours = ballast_logits(ballast, source, folder, "--tokens", comma(probe["tokens"]))
    table.logits("default", f"forward, {len(probe['tokens'])} tokens", ours, theirs)
    long = [(i * 37 + i // 5) % theirs.shape[-1] for i in range(256)]
    table.logits("default", "forward, the whole context", ballast_logits(ballast, source, folder, "--tokens", comma(long)),
                 torch_text_logits(model, long))
    written, lead = torch_greedy(model, probe["tokens"], 120)
    table.tokens("default", f"generate, 120 tokens (lead >= {lead:.4f})",
                 ballast_tokens(ballast, source, probe["tokens"], 120), written)


DTYPES = {torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64",
          torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool",
          torch.complex64: "c64", torch.complex128: "c128"}
ONLY_IN_ZIP = {torch.uint16: "u16", torch.uint32: "u32", torch.uint64: "u64", torch.float8_e4m3fn: "f8_e4m3",
               torch.float8_e5m2: "f8_e5m2"}


def checkpoint_object(dtypes):
    """What people save: a model, its optimizer, plain values; and every kind of view."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 3))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(7, 5)).sum().backward()
    optimizer.step()
    base = torch.randn(6, 8)
    views = {"base": base, "turned": base.T, "rows": base[2:4], "columns": base[:, 3:5], "steps": base[::2, ::3],
             "repeated": base[0].expand(3, 8), "scalar": base[1, 1], "none": base[:0], "conjugate": torch.randn(3, dtype=torch.complex64).conj()}
    every = {word: torch.arange(6).reshape(2, 3).to(dtype) for dtype, word in dtypes.items()}
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "views": views, "types": every,
            "list": [base, torch.nn.Parameter(base[0].clone())], "epoch": 3, "name": "test", "loss": 0.5}


def saved_tensors(value, name=""):
    if isinstance(value, torch.Tensor):
        data = value.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)
        word = {**DTYPES, **ONLY_IN_ZIP}[value.dtype]
        return {name: Tensor(word, tuple(value.shape), sha256(data.numpy().tobytes()))}
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    found = {}
    for key, item in pairs:
        found.update(saved_tensors(item, f"{name}.{key}" if name else str(key)))
    return found


def check_checkpoints(ballast, folder, table, _):
    """Files of torch.save, read directly: names, types, shapes and digests."""
    ways = (("zip", {}), ("protocol 4", {"pickle_protocol": 4}), ("legacy", {"_use_new_zipfile_serialization": False}))
    for what, options in ways:
        saved = checkpoint_object(DTYPES if what == "legacy" else {**DTYPES, **ONLY_IN_ZIP})
        path = folder / f"{what.replace(' ', '_')}.pt"
        torch.save(saved, path, **options)
        expected = saved_tensors(saved)
        compare(expected, ballast.tensors(path))
        ballast.verify(path)
        # safetensors has no c128, and nothing is lost unasked.
        copy = ballast.convert(path, path.with_suffix(".safetensors"), "--exclude", "^types.c128$")
        compare({name: tensor for name, tensor in expected.items() if name != "types.c128"}, ballast.tensors(copy))
        table.add("checkpoints", f"torch.save, {what}: {len(expected)} tensors", "", "same", True)


# Each takes the program, a folder, the table and whether to record.
CASES = {
    "checkpoints": check_checkpoints,
    "default": check_default,
    "resnet34": partial(check_vision, "resnet34"),
    "mobilenet_v2": partial(check_vision, "mobilenet_v2"),
    "gpt2_small": check_gpt2_small,
    **torch_families.family_checks(),
    **torch_folders.folder_checks(sys.modules[__name__]),
}


def run_all(options, ballast, folder):
    table = Table()
    for name, check in CASES.items():
        if options.only and options.only not in name:
            continue
        try:
            check(ballast, folder, table, options.record)
        except Exception as error:  # noqa: BLE001 - whatever went wrong, this model was not shown to be right
            table.add(name, f"{type(error).__name__}: {error}", "", "", False)
        if not options.keep:
            for path in folder.iterdir():  # up to a gigabyte each
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    return table.failed


def main(program):
    parser = argparse.ArgumentParser(prog="interop_torch")
    parser.add_argument("--record", action="store_true", help="write tests/data/torch")
    parser.add_argument("--only", help="only models whose name contains this")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the files there")
    options = parser.parse_args()
    begin = time.monotonic()
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    print(f"interop_torch: PyTorch {torch.__version__}, {torch.get_num_threads()} threads", flush=True)
    with nullcontext(options.keep) if options.keep else tempfile.TemporaryDirectory(prefix="ballast-torch-") as folder:
        failed = run_all(options, Ballast(program.resolve()), Path(folder))
    print(f"{'nothing is' if not failed else f'{failed} are'} off, {time.monotonic() - begin:.0f} s")
    return 1 if failed else 0
