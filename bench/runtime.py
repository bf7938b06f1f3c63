"""The rows of the runtime table: models that run, Ballast beside eager PyTorch, on the same weights and inputs.

Each turn of Ballast is a process of its own that warms up once and then measures once; PyTorch runs in this process,
warmed up once before its first turn. Times are those of one token, one prompt or one image.
"""
import json, statistics, subprocess, time

import report
import storage
import torch_weights
from storage import Row, both, judged, speed_of

PROMPT = 128
STEPS = 32
LONG = 512
GPT_RS_LOAD = 0.37  # GB/s: a recorded figure, not measured here


def some_tokens(count, vocabulary):  # as `ballast benchmark` has them
    return [i * 7919 % vocabulary for i in range(count)]


# ---------------------------------------------------------------- what the table says


class Work(Row):
    """A row with what one run of it amounts to, such as one token."""

    def __init__(self, work, contenders, target=None, size=0, threads=1, unit="tokens/s", items=1):
        super().__init__(work, contenders, target, size, threads)
        self.unit, self.items = unit, items
        self.own_items = {}  # of contenders for whom it is another number
        self.reading_shares = []  # of the measured bandwidth, one of each of Ballast's turns

    def rate(self, name, milliseconds):
        return self.own_items.get(name, self.items) / milliseconds * (1e3 if self.unit != "GB/s" else 1e-6)


def reads_at_least(share):
    def target(row):
        reached = statistics.median(row.reading_shares)
        return judged(f"at least {share:.0%} of the measured bandwidth", f"{reached:.0%}", reached >= share)
    return target


def loses_at_most(share, name):
    def target(row):
        lost = row.ours() / row.peers()[name] - 1
        return judged(f"at most {share:.0%} slower than {name}", f"{lost:+.1%}", lost <= share)
    return target


def times_recorded(factor, recorded, whose):
    def target(row):
        reached = row.size / row.ours() / 1e6
        return judged(f"at least {factor:g} x {whose}'s recorded {recorded:g} GB/s", f"{reached / recorded:.1f} x",
                      reached >= factor * recorded)
    return target


def table(rows):
    lines = ["| work | threads | program | best ms | median ms | rate at the median | target | reached |",
             "|---|---|---|---|---|---|---|---|"]
    for row in rows:
        text, reached, met = row.verdict()
        for i, (name, result) in enumerate(row.results.items()):
            first = i == 0
            rate = row.rate(name, result["median_ms"])
            cells = [row.work if first else "", str(row.threads) if first else "", f"**{name}**" if first else name,
                     report.short(result["best_ms"]), report.short(result["median_ms"]),
                     f"{rate:.{0 if rate >= 100 else 1 if rate >= 10 else 2}f} {row.unit}", text if first else "",
                     "" if not first or met is None else f"{'met' if met else '**missed**'}: {reached}"]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


# ---------------------------------------------------------------- the two programs


class Ballast:
    def __init__(self, program):
        self.program = program

    def result(self, model, threads, *flags):
        rounds = [] if "--rounds" in flags else ["--rounds", 1]
        words = [self.program, "benchmark", model, "--json", "--threads", threads, *rounds, *flags]
        done = subprocess.run(list(map(str, words)), check=True, capture_output=True, text=True)
        return json.loads(done.stdout)

    def benchmark(self, model, threads, *flags):
        result = self.result(model, threads, *flags)
        return result["machine"], {measure["name"]: measure for measure in result["measures"]}

    def reading(self, model, threads):
        return lambda: [1e12 / self.benchmark(model, threads, "--max-tokens", 1, "--prompt-tokens", 1)[0]["read_bytes_per_s"]]

    def measure(self, name, model, threads, *flags, per_item=True, shares=None):
        def turn():
            measure = self.benchmark(model, threads, *flags)[1][name]
            if shares is not None:
                shares.append(measure["bandwidth_share"])
            return [measure["seconds"] * 1e3 / (measure["items"] if per_item else 1)]
        return turn

    def first_token(self, model, threads):
        return lambda: storage.timed(lambda: storage.command(self.program, "generate", model, "--tokens", 0, "--greedy",
                                                             "--max-tokens", 1, "--threads", threads, "--json"))


class Torch:
    """Eager, f32, without gradients."""

    def __init__(self):
        import torch
        self.torch = torch
        self.warm = set()

    def turn(self, key, threads, body):
        """Times in ms that `body` gives, after one warm-up for each number of threads."""
        def run():
            self.torch.set_num_threads(threads)
            with self.torch.inference_mode():
                if (key, threads) not in self.warm:
                    self.warm.add((key, threads))
                    body()
                return body()
        return run

    def decode(self, model, prompt, steps):
        """The time of one step, the prompt's not counted."""
        output = model(self.torch.tensor([prompt]), use_cache=True)
        start = time.perf_counter()
        for _ in range(steps):
            token = output.logits[:, -1].argmax(-1, keepdim=True)
            output = model(token, past_key_values=output.past_key_values, use_cache=True)
        int(output.logits[0, -1].argmax())
        return [(time.perf_counter() - start) * 1e3 / steps]

    def prefill(self, model, prompt):
        """Up to the first token; like Ballast, only the last position has logits."""
        ids = self.torch.tensor([prompt])
        return storage.timed(lambda: int(model(ids, use_cache=True, logits_to_keep=1).logits[0, -1].argmax()))

    def image(self, model, pixels):
        return storage.timed(lambda: model(pixels))


