#!/usr/bin/env python3
"""The backend `cuda` beside PyTorch, in turns: the shape of Llama 3.2 1B with random weights, on this machine's GPU.

usage: bench/cuda.py PROGRAM [--models FOLDER] [--rounds N] [--small]

PROGRAM is `ballast`. Measures decoding of one text behind a prompt of 512 tokens, and prompts of 512 and 4,096 tokens, in
bf16, q8_0 and q4_0; PyTorch in bf16 alone, where it and transformers are installed: decoding with a static cache and a
compiled step, prompts with SDPA. Models (4.5 GB) are made once and stay in FOLDER. Prints a table in Markdown, medians and
bests of at least 5 rounds.
"""
import argparse, json, os, statistics, subprocess, sys, time
from pathlib import Path

TYPES = ("bf16", "q8_0", "q4_0")
PROMPTS = (512, 4096)
TOKENS = 128
WARMUP = 16  # tokens of a peer's text in front of those that are timed


def words(program, *rest):
    return subprocess.run([program, *map(str, rest)], check=True, capture_output=True, text=True).stdout


def model_files(program, folder, is_small):
    """{type: path}"""
    paths = {type: folder / ("bf16" if type == "bf16" else f"{type}.gguf") for type in TYPES}
    if not (folder / "made").exists():
        maker = [sys.executable, Path(__file__).with_name("random_llama.py"), paths["bf16"], *["--small"] * is_small]
        subprocess.run(maker, check=True)
        for type in TYPES[1:]:
            words(program, "quantize", paths["bf16"], paths[type], "--type", type, "--overwrite")
        (folder / "made").touch()
    return paths


class Ballast:
    name = "ballast"

    def __init__(self, program, path):
        self.program, self.path = program, path

    def rates(self):
        """{work: tokens per second} of one turn; each is the best of the command's two passes, the first of which uploads."""
        found = {}
        for prompt in PROMPTS:
            answer = json.loads(words(self.program, "benchmark", self.path, "--backend", "cuda", "--json", "--rounds", 2,
                                      "--prompt-tokens", prompt, "--max-tokens", TOKENS if prompt == PROMPTS[0] else 1))
            rates = {measure["name"]: measure["rate"] for measure in answer["measures"]}
            found[f"prompt of {prompt:,} tokens"] = rates["prefill"]
            if prompt == PROMPTS[0]:
                found["decode"] = rates["decode"]
        return found


class Torch:
    name = "PyTorch"

    def __init__(self, folder):
        import torch, transformers
        transformers.logging.set_verbosity_error()
        self.torch = torch
        self.model = transformers.LlamaForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).cuda().eval()
        self.rates()  # compiles

    def seconds(self, work):
        self.torch.cuda.synchronize()
        begin = time.perf_counter()
        work()
        self.torch.cuda.synchronize()
        return time.perf_counter() - begin

    def rates(self):
        with self.torch.inference_mode():
            found = {}
            for length in PROMPTS:
                ids = self.torch.randint(3, self.model.config.vocab_size, (1, length), device="cuda")
                self.model(ids, logits_to_keep=1)
                taken = self.seconds(lambda: self.model(ids, logits_to_keep=1))
                found[f"prompt of {length:,} tokens"] = length / taken
            ids = ids[:, :PROMPTS[0]]
            short, whole = (self.seconds(lambda: self.generate(ids, count)) for count in (WARMUP, WARMUP + TOKENS))
            found["decode"] = TOKENS / (whole - short)
            return found

    def generate(self, ids, count):
        self.model.generate(ids, attention_mask=self.torch.ones_like(ids), max_new_tokens=count, min_new_tokens=count,
                            do_sample=False, cache_implementation="static", pad_token_id=0)


def contenders(program, paths):
    for type, path in paths.items():
        yield type, Ballast(program, path)
    try:
        yield "bf16", Torch(paths["bf16"])
    except ImportError as error:
        print(f"PyTorch is left out: {error}", file=sys.stderr)


def table(rates):
    """{(work, type, name): [tokens per second]}"""
    lines = ["| work | weights | program | tokens/s, median | best | to PyTorch in bf16 |", "|---|---|---|---|---|---|"]
    for (work, type, name), found in sorted(rates.items(), key=lambda row: (row[0][0], TYPES.index(row[0][1]), row[0][2])):
        peer = rates.get((work, "bf16", Torch.name))
        ratio = f"{statistics.median(found) / statistics.median(peer):.2f} x" if peer and name != Torch.name else ""
        lines.append(f"| {work} | {type} | {name} | {statistics.median(found):,.0f} | {max(found):,.0f} | {ratio} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--models", type=Path, default=Path("/tmp/ballast-models"), help="where models are kept")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each (default 5)")
    parser.add_argument("--small", action="store_true", help="tiny models, to try this out")
    options = parser.parse_args()
    os.makedirs(options.models, exist_ok=True)
    print(words(options.program, "backends"))
    paths = model_files(options.program, options.models, options.small)
    all_of_them = list(contenders(options.program, paths))
    rates = {}
    for number in range(options.rounds):
        for type, contender in all_of_them if number % 2 == 0 else reversed(all_of_them):
            for work, rate in contender.rates().items():
                rates.setdefault((work, type, contender.name), []).append(rate)
    print(table(rates))


if __name__ == "__main__":
    main()
