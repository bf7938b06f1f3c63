#!/usr/bin/env python3
"""The backend `cuda` beside PyTorch, in turns, on this machine's GPU: text, many texts at a time, loading, and images.

usage: bench/cuda.py PROGRAM [--models FOLDER] [--rounds N] [--only text|more|images] [--small]

PROGRAM is `ballast`. Models have random weights, and PyTorch has its turns where it, transformers and torchvision are installed.
  text    the shape of Llama 3.2 1B: decoding of one text behind a prompt of 512 tokens, and prompts of 512 and 4,096 tokens, in
          bf16, q8_0 and q4_0. PyTorch in bf16 alone: decoding with a static cache and a compiled step, prompts with SDPA
  more    in bf16: 64 texts of that shape at a time, behind prompts of 128 tokens; one text of GPT-2 small's shape; and, from a
          file in the page cache, until the first token is there, where PyTorch only loads weights to the GPU
  images  ResNet34 and MobileNetV2 in bf16, one image and 64 at a time. PyTorch with batch norms folded, channels last, compiled
          with CUDA graphs
Models (5 GB) are made once and stay in FOLDER. Prints tables in Markdown, medians and bests of at least 5 rounds.
"""
import argparse, json, os, statistics, subprocess, sys, time
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tests/interop")]  # in a bundle it is beside this file

TYPES = ("bf16", "q8_0", "q4_0")
PROMPTS = (512, 4096)
TOKENS = 128
WARMUP = 16  # tokens of a peer's text in front of those that are timed
NETWORKS = {"ResNet34": "resnet34", "MobileNetV2": "mobilenet_v2"}
BATCHES = (1, 64)
TEXTS, SHORT_PROMPT = 64, 128
PASSES = 30  # of a turn; the best counts


def words(program, *rest):
    return subprocess.run([program, *map(str, rest)], check=True, capture_output=True, text=True).stdout


def measures(program, path, *rest):
    """{name: rate}"""
    answer = json.loads(words(program, "benchmark", path, "--backend", "cuda", "--json", *rest))
    return {measure["name"]: measure["rate"] for measure in answer["measures"]}


def once(folder, make):
    """Makes a folder's files, if they are not there yet."""
    if not (folder / "made").exists():
        folder.mkdir(parents=True, exist_ok=True)
        make()
        (folder / "made").touch()


# ---------------------------------------------------------------- text


def text_files(program, folder, is_small):
    """{type: path}"""
    paths = {type: folder / ("bf16" if type == "bf16" else f"{type}.gguf") for type in TYPES}

    def make():
        subprocess.run([sys.executable, HERE / "random_llama.py", paths["bf16"], *["--small"] * is_small], check=True)
        for type in TYPES[1:]:
            words(program, "quantize", paths["bf16"], paths[type], "--type", type, "--overwrite")
    once(folder, make)
    return paths


class BallastText:
    name = "ballast"

    def __init__(self, program, path, type):
        self.program, self.path, self.type = program, path, type

    def rates(self):
        """{(work, type): tokens per second} of one turn; the best of two passes, the first of which uploads."""
        found = {}
        for prompt in PROMPTS:
            rates = measures(self.program, self.path, "--rounds", 2, "--prompt-tokens", prompt, "--max-tokens",
                             TOKENS if prompt == PROMPTS[0] else 1)
            found[f"prompt of {prompt:,} tokens", self.type] = rates["prefill"]
            if prompt == PROMPTS[0]:
                found["decode", self.type] = rates["decode"]
        return found


class TorchModel:
    """A language model of transformers on the GPU."""
    name = "PyTorch"

    def __init__(self, folder):
        import torch, transformers
        transformers.logging.set_verbosity_error()
        self.torch = torch
        self.model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).cuda().eval()

    def ids(self, texts, length):
        return self.torch.randint(3, self.model.config.vocab_size, (texts, length), device="cuda")

    def seconds(self, work):
        self.torch.cuda.synchronize()
        begin = time.perf_counter()
        work()
        self.torch.cuda.synchronize()
        return time.perf_counter() - begin

    def generate(self, ids, count):
        self.model.generate(ids, attention_mask=self.torch.ones_like(ids), max_new_tokens=count, min_new_tokens=count,
                            do_sample=False, cache_implementation="static", pad_token_id=0)

    def decoding_rate(self, ids):
        """Tokens per second of all texts, with a compiled step."""
        with self.torch.inference_mode():
            short, whole = (self.seconds(lambda: self.generate(ids, count)) for count in (WARMUP, WARMUP + TOKENS))
        return len(ids) * TOKENS / (whole - short)


