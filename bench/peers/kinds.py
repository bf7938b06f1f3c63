"""The kinds of work: how Ballast does it, who else does it, what it amounts to, and whether all give the same.

A kind has a title; `unit` and `items`, so that items / time is a rate; `limit`, the machine's limits that could bind it,
the best first, and `amount` of bytes or operations; a target; and a guess of the seconds of one turn on one thread.
"""
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, ClassVar

from storage import make_cold

from . import ballast, model_files, reference

CLOSE = {"f32": 1e-3, "f16": 0.01, "bf16": 0.05}  # how far logits may be apart: see difference()
CLOSE_QUANTISED = 0.01  # Ballast, to reference.py: llama.cpp rounds activations to 8 bits, and is not judged
CLOSE_LOSSES = {"f32": 1e-3, "bf16": 0.01}  # of what they move by: see TrainingStep.compare()
TILES = {"f32": ("f32",), "f16": ("amx-bf16", "f32"), "bf16": ("amx-bf16", "f32")}
TILES_QUANTISED = ("amx-int8", "vnni", "f32")


class Disagreement(Exception):
    """Two programs compute different things: what they take for it means nothing."""


def difference(ours, theirs):
    """The root mean square of what two vectors of logits differ by, in deviations of theirs."""
    import numpy
    if ours.shape != theirs.shape:
        raise Disagreement(f"{ours.size} numbers, not {theirs.size}")
    return float(numpy.sqrt(numpy.square(ours - theirs, dtype=numpy.float64).mean()) / theirs.std())


def judge_equal(name, ours, theirs):
    """Bit for bit, apart from the sign of a zero."""
    import numpy
    if not numpy.array_equal(ours, theirs):
        raise Disagreement(f"{name} gives other numbers")
    return {"difference": 0, "bound": 0}


def read_numbers(path):
    import numpy
    numbers = numpy.fromfile(path, numpy.float32)
    os.unlink(path)
    return numbers


def judge(name, found, bound):
    if not found <= bound:  # NaN is far away
        raise Disagreement(f"{name} gives something else: {found:.2g}, at most {bound:g}")
    return {"difference": found, "bound": bound}


@dataclass
class Work:
    target: Callable = None
    unit: ClassVar[str] = "tokens/s"
    items: ClassVar[float] = 1
    limit: ClassVar[tuple] = ()
    variant: ClassVar[str] = ""  # what tells rows of one title apart
    built: ClassVar[tuple] = ("model_worker",)  # Ballast's programs that it runs
    needs_crate: ClassVar[bool] = False
    threads_of: str = "each"  # or "all": only with as many threads as there are; "one": only with one

    def prepare(self, files, threads):
        """What workers are told, with all files made."""
        raise NotImplementedError

    def ours(self, programs, work):
        raise NotImplementedError

    def others(self, programs, work):
        """{name: contender}, for what no peer of programs/ does."""
        return {}

    def compare(self, ours, theirs, work):
        """{name: {"difference", "bound"}} for each that is compared; bound None: it is not judged. Raises Disagreement."""
        return {}

    def amount(self, work):
        return None

    def preparing_seconds(self):
        """A guess of what comes before turns, beside what every row takes."""
        return 0


# ---------------------------------------------------------------- text


@dataclass
class Text(Work):
    model: str = ""
    type: str = ""
    prompt: int = 64

    def shape(self):
        return model_files.SHAPES[self.model]

    def work(self, files, threads, **more):
        return {"kind": self.kind, "threads": threads, "path": str(files.text(self.model, self.type)), "type": self.type,
                "prompt": self.prompt, "cache": str(files.folder), **more}

    def preparing_seconds(self):
        return model_files.guessed_weight_bytes(self.shape(), self.type) / 3e8  # PyTorch's file is converted

    def compare(self, ours, theirs, work):
        steps = 3 if self.kind == "decode" else 0
        answer, logits = ours.output(f"logits {self.prompt} {steps}")
        others = {name: read_numbers(peer.output(answer["tokens"])) for name, peer in theirs.items()}
        if self.type in CLOSE:
            return {name: judge(name, difference(logits, found), max(CLOSE[self.type], CLOSE.get(theirs[name].keeps, 0)))
                    for name, found in others.items()}
        exact = reference.logits(Path(work["cache"]), work["path"], answer["tokens"])
        return {"ballast": judge("ballast", difference(logits, exact), CLOSE_QUANTISED),
                **{name: {"difference": difference(found, exact), "bound": None} for name, found in others.items()}}


