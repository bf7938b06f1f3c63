"""Rounds in which everyone has a turn, and results that stay: a run that was cut off goes on where it was."""
import json, os, re, statistics, subprocess, sys, time
from dataclasses import dataclass
from pathlib import Path

from environment import CannotRun, key_of, machine
from llama_source import llama_key

from .disturbance import MOST_OF_A_CORE, Disturbed, Watch
from .kinds import Disagreement, Work
from .programs import PEERS
from .rust_program import crate_key
from .worker import PeerWorker, WorkerFailed

ROOT = Path(__file__).resolve().parents[2]
OURS = "ballast"
NO_PROGRAMS = ("limit", "others")  # what a round has beside turns
SETTING_TURNS = 3
HOPELESS = 1.3  # a setting that is slower by this factor gets no further turn
BUILT = ("ballast", "ballast_bench", "machine_limits", "model_worker", "tokenizer_bench", "training_bench")


def say(text):
    print(f"bench_peers: {text}", file=sys.stderr, flush=True)


@dataclass
class Row:
    kind: Work
    threads: int

    def title(self):
        return self.kind.title

    def slug(self):
        return re.sub(r"[^a-z0-9]+", "-", f"{self.kind.title} {self.kind.variant} {self.threads}".lower()).strip("-")

    def words(self):
        return f"{self.kind.title}, {self.threads} threads".lower()


class Result:
    """What was measured of a row: medians of the rounds."""

    def __init__(self, row, record):
        self.row, self.record = row, record

    def milliseconds(self, name=OURS):
        return statistics.median(turns[name]["ms"] for turns in self.record["rounds"])

    def spread(self, name=OURS):
        """(best, worst)"""
        found = [turns[name]["ms"] for turns in self.record["rounds"]]
        return min(found), max(found)

    def rate(self, name=OURS):
        return self.record["items"] / self.milliseconds(name) * 1e3

    def peers(self):
        return [name for name in self.record["rounds"][0] if name not in (OURS, *NO_PROGRAMS)]

    def best_peer(self):
        return max(self.peers(), key=self.rate, default=None)

    def limit(self):
        """(name, per second), or None"""
        if not self.record.get("limit") or not self.record.get("amount"):
            return None
        return self.record["limit"], statistics.median(turns["limit"]["per_s"] for turns in self.record["rounds"])

    def share(self):
        limit = self.limit()
        return self.record["amount"] / (self.milliseconds() / 1e3) / limit[1] if limit else None

    def verdict(self):
        return self.row.kind.target(self) if self.row.kind.target else ("", "", None)


def everything_that_measures(programs, requirements):
    """What results depend on: programs, peers, this harness with what makes its models and texts, and the processor."""
    scripts = [*(ROOT / "bench").glob("*.py"), *(ROOT / "bench/peers").rglob("*.py"), *(ROOT / "tests/interop").glob("*.py")]
    return [*(programs[name] for name in BUILT), *requirements, *sorted(scripts), llama_key().encode(), crate_key().encode(),
            json.dumps(machine()).encode()]


class Records:
    """A file for each row, written after each round. Rows measured with other programs are measured again, and so are,
    where only quiet ones count, rounds in which others used the machine."""

    def __init__(self, folder, programs, requirements, only_quiet):
        self.folder, self.only_quiet = folder, only_quiet
        folder.mkdir(parents=True, exist_ok=True)
        self.key = key_of(*everything_that_measures(programs, requirements))

    def path(self, row):
        return self.folder / f"{row.slug()}.json"

    def load(self, row):
        try:
            record = json.loads(self.path(row).read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            record = {}
        if record.get("programs") != self.key:
            record = {"programs": self.key, "title": row.title(), "threads": row.threads, "rounds": [], "settings": {}}
        if self.only_quiet:
            record["rounds"] = [turns for turns in record["rounds"] if is_quiet(turns)]
        return record

    def store(self, row, record):
        path = self.path(row)
        unfinished = path.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(record, indent=1) + "\n")
        os.replace(unfinished, path)


def is_quiet(turns):
    return turns["others"]["cores"] <= MOST_OF_A_CORE


