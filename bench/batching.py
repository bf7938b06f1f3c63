"""The rows of the batching table: many texts in each pass, Ballast beside llama.cpp's llama-batched-bench.

Both get the same GGUF files and the same work: every text has a prompt of its own, and each of the steps that are timed
computes one more token of every text and its logits, at the same positions. Ballast also picks the likeliest token;
llama-batched-bench takes any. Every turn is a process of its own, whose first pass over the weights, the prompts, is not
timed. Nor are Ballast's first WARMUP steps, after which it has arranged the weights for batches: llama.cpp does that when
it opens the file, which is not timed either. A round goes through all numbers of texts, and everyone has a turn at each, so
that a disturbance of the machine hits all programs and all numbers alike. llama.cpp has a turn with flash attention and one
without; the faster counts.
"""
import json, statistics, subprocess
from dataclasses import dataclass

from published_table import tables_of, verdict_cells
from random_gguf import LLAMA_1B, kept_model
from storage import Row, both, judged

PREFIX = 1000
FLASH_ATTENTION = ("on", "off")
FASTER_WITH_PREFIX = 20
COMPUTE_SHARE = 0.8
WARMUP = 12


@dataclass(frozen=True)
class Amount:
    """How much is computed: numbers of texts, tokens of each prompt, steps that are timed."""
    sequences: tuple
    prompt: int
    steps: int


SMALL_MODEL = Amount((1, 2, 4, 8, 16, 32), 128, 32)
LARGE_MODEL = Amount((1, 4, 8, 16), 32, 16)  # a turn with 16 texts would take half a minute with longer prompts


# ---------------------------------------------------------------- what is asked


def at_least_llama(row):
    ratio = row.rate_of("ballast") / row.rate_of(row.best_peer())
    return judged("at least 1 x llama.cpp", f"{ratio:.2f} x", ratio >= 1)


def times_one(factor):
    def target(row):
        speedup = row.speedup()
        return judged(f"at least {factor} x one sequence", f"{speedup:.2f} x", speedup >= factor)
    return target


def times_one_or_compute(factor):
    def target(row):
        speedup, share = row.speedup(), statistics.median(row.compute_shares)
        return judged(f"at least {factor} x one sequence or {COMPUTE_SHARE:.0%} of the compute limit",
                      f"{speedup:.2f} x, {share:.0%}", speedup >= factor or share >= COMPUTE_SHARE)
    return target


TARGETS = {8: both(at_least_llama, times_one(3)), 16: both(at_least_llama, times_one_or_compute(4))}


# ---------------------------------------------------------------- the programs


class Ballast:
    def __init__(self, program):
        self.program = program

    def result(self, model, threads, *flags):
        rounds = [] if "--rounds" in flags else ["--rounds", 1]
        words = [self.program, "benchmark", model, "--json", "--threads", threads, *rounds, *flags]
        done = subprocess.run(list(map(str, words)), check=True, capture_output=True, text=True)
        return json.loads(done.stdout)


class BatchedBench:
    """llama.cpp's own measure of decoding many texts at a time."""

    def __init__(self, program):
        self.program = program

    def step(self, model, threads, amount, sequences, flash_attention):
        """Milliseconds of a step."""
        words = [self.program, "-m", model, "-npp", amount.prompt, "-ntg", amount.steps, "-npl", sequences,
                 "-c", sequences * (amount.prompt + amount.steps),
                 "-t", threads, "-tb", threads, "-fa", flash_attention, "--output-format", "jsonl"]
        done = subprocess.run(list(map(str, words)), check=True, capture_output=True, text=True)
        [result] = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        asked = {"pp": amount.prompt, "tg": amount.steps, "pl": sequences, "is_pp_shared": 0, "n_threads": threads}
        if any(result[name] != value for name, value in asked.items()):
            raise RuntimeError(f"llama-batched-bench measured something else: {result}")
        return result["t_tg"] * 1e3 / amount.steps


# ---------------------------------------------------------------- the rows