@dataclass
class Decode(Text):
    steps: int = 32
    kind: ClassVar[str] = "decode"
    limit: ClassVar[tuple] = ("read",)

    @property
    def title(self):
        return f"{self.model} {self.type}, decode after {self.prompt} tokens"

    @property
    def variant(self):
        return f"{self.steps} steps"

    def prepare(self, files, threads):
        return self.work(files, threads, steps=self.steps)

    def ours(self, programs, work):
        return ballast.Model(programs, work, f"decode {self.prompt} {self.steps}")

    def amount(self, work):
        context = self.prompt + self.steps / 2
        return model_files.weight_bytes_of_step(work["path"]) + model_files.cache_bytes_of_step(self.shape(), context)

    def seconds(self):
        size = model_files.guessed_weight_bytes(self.shape(), self.type)
        return self.steps * (size + model_files.cache_bytes_of_step(self.shape(), self.prompt)) / 8e9

    def preparing_seconds(self):
        """Everyone reads the prompt to begin with and to be compared."""
        return super().preparing_seconds() + 6 * model_files.flop_of_prompt(self.shape(), self.prompt) / 3e11


@dataclass
class BudgetDecode(Decode):
    """Beside itself without a budget."""
    percent: int = 50
    NO_BUDGET: ClassVar[str] = "ballast without a budget"

    @property
    def title(self):
        return f"{self.model} {self.type}, decode within a budget of {self.percent} %"

    def prepare(self, files, threads):
        return {**super().prepare(files, threads), "kind": "budget"}

    def ours(self, programs, work):
        return ballast.Model(programs, work, f"decode {self.prompt} {self.steps}", self.percent)

    def others(self, programs, work):
        return {self.NO_BUDGET: super().ours(programs, work)}

    def compare(self, ours, theirs, work):
        command = f"logits {self.prompt} 3"
        numbers = ours.output(command)[1]
        return {name: judge_equal(name, numbers, peer.output(command)[1]) for name, peer in theirs.items()}


@dataclass
class Prefill(Text):
    kind: ClassVar[str] = "prefill"

    @property
    def title(self):
        return f"{self.model} {self.type}, prompt of {self.prompt} tokens"

    @property
    def items(self):
        return self.prompt

    @property
    def limit(self):
        return TILES.get(self.type, TILES_QUANTISED)

    def prepare(self, files, threads):
        return self.work(files, threads)

    def ours(self, programs, work):
        return ballast.Model(programs, work, f"prefill {self.prompt}")

    def amount(self, work):
        return model_files.flop_of_prompt(self.shape(), self.prompt)

    def seconds(self):
        return model_files.flop_of_prompt(self.shape(), self.prompt) / 1.5e11


@dataclass
class FirstToken(Text):
    """Of a fresh process, beside a later one."""
    kind: ClassVar[str] = "first token"
    prompt: int = 1
    LATER: ClassVar[str] = "a later token"

    @property
    def title(self):
        return f"{self.model} {self.type}, loading and first token in a fresh process"

    def prepare(self, files, threads):
        return self.work(files, threads)

    def ours(self, programs, work):
        return ballast.FirstAnswer(programs, work, f"prefill {self.prompt}")

    def others(self, programs, work):
        return {self.LATER: ballast.Model(programs, work, f"prefill {self.prompt}")}

    def compare(self, ours, theirs, work):
        return {}

    def preparing_seconds(self):
        return 0

    def seconds(self):
        return 0.5