# ---------------------------------------------------------------- the rows


class Runtime:
    def __init__(self, folder, program, threads):
        self.folder, self.threads = folder, threads
        self.ballast, self.torch = Ballast(program), Torch()
        self.models = {}
        for kind in ("gpt2_small", "resnet34", "mobilenet_v2"):
            self.models[kind], _ = torch_weights.save(kind, folder / kind)
            storage.command(program, "import", folder / kind, self.file(kind), "--no-sync")
        storage.command("sync")

    def file(self, kind):
        return self.folder / f"{kind}.gptrs"

    def rows(self):
        for threads in self.threads:
            yield self.reading(threads)
            yield self.decode(threads)
            yield from (self.prefill(threads, length) for length in (PROMPT, LONG))
            yield self.image(threads, "resnet34", "ResNet34", speed_of(1.06, "PyTorch"))
            yield self.image(threads, "mobilenet_v2", "MobileNetV2", None)
            yield self.loading(threads)
            yield self.resident(threads)
            yield self.budgets(threads)

    def reading(self, threads):
        return Work("read memory, 1 GB", {"ballast": self.ballast.reading(self.file("mobilenet_v2"), threads)}, None,
                    10**9, threads, "GB/s", 10**9)

    def ours_decoding(self, threads, *flags, shares=None):
        return self.ballast.measure("decode", self.file("gpt2_small"), threads, "--prompt-tokens", PROMPT, "--max-tokens",
                                    STEPS, *flags, shares=shares)

    def decode(self, threads):
        model, prompt = self.models["gpt2_small"], some_tokens(PROMPT, 50257)
        row = Work(f"GPT-2 small f32, decode after {PROMPT} tokens", {}, both(reads_at_least(0.9), speed_of(1, "PyTorch")),
                   threads=threads)
        row.contenders = {
            "ballast": self.ours_decoding(threads, shares=row.reading_shares),
            "PyTorch": self.torch.turn("decode", threads, lambda: self.torch.decode(model, prompt, STEPS))}
        return row

    def prefill(self, threads, length):
        model, prompt = self.models["gpt2_small"], some_tokens(length, 50257)
        return Work(f"GPT-2 small f32, prompt of {length} tokens", {
            "ballast": self.ballast.measure("prefill", self.file("gpt2_small"), threads, "--prompt-tokens", length,
                                            "--max-tokens", 1, per_item=False),
            "PyTorch": self.torch.turn(f"prefill {length}", threads, lambda: self.torch.prefill(model, prompt)),
        }, None, threads=threads, items=length)

    def image(self, threads, kind, name, target):
        model = self.models[kind]
        pixels = self.torch.torch.from_numpy(torch_weights.images(1, 224, 224))
        return Work(f"{name} f32, 1 image of 224 x 224", {
            "ballast": self.ballast.measure("images", self.file(kind), threads),
            "PyTorch": self.torch.turn(kind, threads, lambda: self.torch.image(model, pixels)),
        }, target, threads=threads, unit="images/s")

    def loading(self, threads):
        import transformers
        transformers.utils.logging.disable_progress_bar()
        ids = self.torch.torch.tensor([[0]])

        def load():
            model = transformers.GPT2LMHeadModel.from_pretrained(self.folder / "gpt2_small", dtype=self.torch.torch.float32)
            return int(model.eval()(ids).logits[0, -1].argmax())

        size = self.file("gpt2_small").stat().st_size
        peer = "transformers, imports not counted"
        row = Work(f"GPT-2 small, {size / 1e6:.0f} MB, from file to first token", {
            "ballast, whole process": self.ballast.first_token(self.file("gpt2_small"), threads),
            peer: self.torch.turn("load", threads, lambda: storage.timed(load)),
        }, times_recorded(5, GPT_RS_LOAD, "gpt.rs"), size, threads, "GB/s", size)
        row.own_items[peer] = (self.folder / "gpt2_small/model.safetensors").stat().st_size  # holds the head once
        return row

    def resident(self, threads):
        return Work("GPT-2 small f32, decode, all resident", {
            "budget of 4 GB": self.ours_decoding(threads, "--param-budget", "4GB"),
            "no budget": self.ours_decoding(threads),
        }, loses_at_most(0.02, "no budget"), threads=threads)

    def budgets(self, threads):
        return Work("GPT-2 small f32, decode within a budget", {
            f"{share} of the parameters": self.ours_decoding(threads, "--param-budget", share) for share in ("25%", "10%")
        }, None, threads=threads)