class Measuring:
    def __init__(self, programs, files, records, rounds):
        self.programs, self.files, self.records, self.rounds = programs, files, records, rounds
        self.without = {}  # limits that this machine does not have

    def limit(self, names, threads):
        """(name, per second) of the first of these limits that the machine has."""
        for name in names:
            if name in self.without:
                continue
            words = [self.programs["machine_limits"], threads, name]
            done = subprocess.run(list(map(str, words)), check=True, stdout=subprocess.PIPE, text=True)
            found = json.loads(done.stdout)[name]
            if found:
                return name, found
            self.without[name] = True
        return None

    def open_peer(self, peer, work, known):
        """With the fastest of its settings, or the one that an earlier round had; warm."""
        settings = [known] if known in peer.settings else peer.settings
        best, least = None, float("inf")
        for setting in settings:
            worker = None
            try:
                worker = PeerWorker(peer, work, setting)
                worker.turn()
                milliseconds = self.best_turn(worker, least) if len(settings) > 1 else 0
            except BaseException:
                self.close_all([c for c in (worker, best) if c])
                raise
            if milliseconds < least:
                worker, best, least = best, worker, milliseconds
            if worker:
                worker.close()
        return best

    @staticmethod
    def best_turn(worker, to_beat):
        """Of a few; of one where that is far too slow."""
        least = float("inf")
        for _ in range(SETTING_TURNS):
            least = min(least, worker.turn()["ms"])
            if least > HOPELESS * to_beat:
                break
        return least

    def open_all(self, row, work, record):
        contenders = {}
        try:
            contenders[OURS] = row.kind.ours(self.programs, work)
            contenders[OURS].turn()
            for name, other in row.kind.others(self.programs, work).items():
                contenders[name] = other
                other.turn()
            for peer in PEERS:
                if peer.takes(work):
                    contenders[peer.name] = self.open_peer(peer, work, record["settings"].get(peer.name))
        except BaseException:
            self.close_all(contenders.values())
            raise
        return contenders

    @staticmethod
    def close_all(contenders):
        for contender in contenders:
            contender.close()

    def take_turns(self, row, contenders, record):
        """Another one begins each round. Where only quiet rounds count, others are taken again, as often as there are rounds."""
        names, disturbed = list(contenders), 0
        while len(record["rounds"]) < self.rounds:
            watch = Watch(c.process.pid for c in contenders.values() if hasattr(c, "process"))
            first = len(record["rounds"]) % len(names)
            turns = {name: contenders[name].turn() for name in names[first:] + names[:first]}
            turns = {name: turns[name] for name in names}
            limit = self.limit(row.kind.limit, row.threads)
            if limit:
                record["limit"], turns["limit"] = limit[0], {"per_s": limit[1]}
            turns["others"] = {"cores": watch.cores_of_others()}
            if self.records.only_quiet and not is_quiet(turns):
                disturbed += 1
                if disturbed > self.rounds:
                    raise Disturbed(f"others used {turns['others']['cores']:.2f} cores, and did in {disturbed} rounds")
                continue
            record["rounds"].append(turns)
            self.records.store(row, record)

    def measure(self, row):
        """The Result of a row, measured as far as it was not; raises one of FAILURES."""
        record = self.records.load(row)
        work = row.kind.prepare(self.files, row.threads)
        if len(record["rounds"]) < self.rounds:
            start = time.monotonic()
            contenders = self.open_all(row, work, record)
            try:
                record["settings"] = {name: c.setting for name, c in contenders.items() if c.setting}
                theirs = {name: c for name, c in contenders.items() if name != OURS}
                record["agreement"] = row.kind.compare(contenders[OURS], theirs, work)
                record["items"], record["amount"] = row.kind.items, row.kind.amount(work)
                record["date"] = time.strftime("%Y-%m-%d")
                self.take_turns(row, contenders, record)
            finally:
                self.close_all(contenders.values())
            record["seconds"] = record.get("seconds", 0) + time.monotonic() - start
            self.records.store(row, record)
        return Result(row, record)


FAILURES = (Disagreement, Disturbed, WorkerFailed, CannotRun, subprocess.CalledProcessError)


class Run:
    """Rows one after the other, with what is left said; a row that fails does not end the others."""

    def __init__(self, measuring, rows):
        self.measuring, self.rows, self.failures = measuring, rows, []

    def guess(self, row):
        """Seconds of what of a row is left to do."""
        record = self.measuring.records.load(row)
        left = max(0, self.measuring.rounds - len(record["rounds"]))
        if left == 0:
            return 0
        seconds = row.kind.seconds() / min(row.threads, 8) + 0.5  # the half is that of a limit
        # Starting everyone; Ballast and two others; warming up, choosing settings and comparing.
        return 10 + row.kind.preparing_seconds() + seconds * 3 * (left + 4)

    def results(self):
        guesses = [self.guess(row) for row in self.rows]
        say(f"{len(self.rows)} rows, {sum(g == 0 for g in guesses)} of them measured before; "
            f"{self.measuring.rounds} rounds each; about {sum(guesses) / 60:.0f} minutes (a first guess), and the time to make "
            "what is missing in the cache")
        spent = guessed = 0
        found = []
        for i, row in enumerate(self.rows):
            start = time.monotonic()
            try:
                result = self.measuring.measure(row)
            except FAILURES as error:
                self.failures.append((row, str(error)))
                say(f"[{i + 1}/{len(self.rows)}] FAILED: {row.words()}: {error}")
                continue
            found.append(result)
            if guesses[i]:
                spent, guessed = spent + time.monotonic() - start, guessed + guesses[i]
            left = sum(guesses[i + 1:]) * (spent / guessed if guessed else 1)
            say(f"[{i + 1}/{len(self.rows)}] {row.words()}: {self.summary(result)}; {left / 60:.0f} minutes left")
        return found

    @staticmethod
    def summary(result):
        unit = result.row.kind.unit
        parts = [f"{result.rate():.4g} {unit}"]
        if best := result.best_peer():
            parts.append(f"{best} {result.rate(best):.4g} ({result.rate() / result.rate(best):.2f} x)")
        if (share := result.share()) is not None:
            parts.append(f"{share:.0%} of {result.limit()[0]}")
        text, _, met = result.verdict()
        if met is not None:
            parts.append(f"{text}: {'met' if met else 'MISSED'}")
        if not all(map(is_quiet, result.record["rounds"])):
            parts.append("others used the machine")
        return ", ".join(parts)
