"""The results as a table in Markdown and as bars."""
import time

from environment import machine

from . import drawing
from .kinds import YARDSTICKS

COLUMNS = ("work", "threads", "ballast", "compared with", "ratio", "share of the limit", "target", "reached")


def rounded(number):
    return f"{number:,.0f}" if number >= 100 else f"{number:.1f}" if number >= 10 else f"{number:.2f}"


def cells(result):
    unit, best, limit = result.row.kind.unit, result.best_peer(), result.limit()
    target, reached, met = result.verdict()
    setting = result.record["settings"].get(best, "")
    named = best if not setting or len(setting) < 2 else f"{best} ({setting})"
    return [result.row.title(), str(result.row.threads), f"**{rounded(result.rate())}** {unit}",
            f"{rounded(result.rate(best))} {named}" if best else "", f"{result.rate() / result.rate(best):.2f}" if best else "",
            f"{result.share():.0%} of {limit[0]}" if limit else "", target,
            "" if met is None else f"{'met' if met else '**missed**'}: {reached}"]


def limit_lines(limits):
    """{threads: {limit: per second}}"""
    lines = ["| limit of this machine | " + " | ".join(f"{n} threads" for n in limits) + " |", "|---" * (len(limits) + 1) + "|"]
    names = {"read": "memory reads, GB/s", "f32": "f32 multiply-adds, GFLOP/s", "vnni": "int8 dot products (VNNI), GOP/s",
             "amx-bf16": "AMX bf16, GFLOP/s", "amx-int8": "AMX int8, GOP/s"}
    for name, title in names.items():
        found = [f[name] for f in limits.values()]
        if any(found):
            lines.append(f"| {title} | " + " | ".join(f"{value / 1e9:,.1f}" if value else "" for value in found) + " |")
    return lines


def table(results, limits, rounds):
    found = machine()
    dates = sorted({result.record["date"] for result in results}) or [time.strftime("%Y-%m-%d")]
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    lines = [f"Measured on {when}: {found['cpu']}, {found['cores']} cores, Linux {found['system']}; medians of {rounds} rounds.",
             "", *limit_lines(limits), "", "| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    lines += ["| " + " | ".join(cells(result)) + " |" for result in results]
    return "\n".join(lines) + "\n"


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
