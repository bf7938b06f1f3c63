"""The rows of the table on structured output: what a constraint costs, Ballast beside llguidance.

Both have SmolLM2's vocabulary and the same texts in the same tokens. A turn is a process; RUNS times, it compiles the form
and follows two texts with it: the first text of a constraint, and a later one, for which Ballast has kept masks and
llguidance the states of its lexer (`reset`). At every place of a text, the mask of all tokens is computed into memory that is
there already, then the token is taken. llguidance is called through its Python module, which adds about half a microsecond
to each of its times; Ballast is called from C++. For schemas, llguidance has its own slices for JSON.
"""
import json, statistics, subprocess, sys, tempfile
from pathlib import Path

from published_table import lines_of
from report import short
from storage import Row, judged
from structured_cases import cases

RUNS = 5
PASSES = {"first": "first text", "later": "later text"}


def share_of(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


class Form(Row):
    """One form. Times are those of a mask in the first text, in ms; everything else is in `turns`."""

    def __init__(self, number, case, programs):
        super().__init__(case.name, {"ballast": programs.ours, "llguidance": programs.peer}, self.judge)
        self.number, self.case, self.turns = number, case, {}

    def round(self):
        for name, turn in self.contenders.items():
            result = turn(self)
            self.turns.setdefault(name, []).append(result)
            self.times.setdefault(name, []).extend(us / 1e3 for us in result["first"]["mask_us"])

    def conclude(self):
        super().conclude()
        for name, result in self.results.items():
            masks = {f"{which}_mask_us": self.masks(name, which) for which in PASSES}
            result.update(compile_ms=self.compile_ms(name), advance_us=self.advance(name), **masks)

    @property
    def ids(self):
        """The tokens of the text: Ballast, which finds them, has the first turn."""
        return [self.turns["ballast"][0][which]["tokens"] for which in PASSES]

    def compile_ms(self, name):
        return statistics.median(ms for turn in self.turns[name] for ms in turn["compile_ms"])

    def masks(self, name, which):
        """Median, p99 and worst in us, each of the turn in which it was least."""
        turns = [turn[which]["mask_us"] for turn in self.turns[name]]
        return [min(measure(times) for times in turns) for measure in (statistics.median, lambda t: share_of(t, 0.99), max)]

    def median(self, name, which, times):
        return min(statistics.median(turn[which][times]) for turn in self.turns[name])

    def advance(self, name):
        return self.median(name, "first", "advance_us")

    def judge(self, _):
        ours, peer = (self.masks(name, "first")[0] + self.advance(name) for name in ("ballast", "llguidance"))
        return judged("first text, mask and token: at most 1 x llguidance", f"{ours / peer:.2f} x", ours <= peer)


class Line:
    """What the table says of one program."""

    def __init__(self, row, name):
        self.row, self.name = row, name

    def cells(self):
        is_ours = self.name == "ballast"
        _, reached, met = self.row.verdict()
        rule = short(self.row.median(self.name, "first", "rule_us")) if is_ours else ""
        masks = [short(us) for which in PASSES for us in self.row.masks(self.name, which)]
        return [f"{self.row.work}, {len(self.row.ids[0])} tokens" if is_ours else "", f"**{self.name}**" if is_ours else self.name,
                short(self.row.compile_ms(self.name)), *masks, short(self.row.advance(self.name)), rule,
                f"{'met' if met else '**missed**'}: {reached}" if is_ours else ""]


def smollm2_tokenizer(program, folder):
    """The vocabulary in the file of SmolLM2, written as a tokenizer.json, which both programs read."""
    kept = folder / "smollm2_tokenizer.json"
    if not kept.exists():
        model = subprocess.run([program, "get", "smollm2"], check=True, capture_output=True, text=True).stdout.strip()
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            subprocess.run([program, "convert", "--quiet", "--dequantize", "bf16", model, f"{temporary}/model/"],
                           check=True, stdout=subprocess.DEVNULL)
            (Path(temporary) / "model/tokenizer.json").rename(kept)
    return kept


class Structured:
    """The rows; `folder` is for the files of a run."""

    def __init__(self, folder, tokenizer, mask_bench):
        self.folder, self.tokenizer, self.mask_bench = Path(folder), tokenizer, mask_bench

    def rows(self):
        for number, case in enumerate(cases()):
            yield Form(number, case, self)

    def ours(self, row):
        paths = [self.folder / name for name in ("form", *PASSES)]
        for path, text in zip(paths, (row.case.form, *row.case.texts)):
            path.write_text(text)
        return self.turn(self.mask_bench, self.tokenizer, row.case.kind, *paths, RUNS)

    def peer(self, row):
        peer = Path(__file__).resolve().parent / "structured_peer.py"
        return self.turn(sys.executable, "-B", peer, self.tokenizer, row.number, json.dumps(row.ids), RUNS)

    @staticmethod
    def turn(*words):
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{Path(words[0]).name}: {done.stderr.strip()}")
        return json.loads(done.stdout)


COLUMNS = ("form", "program", "compile, ms", *(f"{name}: {what}" for name in PASSES.values() for what in
                                               ("median us", "p99", "worst")), "taking a token, us", "all with logits, us", "target: at most 1 x")


def table(rows):
    return "\n".join(lines_of(COLUMNS, [Line(row, name) for row in rows for name in row.turns])) + "\n"
