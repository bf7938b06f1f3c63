"""The results as a table in Markdown and as bars."""
import statistics

from environment import machine

from . import drawing
from .kinds import YARDSTICKS

COLUMNS = ("work", "threads", "ballast", "compared with", "ratio", "share of the limit", "target", "reached", "measured")


def rounded(number):
    return f"{number:,.0f}" if number >= 100 else f"{number:.1f}" if number >= 10 else f"{number:.2f}"


def measured(result):
    return f"{result.record['date']}, {result.record['commit']}{'' if result.of_this_build else ' (earlier build)'}"


def cells(result):
    unit, best, limit = result.row.kind.unit, result.best_peer(), result.limit()
    target, reached, met = result.verdict()
    setting = result.record["settings"].get(best, "")
    named = best if not setting or len(setting) < 2 else f"{best} ({setting})"
    return [result.row.title(), str(result.row.threads), f"**{rounded(result.rate())}** {unit}",
            f"{rounded(result.rate(best))} {named}" if best else "", f"{result.rate() / result.rate(best):.2f}" if best else "",
            f"{result.share():.0%} of {limit[0]}" if limit else "", target,
            "" if met is None else f"{'met' if met else '**missed**'}: {reached}", measured(result)]


LIMITS = {"read": "memory reads, GB/s", "f32": "f32 multiply-adds, GFLOP/s", "vnni": "int8 dot products (VNNI), GOP/s",
          "amx-bf16": "AMX bf16, GFLOP/s", "amx-int8": "AMX int8, GOP/s"}


def limit_lines(results):
    """Medians of all rounds that measured them."""
    found = {}
    for result in results:
        if result.limit():
            rounds = [turns["limit"]["per_s"] for turns in result.record["rounds"]]
            found.setdefault(result.limit()[0], {}).setdefault(result.row.threads, []).extend(rounds)
    numbers = sorted({threads for by_threads in found.values() for threads in by_threads})
    lines = ["| limit of this machine | " + " | ".join(f"{n} threads" for n in numbers) + " |", "|---" * (len(numbers) + 1) + "|"]
    for name in (name for name in LIMITS if name in found):
        values = (f"{statistics.median(found[name][n]) / 1e9:,.1f}" if n in found[name] else "" for n in numbers)
        lines.append(f"| {LIMITS[name]} | " + " | ".join(values) + " |")
    return lines if found else []


def distance_lines(results):
    """How far quantised rows are from f32, the largest of each type of weights."""
    worst = {}
    for result in results:
        agreement = result.record.get("agreement", {})
        if any(found["bound"] is None for found in agreement.values()):
            for name, found in agreement.items():
                by_name = worst.setdefault((result.row.kind.model, result.row.kind.type), {})
                by_name[name] = max(by_name.get(name, 0), found["difference"])
    names = sorted({name for by_name in worst.values() for name in by_name})
    lines = ["Largest distances of logits from f32 arithmetic on the same quantised weights, in deviations of the logits:", "",
             "| weights | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for key, by_name in worst.items():
        lines.append(f"| {' '.join(key)} | " + " | ".join(f"{by_name[n]:.2g}" if n in by_name else "" for n in names) + " |")
    return [*lines, ""] if worst else []


def missing_lines(missing):
    """[(row, why)] of what a table does not have."""
    if not missing:
        return []
    return [f"Not measured yet, {len(missing)} rows:", "",
            *(f"- {row.title()}, {row.threads} threads" + (f" (failed: {why})" if why else "") for row, why in missing), ""]


def dates_of(results):
    dates = sorted({result.record["date"] for result in results})
    return dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"


def table(results, missing, rounds):
    lines = missing_lines(missing)
    if not results:
        return "\n".join(lines) + "\n"
    found = machine()
    head = [f"Measured on {dates_of(results)}: {found['cpu']}, {found['cores']} cores, Linux {found['system']}; medians of "
            f"{rounds} rounds or more. The last column names the commit of the programs."]
    if not all(result.of_this_build for result in results):
        head.append("An \"earlier build\" is one whose programs have changed since.")
    rows = ["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|",
            *("| " + " | ".join(cells(result)) + " |" for result in results), ""]
    return "\n".join([" ".join(head), "", *limit_lines(results), "", *rows, *distance_lines(results), *lines]).rstrip() + "\n"


def plot(results):
    """Without what is no peer: a bar below 1 beside a plain read or beside Ballast itself would say something else."""
    bars = [(f"{r.row.title()}, {r.row.threads} t", r.rate() / r.rate(r.best_peer()), r.verdict()[2])
            for r in results if r.best_peer() and r.best_peer() not in YARDSTICKS]
    return drawing.ratio_bars("Speed relative to the best peer; green: target met, red: missed", bars)


def differences(results):
    """How far outputs are apart, the largest of each kind and type of weights."""
    worst = {}
    for result in results:
        for name, found in result.record.get("agreement", {}).items():
            key = (result.row.kind.kind, getattr(result.row.kind, "type", ""), name)
            if found["bound"] != 0 and found["difference"] >= worst.get(key, {"difference": -1})["difference"]:
                worst[key] = found
    def judged(found):
        return "not judged" if found["bound"] is None else f"at most {found['bound']:g}"

    return [f"{kind} {type}, {name}: {found['difference']:.2g} ({judged(found)})"
            for (kind, type, name), found in worst.items()]