class TorchText(TorchModel):
    def __init__(self, folder):
        super().__init__(folder)
        self.rates()  # compiles

    def rates(self):
        found = {}
        with self.torch.inference_mode():
            for length in PROMPTS:
                ids = self.ids(1, length)
                self.model(ids, logits_to_keep=1)
                found[f"prompt of {length:,} tokens", "bf16"] = length / self.seconds(lambda: self.model(ids, logits_to_keep=1))
        found["decode", "bf16"] = self.decoding_rate(self.ids(1, PROMPTS[0]))
        return found


def text(program, folder, is_small):
    paths = text_files(program, folder / "text", is_small)
    for type, path in paths.items():
        yield BallastText(program, path, type)
    try:
        yield TorchText(paths["bf16"])
    except ImportError as error:
        print(f"PyTorch is left out of text: {error}", file=sys.stderr)


# ---------------------------------------------------------------- more of text

MANY, OTHER, LOADING = f"decode {TEXTS} texts at a time, tokens/s", "GPT-2 small, decode, tokens/s", "from file to GPU, GB/s"


def gpt2_folder(folder):
    def make():
        import torch, torch_weights
        model, _ = torch_weights.save("gpt2_small", folder / "f32")
        model.to(torch.bfloat16).save_pretrained(folder / "bf16")
    once(folder, make)
    return folder / "bf16"


class BallastMore:
    name = "ballast"

    def __init__(self, program, llama, gpt2):
        self.program, self.llama, self.gpt2 = program, llama, gpt2

    def rates(self):
        answer = json.loads(words(self.program, "benchmark", self.llama, "--backend", "cuda", "--json", "--rounds", 2, "--sequences",
                                  TEXTS, "--prompt-tokens", SHORT_PROMPT, "--max-tokens", TOKENS))
        size = (self.llama / "model.safetensors").stat().st_size
        found = {MANY: answer["sequences"][0]["rate"],
                 LOADING: size / 1e9 * measures(self.program, self.llama, "--mode", "first-token")["first token"]}
        if self.gpt2:
            found[OTHER] = measures(self.program, self.gpt2, "--rounds", 2, "--prompt-tokens", SHORT_PROMPT, "--max-tokens",
                                    TOKENS)["decode"]
        return {(work, "bf16"): rate for work, rate in found.items()}


class TorchMore:
    name = "PyTorch"

    def __init__(self, llama, gpt2):
        import torch
        self.file, self.torch = llama / "model.safetensors", torch
        self.models = {MANY: (TorchModel(llama), TEXTS), OTHER: (TorchModel(gpt2), 1)}
        self.rates()  # compiles

    def loading_rate(self):
        from safetensors.torch import load_file
        self.torch.cuda.synchronize()
        begin = time.perf_counter()
        tensors = load_file(self.file, device="cuda")
        self.torch.cuda.synchronize()
        return sum(t.nbytes for t in tensors.values()) / 1e9 / (time.perf_counter() - begin)

    def rates(self):
        found = {work: model.decoding_rate(model.ids(texts, SHORT_PROMPT)) for work, (model, texts) in self.models.items()}
        return {(work, "bf16"): rate for work, rate in {**found, LOADING: self.loading_rate()}.items()}


def more(program, folder, is_small):
    llama, gpt2 = text_files(program, folder / "text", is_small)["bf16"], None
    try:
        gpt2 = gpt2_folder(folder / "gpt2")
        peers = [TorchMore(llama, gpt2)]
    except ImportError as error:
        print(f"PyTorch is left out of more: {error}", file=sys.stderr)
        peers = []
    yield BallastMore(program, llama, gpt2)
    yield from peers


# ---------------------------------------------------------------- images