# ---------------------------------------------------------------- images

NETWORKS = {"ResNet34": "resnet34", "MobileNetV2": "mobilenet_v2"}


@dataclass
class Image(Work):
    name: str = ""
    type: str = "f32"
    batch: int = 1
    kind: ClassVar[str] = "image"
    unit: ClassVar[str] = "images/s"

    @property
    def title(self):
        return f"{self.name} {self.type}, {'1 image' if self.batch == 1 else f'{self.batch} images'} of 224 x 224"

    @property
    def items(self):
        return self.batch

    @property
    def limit(self):
        return TILES[self.type]

    def prepare(self, files, threads):
        made = files.image(NETWORKS[self.name], self.type)
        return {"kind": self.kind, "threads": threads, "network": NETWORKS[self.name], "type": self.type, "batch": self.batch,
                "path": made["model"], **made}

    def ours(self, programs, work):
        return ballast.Model(programs, work, f"images {work['pixels']} {self.batch}")

    def compare(self, ours, theirs, work):
        logits = ours.output(f"classes {work['pixels']} {self.batch}")[1]
        return {name: judge(name, difference(logits, read_numbers(peer.output())), CLOSE[self.type])
                for name, peer in theirs.items()}

    def amount(self, work):
        return work["flop"] * self.batch

    def seconds(self):
        return 0.2 * self.batch


@dataclass
class FirstImage(Image):
    """Of a fresh process, beside a later one."""
    kind: ClassVar[str] = "first image"
    limit: ClassVar[tuple] = ()
    LATER: ClassVar[str] = "a later image"

    @property
    def title(self):
        return f"{self.name} {self.type}, loading and first image in a fresh process"

    def ours(self, programs, work):
        return ballast.FirstAnswer(programs, work, f"images {work['pixels']} 1")

    def others(self, programs, work):
        return {self.LATER: super().ours(programs, work)}

    def compare(self, ours, theirs, work):
        return {}


# ---------------------------------------------------------------- training


@dataclass
class TrainingStep(Work):
    title: str = ""
    steps_of: str = ""  # the name that training_bench has for it
    count: int = 5  # steps in a turn
    flop: float = 0
    examples: int = 1
    first_loss: float = 0  # that of guessing
    kind: ClassVar[str] = "training"
    built: ClassVar[tuple] = ("training_bench",)

    @property
    def variant(self):
        return f"{self.count} steps"

    @property
    def unit(self):
        return "tokens/s" if self.steps_of.startswith("gpt") else "images/s"

    @property
    def items(self):
        return self.examples

    @property
    def limit(self):
        return TILES["bf16" if self.steps_of.endswith("-bf16") else "f32"]

    def prepare(self, files, threads):
        return {"kind": self.kind, "threads": threads, "steps_of": self.steps_of, "count": self.count,
                "weights": str(files.first_weights(self.steps_of))}

    def ours(self, programs, work):
        return ballast.EachTime([programs["training_bench"], self.steps_of, "--threads", work["threads"], "--steps", self.count])

    def compare(self, ours, theirs, work):
        """A model that has learnt nothing guesses. From there on everyone has the same weights and the same batch, so that
        losses differ by roundings alone: steps multiply those, but one that is wrong moves a loss by as much as it moves."""
        losses = ours.output()["losses"]
        # Logits that are not zero add half of their variance.
        guessing = judge("ballast", abs(losses[0] / self.first_loss - 1), 0.25)
        bound = CLOSE_LOSSES["bf16" if self.steps_of.endswith("-bf16") else "f32"]
        return {"ballast beside guessing": guessing,
                **{name: judge(name, self.distance(losses, peer.output()), bound) for name, peer in theirs.items()}}

    @staticmethod
    def distance(ours, theirs):
        """The largest difference of the first losses, in parts of the farthest that theirs went."""
        moved = max(abs(loss - theirs[0]) for loss in theirs)
        return max(abs(a - b) for a, b in zip(ours[:len(theirs)], theirs, strict=True)) / moved

    def amount(self, work):
        return self.flop

    def seconds(self):
        return self.flop * (self.count + 3) / 5e10 + 0.5


