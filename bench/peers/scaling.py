"""How cost grows: rows of the same kinds along one axis, drawn as lines."""
import json, subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, ClassVar

from llama_source import TOOL

from . import ballast, drawing
from .kinds import BudgetDecode, Decode, FirstToken, Image, Prefill, Text
from .measuring import OURS, Row
from .model_files import SMOLLM2

CONTEXTS = (64, 512, 1024, 2048, 4096, 8000)
BATCHES = (1, 2, 4, 8, 16, 32)
BUDGETS = (10, 25, 50, 75, 100)
FILES = (("MobileNetV2", "f32"), (SMOLLM2, "q4_1"), ("GPT-2 small", "q4_0"), ("GPT-2 small", "q8_0"), ("GPT-2 small", "bf16"),
         ("GPT-2 small", "f32"), ("Llama 3.2 1B", "q4_0"), ("Llama 3.2 1B", "bf16"))


# ---------------------------------------------------------------- kinds that only plots have


class SequencesTurn:
    """A step of so many texts; `read` finds its milliseconds in what the program prints."""
    setting = ""

    def __init__(self, words, read):
        self.words, self.read = list(map(str, words)), read

    def turn(self):
        done = subprocess.run(self.words, check=True, capture_output=True, text=True)
        return {"ms": self.read(done.stdout)}

    def close(self):
        pass


@dataclass
class Sequences(Text):
    """Many texts in each pass."""
    sequences: int = 1
    steps: int = 16
    kind: ClassVar[str] = "sequences"
    built: ClassVar[tuple] = ("ballast",)

    @property
    def title(self):
        return f"{self.model} {self.type}, decode {self.sequences} texts at a time"

    @property
    def variant(self):
        return f"{self.steps} steps"

    @property
    def items(self):
        return self.sequences

    def prepare(self, files, threads):
        return self.work(files, threads, tool=str(files.llama / TOOL))

    def ours(self, programs, work):
        words = [programs["ballast"], "benchmark", work["path"], "--json", "--threads", work["threads"], "--rounds", 1,
                 "--sequences", self.sequences, "--prompt-tokens", self.prompt, "--max-tokens", self.steps]
        return SequencesTurn(words, lambda text: json.loads(text)["sequences"][0]["step_seconds"] * 1e3)

    def others(self, programs, work):
        words = [work["tool"], "-m", work["path"], "-npp", self.prompt, "-ntg", self.steps, "-npl", self.sequences, "-c",
                 self.sequences * (self.prompt + self.steps), "-t", work["threads"], "-tb", work["threads"],
                 "--output-format", "jsonl"]

        def read(text):
            [result] = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
            return result["t_tg"] * 1e3 / self.steps
        return {"llama.cpp": SequencesTurn(words, read)}

    def compare(self, ours, theirs, work):
        """Neither program prints logits. The rows of decoding compare those of one text with llama.cpp, and tests of the
        library those of many texts with those of each alone."""
        return {}

    def seconds(self):
        return 2 + self.sequences * 0.3


class PeakMemory(ballast.Model):
    """A step within a budget, with the most memory of the process."""

    def turn(self):
        return {**super().turn(), **self.ask("memory")}


@dataclass
class MemoryOfBudget(BudgetDecode):
    @property
    def title(self):
        return f"{self.model} {self.type}, memory within a budget of {self.percent} %"

    def ours(self, programs, work):
        return PeakMemory(programs, work, f"decode {self.prompt} {self.steps}", self.percent)

    def others(self, programs, work):
        return {}

    def compare(self, ours, theirs, work):
        return {}


@dataclass
class FirstAnswerOf(FirstToken):
    """Of a text model, or of one for images; the size of its file is what it grows with."""
    size: int = 0

    @property
    def title(self):
        return f"{self.model} {self.type}, from file to first answer"

    def is_text(self):
        return self.model != "MobileNetV2"

    def prepare(self, files, threads):
        work = super().prepare(files, threads) if self.is_text() else Image(name=self.model, type=self.type).prepare(files, threads)
        self.size = Path(work["path"]).stat().st_size
        return {**work, "kind": "first answer"}

    def ours(self, programs, work):
        command = f"prefill {self.prompt}" if self.is_text() else f"images {work['pixels']} 1"
        return ballast.FirstAnswer(programs, work, command)

    def others(self, programs, work):
        return {}

    def amount(self, work):
        return self.size


# ---------------------------------------------------------------- the plots


@dataclass
class Plot:
    """`points` are (x, Row); x may be a function of the Result. `y` is a function of Result and program."""
    title: str
    x_label: str
    y_label: str
    points: list
    y: Callable = lambda result, name: result.rate(name)

    def panel(self, results):
        lines = {}
        for x, row in self.points:
            result = results.get(row.slug())
            if result is None:
                continue
            for name in (OURS, *result.peers()):
                place = x(result) if callable(x) else x
                lines.setdefault(name, []).append((place, self.y(result, name)))
        return drawing.Panel(self.title, self.x_label, self.y_label, lines) if lines else None


def thread_numbers(most):
    """1, 2, 4 ... and all."""
    return sorted({*(1 << i for i in range(5) if 1 << i <= most), most})


def plots(most_threads):
    smollm2 = {"model": SMOLLM2, "type": "q4_1"}
    gpt2 = {"model": "GPT-2 small", "type": "bf16"}
    numbers = thread_numbers(most_threads)
    yield Plot("SmolLM2 q4_1, decode", "tokens of context", "tokens/s",
               [(n, Row(Decode(prompt=n, steps=16, **smollm2), most_threads)) for n in CONTEXTS])
    yield Plot("SmolLM2 q4_1, prefill", "tokens of the prompt", "tokens/s",
               [(n, Row(Prefill(prompt=n, **smollm2), most_threads)) for n in CONTEXTS])
    yield Plot("SmolLM2 q4_1, many texts at a time", "texts", "tokens/s, together",
               [(n, Row(Sequences(sequences=n, prompt=64, **smollm2), most_threads)) for n in BATCHES])
    yield Plot("GPT-2 small bf16, decode", "threads", "tokens/s", [(n, Row(Decode(prompt=64, **gpt2), n)) for n in numbers])
    yield Plot("GPT-2 small bf16, prefill of 512 tokens", "threads", "tokens/s",
               [(n, Row(Prefill(prompt=512, **gpt2), n)) for n in numbers])
    for name in ("ResNet34", "MobileNetV2"):
        yield Plot(f"{name} f32", "images in a batch", "images/s",
                   [(n, Row(Image(name=name, batch=n), most_threads)) for n in BATCHES])
    yield Plot("From file to first answer, warm page cache", "MB", "ms",
               [(lambda r: r.record["amount"] / 1e6, Row(FirstAnswerOf(model=model, type=type), most_threads)) for model, type in FILES],
               lambda result, name: result.milliseconds(name))
    budgets = [(n, Row(MemoryOfBudget(model="GPT-2 small", type="f32", prompt=64, steps=8, percent=n), most_threads))
               for n in BUDGETS]
    yield Plot("GPT-2 small f32, peak memory of the process", "budget, % of the parameters", "MiB", budgets,
               lambda result, name: result.record["rounds"][-1][name]["peak_bytes"] / 2**20)
    yield Plot("GPT-2 small f32, decode within a budget", "budget, % of the parameters", "tokens/s", budgets)


def draw(found, results):
    """The plots whose rows were measured."""
    by_slug = {result.row.slug(): result for result in results}
    drawn = [panel for panel in (plot.panel(by_slug) for plot in found) if panel]
    return drawing.panels(drawn) if drawn else None
