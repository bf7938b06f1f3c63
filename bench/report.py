"""The results as a table in Markdown, as JSON and as a drawing."""
from xml.sax.saxutils import escape


def as_json(row):
    text, reached, met = row.verdict()
    return {"work": row.work, "threads": row.threads, "bytes": row.size, "target": text, "reached": reached,
            "met": met, "results": row.results}


def short(milliseconds):
    return f"{milliseconds:.2f}" if milliseconds < 10 else f"{milliseconds:.1f}" if milliseconds < 100 else f"{milliseconds:.0f}"


def table(rows):
    lines = ["| work | program | best ms | median ms | ratio to ballast | target | reached |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        text, reached, met = row.verdict()
        first = True
        for name, result in row.results.items():
            cells = [row.work if first else "", f"**{name}**" if first else name, short(result["best_ms"]),
                     short(result["median_ms"]), "1" if first else f"{result['median_ms'] / row.ours():.2f}",
                     text if first else "", "" if not first or met is None else f"{'met' if met else '**missed**'}: {reached}"]
            lines.append("| " + " | ".join(cells) + " |")
            first = False
    return "\n".join(lines) + "\n"


BAR = 11
GAP = 10
LEFT = 190
WIDTH = 900
SCALE = WIDTH - LEFT - 120
OURS, PEER = "#1f77b4", "#b8b8b8"


def plot(rows):
    """Horizontal bars, row by row; each row has its own scale, which ends at its slowest."""
    body, y = [], 34
    for row in rows:
        slowest = max(result["median_ms"] for result in row.results.values())
        body.append(f'<text x="8" y="{y + 9}" font-weight="bold">{escape(row.work)}</text>')
        y += BAR + 5
        for i, (name, result) in enumerate(row.results.items()):
            width = max(1.0, SCALE * result["median_ms"] / slowest)
            colour = OURS if i == 0 else PEER
            body.append(f'<text x="{LEFT - 6}" y="{y + 9}" text-anchor="end">{escape(name)}</text>'
                        f'<rect x="{LEFT}" y="{y + 1}" width="{width:.1f}" height="{BAR - 2}" fill="{colour}"/>'
                        f'<text x="{LEFT + width + 5:.1f}" y="{y + 9}">{short(result["median_ms"])} ms</text>')
            y += BAR + 2
        y += GAP
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" viewBox="0 0 {WIDTH} {y}" '
            f'font-family="sans-serif" font-size="10">\n<rect width="100%" height="100%" fill="white"/>\n'
            f'<text x="8" y="18" font-size="13" font-weight="bold">Median time; shorter is better; each row has its own '
            f'scale</text>\n' + "\n".join(body) + "\n</svg>\n")
