"""Rounds in which everyone has a turn."""
import json, re, statistics, subprocess, sys, time
from dataclasses import dataclass

from environment import CannotRun

from .disturbance import Disturbed, Watch
from .kinds import Disagreement, Work
from .programs import PEERS
from .records import is_quiet
from .worker import PeerWorker, WorkerFailed

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
        """As it is shown."""
        return f"{self.kind.title}, {self.threads} threads".lower()

    def matches(self, words):
        """Those of what is shown, or the name of its kind."""
        return all(word.lower() in f"{self.kind.kind}: {self.words()}" for word in words)


class Result:
    """What was measured of a row: medians of the rounds."""

    def __init__(self, row, record, of_this_build=True):
        self.row, self.record, self.of_this_build = row, record, of_this_build

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

    def open_peer(self, peer, work, known, turns):
        """With the fastest of its settings, by the best of so many turns, or the one that an earlier round had; warm."""
        settings = [known] if known in peer.settings else peer.settings
        best, least = None, float("inf")
        for setting in settings:
            worker = None
            try:
                worker = PeerWorker(peer, work, setting)
                milliseconds = worker.turn()["ms"]
                if len(settings) > 1 and turns:
                    milliseconds = self.best_turn(worker, least, turns)
            except BaseException:
                self.close_all([c for c in (worker, best) if c])
                raise
            if milliseconds < least:
                worker, best, least = best, worker, milliseconds
            if worker:
                worker.close()
        return best

    @staticmethod
    def best_turn(worker, to_beat, turns):
        """Of a few; of one where that is far too slow."""
        least = float("inf")
        for _ in range(turns):
            least = min(least, worker.turn()["ms"])
            if least > HOPELESS * to_beat:
                break
        return least

    def open_all(self, row, work, record, turns=SETTING_TURNS):
        contenders = {}
        try:
            contenders[OURS] = row.kind.ours(self.programs, work)
            contenders[OURS].turn()
            for name, other in row.kind.others(self.programs, work).items():
                contenders[name] = other
                other.turn()
            for peer in PEERS:
                if peer.takes(work):
                    contenders[peer.name] = self.open_peer(peer, work, record["settings"].get(peer.name), turns)
        except BaseException:
            self.close_all(contenders.values())
            raise
        return contenders

    @staticmethod
    def close_all(contenders):
        for contender in contenders:
            contender.close()

    def round_of(self, row, contenders, record, number):
        """Everyone's turn, the limit, and what others used; another one begins each round."""
        names = list(contenders)
        watch = Watch(c.process.pid for c in contenders.values() if hasattr(c, "process"))
        first = number % len(names)
        turns = {name: contenders[name].turn() for name in names[first:] + names[:first]}
        turns = {name: turns[name] for name in names}
        limit = self.limit(row.kind.limit, row.threads)
        if limit:
            record["limit"], turns["limit"] = limit[0], {"per_s": limit[1]}
        turns["others"] = {"cores": watch.cores_of_others()}
        return turns

    def take_turns(self, row, contenders, record):
        """Where only quiet rounds count, others are taken again, as often as there are rounds."""
        disturbed = 0
        while len(record["rounds"]) < self.rounds:
            turns = self.round_of(row, contenders, record, len(record["rounds"]))
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
        if len(record["rounds"]) < self.rounds:
            start = time.monotonic()
            try:
                self.measure_rounds(row, record)
            except Disagreement as error:
                self.records.store(row, {**record, "rounds": [], "failed": str(error)})
                raise
            record["seconds"] = record.get("seconds", 0) + time.monotonic() - start
            self.records.store(row, record)
        return Result(row, record)

    def measure_rounds(self, row, record):
        record.pop("failed", None)
        work = row.kind.prepare(self.files, row.threads)
        contenders = self.open_all(row, work, record)
        try:
            record["settings"] = {name: c.setting for name, c in contenders.items() if c.setting}
            record["agreement"] = self.compare(row, contenders, work)
            record["items"], record["amount"] = row.kind.items, row.kind.amount(work)
            self.take_turns(row, contenders, record)
        finally:
            self.close_all(contenders.values())

    @staticmethod
    def compare(row, contenders, work):
        return row.kind.compare(contenders[OURS], {name: c for name, c in contenders.items() if name != OURS}, work)

    def check(self, row):
        """Makes what a row needs, starts everyone with each setting for a turn and compares; keeps nothing."""
        work = row.kind.prepare(self.files, row.threads)
        contenders = self.open_all(row, work, {"settings": {}}, turns=0)
        try:
            record = {"settings": {}, "agreement": self.compare(row, contenders, work), "items": row.kind.items,
                      "amount": row.kind.amount(work)}
            record["rounds"] = [self.round_of(row, contenders, record, 0)]
        finally:
            self.close_all(contenders.values())
        return Result(row, record)