class Batch(Row):
    """So many texts in each pass; times are those of a step."""

    def __init__(self, group, sequences, programs):
        super().__init__(f"{group.model}, {'1 sequence' if sequences == 1 else f'{sequences} sequences'}", {},
                         TARGETS.get(sequences, at_least_llama), threads=group.threads)
        self.group, self.sequences, self.programs = group, sequences, programs
        self.compute_shares = []
        self.contenders = {"ballast": self.ours_turn, **{self.peer_name(on): self.peer_turn(on) for on in FLASH_ATTENTION}}

    @staticmethod
    def peer_name(flash_attention):
        return f"llama.cpp, flash attention {flash_attention}"

    def ours_turn(self):
        result = self.programs.ballast.result(self.group.path, self.threads, "--sequences", self.sequences,
                                              "--prompt-tokens", self.group.amount.prompt - WARMUP,
                                              "--warmup-tokens", WARMUP, "--max-tokens", self.group.amount.steps)
        [measure] = result["sequences"]
        if measure["steps"] != self.group.amount.steps:
            raise RuntimeError(f"ballast measured {measure['steps']} steps, not {self.group.amount.steps}")
        self.compute_shares.append(measure["flops_share"])
        return [measure["step_seconds"] * 1e3]

    def peer_turn(self, flash_attention):
        return lambda: [self.programs.peer.step(self.group.path, self.threads, self.group.amount, self.sequences,
                                                     flash_attention)]

    def measure(self, rounds):
        self.group.measure(rounds)

    def rate_of(self, name, which="median_ms"):
        return self.sequences / self.results[name][which] * 1e3

    def best_peer(self):
        return min(self.peers(), key=self.peers().get)

    def speedup(self):
        return self.rate_of("ballast") / self.group.one.rate_of("ballast")

    def cells(self):
        peer = self.best_peer()
        return [self.group.model, self.threads, self.sequences, f"**{self.rate_of('ballast'):.1f}**",
                f"{self.rate_of('ballast', 'best_ms'):.1f}", f"{self.ours():.1f}", f"{self.rate_of(peer):.1f}",
                f"{self.rate_of(peer, 'best_ms'):.1f}", peer.rsplit(" ", 1)[1],
                f"{self.rate_of('ballast') / self.rate_of(peer):.2f}", f"{self.speedup():.2f}", *verdict_cells(self)]


class SharedPrefix(Row):
    """Two requests that begin alike, one after the other; times are those until the first token."""

    SECOND, FIRST = "second request", "first request"

    def __init__(self, group, programs):
        super().__init__(f"{group.model}, shared prefix of {PREFIX} tokens", {}, self.judge, threads=group.threads)
        self.group, self.programs = group, programs

    def round(self):
        # Of two turns in the process the better one counts: the first would have to bring the weights into memory.
        measure = self.programs.ballast.result(self.group.path, self.threads, "--shared-prefix", PREFIX, "--rounds",
                                               2)["shared_prefix"]
        for name, key in ((self.SECOND, "second_seconds"), (self.FIRST, "first_seconds")):
            self.times.setdefault(name, []).append(measure[key] * 1e3)

    def measure(self, rounds):
        self.group.measure(rounds)

    def faster(self):
        return self.results[self.FIRST]["median_ms"] / self.ours()

    def judge(self, _):
        return judged(f"the second at least {FASTER_WITH_PREFIX} x faster", f"{self.faster():.1f} x",
                      self.faster() >= FASTER_WITH_PREFIX)

    def cells(self):
        first, second = self.results[self.FIRST], self.results[self.SECOND]
        return [self.group.model, self.threads, PREFIX, f"{first['median_ms']:.1f}", f"{first['best_ms']:.1f}",
                f"**{second['median_ms']:.2f}**", f"{second['best_ms']:.2f}", f"{self.faster():.1f}", *verdict_cells(self)]


class Group:
    """The rows of one model and one number of threads, which are measured together."""

    def __init__(self, model, amount, threads, make_file, programs):
        self.model, self.amount, self.threads, self.make_file, self.path = model, amount, threads, make_file, None
        self.batches = [Batch(self, sequences, programs) for sequences in amount.sequences]
        self.one = self.batches[0]
        self.rows = [*self.batches, SharedPrefix(self, programs)]

    def measure(self, rounds):
        if self.path is not None:
            return
        self.path = self.make_file()
        for _ in range(rounds):
            for row in self.rows:
                row.round()
        for row in self.rows:
            row.conclude()


class Batching:
    def __init__(self, folder, program, peer, threads):
        self.folder, self.program, self.threads = folder, program, threads
        self.ballast, self.peer = Ballast(program), BatchedBench(peer)

    def rows(self):
        for model, (amount, make_file) in self.models().items():
            for threads in self.threads:
                yield from Group(model, amount, threads, make_file, self).rows

    def models(self):
        return {"SmolLM2-135M q4_1": (SMALL_MODEL, self.smollm2),
                **{f"{LLAMA_1B.name} {type}": (LARGE_MODEL, lambda type=type: kept_model(self.folder, LLAMA_1B, type))
                   for type in ("q4_0", "bf16")}}

    def smollm2(self):
        return subprocess.run([self.program, "get", "smollm2"], check=True, capture_output=True, text=True).stdout.strip()


# ---------------------------------------------------------------- the tables

BATCH_COLUMNS = ("model", "threads", "sequences", "ballast, tokens/s", "best", "ms per step", "llama.cpp, tokens/s", "best",
                 "flash attention", "ratio", "to 1 sequence", "target", "reached")
PREFIX_COLUMNS = ("model", "threads", "prefix, tokens", "first request, ms", "best", "second request, ms", "best",
                  "faster by", "target", "reached")


def table(rows):
    """One table of batches, one of shared prefixes."""
    return tables_of(rows, ((Batch, BATCH_COLUMNS), (SharedPrefix, PREFIX_COLUMNS)))