# ---------------------------------------------------------------- tokenizers


@dataclass
class Tokenize(Work):
    vocabulary: str = ""
    text: str = ""  # "prose" or "code"
    size: int = 2 << 20
    kind: ClassVar[str] = "tokenizer"
    built: ClassVar[tuple] = ("tokenizer_bench",)
    unit: ClassVar[str] = "MiB/s"
    text_bytes: float = field(default=0, init=False)

    @property
    def title(self):
        return f"tokenizer, {self.vocabulary} vocabulary, {self.text}"

    @property
    def items(self):
        return self.text_bytes / 2**20

    def prepare(self, files, threads):
        text = files.text_file(self.text, self.size)
        self.text_bytes = text.stat().st_size
        return {"kind": self.kind, "threads": 1, "vocabulary": str(files.vocabulary(self.vocabulary)),
                "parts": str(files.vocabulary_parts(self.vocabulary)), "pattern": self.vocabulary, "text": str(text)}

    def ours(self, programs, work):
        return ballast.EachTime([programs["tokenizer_bench"], work["vocabulary"], work["text"], 3])

    def compare(self, ours, theirs, work):
        """The same tokens, by their digest."""
        digest = ours.output()["digest"]
        for name, peer in theirs.items():
            if peer.output() != digest:
                raise Disagreement(f"{name} gives other tokens")
        return {name: {"difference": 0, "bound": 0} for name in theirs}

    def seconds(self):
        return 1


# ---------------------------------------------------------------- storage


DD = "dd iflag=direct"


@dataclass
class Storage(Work):
    """Files of one program beside those of another: all run once for each turn."""
    title: str = ""
    file: str = ""
    ours_words: tuple = ()
    peer_words: dict = field(default_factory=dict)
    cold: bool = False
    size_mib: int = 1024
    kind: ClassVar[str] = "storage"

    @property
    def built(self):
        return ("ballast",) if self.ours_words[0] == "ballast" else ("ballast_bench",)

    @property
    def needs_crate(self):
        return any(words[0] == "crate" for words in self.peer_words.values())

    @property
    def unit(self):
        return "GB/s" if self.file == "large.safetensors" else "files/s"

    @property
    def items(self):
        return self.size_mib * 2**20 / 1e9 if self.unit == "GB/s" else 1

    def prepare(self, files, threads):
        return {"kind": self.kind, "threads": threads, "folder": str(files.storage(self.size_mib))}

    def contender(self, programs, work, words):
        path = Path(work["folder"]) / self.file
        places = {"FILE": path, "THREADS": work["threads"], "ballast": programs["ballast"], "bench": programs["ballast_bench"]}
        program = programs.crate if words[0] == "crate" else places.get(words[0], words[0])
        rest = [str(places.get(word, word)).replace("FILE", str(path)) for word in words[1:]]
        return ballast.EachTime([program, *rest], lambda: make_cold(path) if self.cold else None,
                                whole_process=words[0] not in ("bench", "crate"))

    def ours(self, programs, work):
        return self.contender(programs, work, self.ours_words)

    def others(self, programs, work):
        return {name: self.contender(programs, work, words) for name, words in self.peer_words.items()}

    def compare(self, ours, theirs, work):
        """Sums and counts, of those that have one."""
        result = ours.output().get("result") if not ours.whole_process else None
        checked = {}
        for name, peer in theirs.items():
            if result is None or peer.whole_process:
                continue
            if peer.output()["result"] != result:
                raise Disagreement(f"{name} gives {peer.output()['result']}, not {result}")
            checked[name] = {"difference": 0, "bound": 0}
        return checked

    def seconds(self):
        return 1.5


YARDSTICKS = (BudgetDecode.NO_BUDGET, FirstToken.LATER, FirstImage.LATER, DD)  # what is compared with, and is no peer