FAILURES = (Disagreement, Disturbed, WorkerFailed, CannotRun, subprocess.CalledProcessError)


def kept_results(records, rows, rounds):
    """(Results of what is measured, [(row, why it is not)])."""
    found, missing = [], []
    for row in rows:
        record = records.read(row)
        if record and len(record["rounds"]) >= rounds:
            found.append(Result(row, record, records.is_current(row, record)))
        else:
            missing.append((row, record.get("failed", "") if record else ""))
    return found, missing


def guessed_seconds(row, rounds):
    """Of so many rounds of a row."""
    if rounds <= 0:
        return 0
    seconds = row.kind.seconds() / min(row.threads, 8) + 0.5  # the half is that of a limit
    # Starting everyone; Ballast and two others; warming up, choosing settings and comparing.
    return 10 + row.kind.preparing_seconds() + seconds * 3 * (rounds + 4)


class Run:
    """Rows one after the other, with what is left said; a row that fails does not end the others."""

    def __init__(self, measuring, rows, minutes=None):
        """Within so many minutes, what another build measured comes last."""
        self.measuring, self.failures = measuring, []
        self.rows = rows if minutes is None else sorted(rows, key=measuring.records.is_of_other_build)
        self.end = None if minutes is None else time.monotonic() + 60 * minutes

    def guess(self, row):
        """Seconds of what of a row is left to do."""
        return guessed_seconds(row, self.measuring.rounds - len(self.measuring.records.load(row)["rounds"]))

    def fits(self, seconds):
        return self.end is None or time.monotonic() + seconds <= self.end

    def measure(self):
        guesses = [self.guess(row) for row in self.rows]
        say(f"{len(self.rows)} rows, {sum(g == 0 for g in guesses)} of them measured before; "
            f"{self.measuring.rounds} rounds each; about {sum(guesses) / 60:.0f} minutes (a first guess), and the time to make "
            "what is missing in the cache")
        spent = guessed = 0
        for i, row in enumerate(self.rows):
            start, pace = time.monotonic(), spent / guessed if guessed else 1
            if not guesses[i] or not self.fits(guesses[i] * pace) or (result := self.result(i, row)) is None:
                continue
            spent, guessed = spent + time.monotonic() - start, guessed + guesses[i]
            left = sum(guesses[i + 1:]) * spent / guessed
            self.say_of(i, f"{row.words()}: {self.summary(result)}; {left / 60:.0f} minutes left")

    def say_of(self, i, text):
        say(f"[{i + 1}/{len(self.rows)}] {text}")

    def result(self, i, row, checks=False):
        try:
            return self.measuring.check(row) if checks else self.measuring.measure(row)
        except FAILURES as error:
            self.failures.append((row, str(error)))
            self.say_of(i, f"FAILED: {row.words()}: {error}")
            return None

    def check(self):
        """Whether rows can be measured, and agree; their times mean nothing."""
        for i, row in enumerate(self.rows):
            start = time.monotonic()
            if (result := self.result(i, row, checks=True)) is not None:
                apart = ", ".join(f"{name} {found['difference']:.2g}" for name, found in result.record["agreement"].items())
                self.say_of(i, f"{row.words()}: {self.summary(result)}; differences: {apart or 'none'}; "
                               f"{time.monotonic() - start:.0f} s")

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
