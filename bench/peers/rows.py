"""What is compared: each row is a kind of work and what is asked of Ballast. A new row is a line here."""
from .kinds import DD, BudgetDecode, Decode, FirstImage, FirstToken, Image, Prefill, Storage, Tokenize, TrainingStep
from .measuring import Row
from .model_files import SMOLLM2
from .targets import all_of, any_of, faster_than, rate_of, share_of_limit, time_of

GPT2, LLAMA = "GPT-2 small", "Llama 3.2 1B"
FLOATS, QUANTISED = ("f32", "f16", "bf16"), ("q8_0", "q4_0", "q4_1", "q4_k", "q6_k")
EVERY = FLOATS + QUANTISED
# Minutes go into Llama's rows: it has those that the targets name, and such as GPT-2's would not predict.
CONTEXTS = {GPT2: {64: EVERY, 900: (*FLOATS, "q8_0", "q4_k")}, LLAMA: {64: EVERY, 900: (*FLOATS, "q4_k")},
            SMOLLM2: {64: ("q4_1",), 900: ("q4_1",)}}
PROMPTS = {GPT2: {128: EVERY, 512: EVERY}, LLAMA: {128: EVERY, 512: ("f32", "bf16", "q4_k")},
           SMOLLM2: {128: ("q4_1",), 512: ("q4_1",), 2048: ("q4_1",)}}
# With one thread too; all other rows of text use all threads.
SOME = ("f32", "bf16", "q8_0", "q4_k")
ONE_THREAD = {(GPT2, "decode 64"): SOME, (GPT2, "prompt 512"): SOME, (LLAMA, "decode 64"): ("bf16",),
              (LLAMA, "prompt 128"): ("bf16",), (SMOLLM2, "decode 64"): ("q4_1",), (SMOLLM2, "prompt 512"): ("q4_1",)}

DECODE_FLOATS = all_of(faster_than(1.1, "llama.cpp"), share_of_limit(0.9))
DECODE_QUANTISED = any_of(faster_than(1.2, "llama.cpp"), share_of_limit(0.9))
PREFILL = {"f32": faster_than(1.3), "f16": all_of(faster_than(2, "PyTorch"), share_of_limit(0.4)),
           "bf16": all_of(faster_than(2, "PyTorch"), share_of_limit(0.4))}
PREFILL_QUANTISED = faster_than(2, "llama.cpp")
LN_10, LN_4096 = 2.302585, 8.317766


def steps_of_turn(model, type):
    """So many that a turn takes about a second with two cores."""
    if model == LLAMA:
        return 4 if type == "f32" else 8
    return 16 if type in FLOATS else 32


def threads_of(model, what, type):
    return "each" if type in ONE_THREAD.get((model, what), ()) else "all"


def decode(model, type):
    target = DECODE_FLOATS if type in FLOATS else DECODE_QUANTISED
    return [Decode(target, threads_of(model, f"decode {context}", type), model=model, type=type, prompt=context,
                   steps=steps_of_turn(model, type)) for context, types in CONTEXTS[model].items() if type in types]


def prefill(model, type):
    target = PREFILL.get(type, PREFILL_QUANTISED)
    return [Prefill(target, threads_of(model, f"prompt {tokens}", type), model=model, type=type, prompt=tokens)
            for tokens, types in PROMPTS[model].items() if type in types]


def text():
    for model, types in ((GPT2, EVERY), (LLAMA, EVERY), (SMOLLM2, ("q4_1",))):
        for type in types:
            yield from decode(model, type)
            yield from prefill(model, type)
    yield BudgetDecode(faster_than(0.5, BudgetDecode.NO_BUDGET), "all", model=GPT2, type="f32", prompt=64, steps=16)
    yield FirstToken(time_of(1.15, FirstToken.LATER), "all", model=GPT2, type="bf16")


def images():
    for name in ("ResNet34", "MobileNetV2"):
        yield Image(faster_than(1.2), name=name, type="f32")
        yield Image(faster_than(1.2, "OpenVINO"), name=name, type="bf16")
        yield FirstImage(time_of(1.15, FirstImage.LATER), "all", name=name)


def training():
    """Operations: six for each weight and example; of convolutions, for each weight and position; plus attention."""
    mlp = 6 * 64 * (784 * 128 + 128 * 10)
    cnn = 6 * 64 * (32 * 9 * 26 * 26 + 64 * 32 * 9 * 24 * 24 + 9216 * 128 + 128 * 10)
    gpt = 6 * 8 * 256 * (4 * 12 * 256 * 256 + 4096 * 256) + 6 * 8 * 4 * 256 * 256 * 257
    name = "GPT 4 x 256, context 256, batch 8, AdamW"
    for title, steps_of, factor, count, flop, examples, loss in (
            ("MLP 784-128-10, batch 64, SGD", "mlp-sgd", 2, 50, mlp, 64, LN_10),
            ("MLP 784-128-10, batch 64, Adam", "mlp-adam", 2, 50, mlp, 64, LN_10),
            ("CNN 32-64 of 3 x 3, batch 64, Adam", "cnn-adam", 1.5, 5, cnn, 64, LN_10),
            (f"{name}, f32", "gpt-adamw", 1.3, 2, gpt, 8 * 256, LN_4096),
            (f"{name}, bf16", "gpt-adamw-bf16", 1.5, 2, gpt, 8 * 256, LN_4096)):
        threads = "all" if steps_of.startswith("gpt") else "each"  # the GPT's steps take a second
        yield TrainingStep(faster_than(factor, "PyTorch"), threads, title=f"training step, {title}", steps_of=steps_of, count=count,
                           flop=flop, examples=examples, first_loss=loss)


def tokenizers():
    for vocabulary in ("gpt-2", "llama-bpe"):
        for what in ("prose", "code"):
            yield Tokenize(rate_of(45, "MiB/s"), "one", vocabulary=vocabulary, text=what)


def storage(size_mib):
    dd = {DD: ("dd", "if=FILE", "of=/dev/null", "bs=8M", "iflag=direct", "status=none")}
    large = {"file": "large.safetensors", "size_mib": size_mib}
    direct = faster_than(0.9, DD)
    yield Storage(faster_than(1, "safetensors (Rust)"), "one", title=f"read {size_mib} MiB, mapped, and sum",
                  ours_words=("bench", "--runs", 3, "read", "FILE"),
                  peer_words={"safetensors (Rust)": ("crate", 3, "safetensors-read", "FILE")}, **large)
    yield Storage(time_of(0.45, "burn-pack (Rust)"), "one", title="open Burnpack with 20,000 tensors", file="small.bpk",
                  ours_words=("bench", "--runs", 5, "open", "FILE"),
                  peer_words={"burn-pack (Rust)": ("crate", 5, "burnpack-open", "FILE")})
    yield Storage(direct, "one", title=f"cold: every tensor into memory, {size_mib} MiB", cold=True,
                  ours_words=("bench", "--cold", "load", "FILE"), peer_words=dd, **large)
    yield Storage(direct, "all", title=f"cold: `verify --level content`, {size_mib} MiB", cold=True,
                  ours_words=("ballast", "verify", "--level", "content", "--threads", "THREADS", "FILE"), peer_words=dd, **large)


def all_rows(threads, size_mib):
    """With each number of threads; where work takes one, or is too slow for few, with that."""
    for kind in (*text(), *images(), *training(), *tokenizers(), *storage(size_mib)):
        numbers = {"each": threads, "all": threads[-1:], "one": [1]}[kind.threads_of]
        yield from (Row(kind, number) for number in numbers)