def work_of_images(title, batch):
    return f"{title}, {'1 image' if batch == 1 else f'{batch} images'}"


class BallastImages:
    name = "ballast"

    def __init__(self, program, folder):
        self.program, self.folder = program, folder

    def rates(self):
        return {(work_of_images(title, batch), "bf16"): measures(self.program, self.folder / f"{network}.gptrs", "--batch", batch,
                                                                 "--rounds", PASSES)["images"]
                for title, network in NETWORKS.items() for batch in BATCHES}


class TorchImages:
    """With what makes it fastest: batch norms folded, channels last, one launch for all kernels."""
    name = "PyTorch"

    def __init__(self, models):
        import torch
        from torch.fx.experimental.optimization import fuse
        self.torch, self.compiled = torch, {}
        for network, model in models.items():
            model = fuse(model).cuda().to(torch.bfloat16, memory_format=torch.channels_last)
            for batch in BATCHES:
                self.compiled[network, batch] = torch.compile(model, mode="reduce-overhead", dynamic=False)
                self.seconds(network, batch)

    def seconds(self, network, batch):
        torch, best = self.torch, float("inf")
        pixels = torch.randn(batch, 3, 224, 224, device="cuda", dtype=torch.bfloat16).to(memory_format=torch.channels_last)
        with torch.inference_mode():
            for _ in range(PASSES):
                torch.cuda.synchronize()
                begin = time.perf_counter()
                self.compiled[network, batch](pixels)
                torch.cuda.synchronize()
                best = min(best, time.perf_counter() - begin)
        return best

    def rates(self):
        return {(work_of_images(title, batch), "bf16"): batch / self.seconds(network, batch)
                for title, network in NETWORKS.items() for batch in BATCHES}


def images(program, folder, is_small):
    folder /= "images"
    try:
        import torch_weights
        models = {network: torch_weights.save(network, folder / network)[0] for network in NETWORKS.values()}
    except ImportError as error:
        print(f"images are left out: {error}", file=sys.stderr)
        return

    def make():
        for network in NETWORKS.values():
            words(program, "import", folder / network, folder / "f32.gptrs", "--no-sync", "--overwrite")
            words(program, "convert", folder / "f32.gptrs", folder / f"{network}.gptrs", "--dtype", "bf16", "--allow-half",
                  "--no-sync", "--overwrite")
    once(folder, make)
    yield BallastImages(program, folder)
    yield TorchImages(models)


# ---------------------------------------------------------------- the tables


def shown(rate):
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}"


def table(rates, unit):
    """{(work, type, name): [items per second]}"""
    lines = [f"| work | weights | program | {unit}, median | best | to PyTorch in bf16 |", "|---|---|---|---|---|---|"]
    for (work, type, name), found in sorted(rates.items(), key=lambda row: (row[0][0], TYPES.index(row[0][1]), row[0][2])):
        peer = rates.get((work, "bf16", TorchModel.name))
        ratio = f"{statistics.median(found) / statistics.median(peer):.2f} x" if peer and name != TorchModel.name else ""
        lines.append(f"| {work} | {type} | {name} | {shown(statistics.median(found))} | {shown(max(found))} | {ratio} |")
    return "\n".join(lines)


KINDS = {"text": (text, "tokens/s"), "more": (more, "rate"), "images": (images, "images/s")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--models", type=Path, default=Path("/tmp/ballast-models"), help="where models are kept")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each (default 5)")
    parser.add_argument("--only", choices=KINDS, help="one of the tables")
    parser.add_argument("--small", action="store_true", help="a tiny Llama, to try this out")
    options = parser.parse_args()
    print(words(options.program, "backends"))
    for kind in [options.only] if options.only else KINDS:
        contenders, unit = KINDS[kind]
        all_of_them = list(contenders(options.program, options.models / ("small" if options.small else "whole"), options.small))
        rates = {}
        for number in range(options.rounds):
            for contender in all_of_them if number % 2 == 0 else reversed(all_of_them):
                for (work, type), rate in contender.rates().items():
                    rates.setdefault((work, type, contender.name), []).append(rate)
        if rates:
            print(table(rates, unit), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
