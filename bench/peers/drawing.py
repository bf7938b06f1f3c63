"""Plots as SVG: bars of ratios, and lines."""
import math
from xml.sax.saxutils import escape

COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#7f7f7f")
MET, MISSED, PLAIN = "#2ca02c", "#d62728", "#1f77b4"


def svg(width, height, body):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            'font-family="sans-serif" font-size="10">\n<rect width="100%" height="100%" fill="white"/>\n'
            + "\n".join(body) + "\n</svg>\n")


def text(x, y, content, anchor="start", more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}>{escape(content)}</text>'


def line(x1, y1, x2, y2, colour="#cccccc", width=1):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"/>'


def ratio_bars(title, bars):
    """`bars` are (label, ratio, met); the scale is logarithmic, so that twice and half as fast look alike."""
    left, right, step, top = 380, 130, 13, 44
    scale_width, height = 420, 44 + 13 * len(bars) + 16
    low = min([0.25, *(ratio for _, ratio, _ in bars)])
    high = max([4, *(ratio for _, ratio, _ in bars)])

    def x(ratio):
        return left + scale_width * math.log(ratio / low) / math.log(high / low)

    body = [text(8, 18, title, more='font-size="13" font-weight="bold"')]
    for tick in (0.1, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128):
        if low <= tick <= high:
            body += [line(x(tick), top - 8, x(tick), height - 14, "#444444" if tick == 1 else "#dddddd"),
                     text(x(tick), top - 12, f"{tick:g} x", "middle")]
    for i, (label, ratio, met) in enumerate(bars):
        y = top + step * i
        begin, end = sorted((x(1), x(ratio)))
        colour = PLAIN if met is None else MET if met else MISSED
        body += [text(left - 8, y + 8, label, "end"),
                 f'<rect x="{begin:.1f}" y="{y}" width="{max(end - begin, 1):.1f}" height="{step - 4}" fill="{colour}"/>',
                 text(x(ratio) + (4 if ratio >= 1 else -4), y + 8, f"{ratio:.2f}", "start" if ratio >= 1 else "end")]
    return svg(left + scale_width + right, height, body)


class Panel:
    """Lines over one axis each; both logarithmic, so that proportional growth is a straight line of slope one."""
    WIDTH, HEIGHT = 430, 270
    LEFT, RIGHT, TOP, BOTTOM = 62, 16, 30, 58

    def __init__(self, title, x_label, y_label, lines):
        self.title, self.x_label, self.y_label, self.lines = title, x_label, y_label, lines
        points = [point for found in lines.values() for point in found]
        self.xs = self.span([x for x, _ in points])
        self.ys = self.span([y for _, y in points])

    @staticmethod
    def span(values):
        low, high = min(values), max(values)
        return (low / 1.2, high * 1.2) if low == high else (low / (high / low) ** 0.05, high * (high / low) ** 0.05)

    def x(self, value):
        low, high = map(math.log, self.xs)
        return self.LEFT + (self.WIDTH - self.LEFT - self.RIGHT) * (math.log(value) - low) / (high - low)

    def y(self, value):
        low, high = map(math.log, self.ys)
        return self.HEIGHT - self.BOTTOM - (self.HEIGHT - self.TOP - self.BOTTOM) * (math.log(value) - low) / (high - low)

    @staticmethod
    def ticks(low, high):
        found = [m * 10.0 ** e for e in range(-3, 12) for m in (1, 2, 5) if low <= m * 10.0 ** e <= high]
        return found if found else [math.sqrt(low * high)]

    def drawn(self):
        body = [text(8, 16, self.title, more='font-size="12" font-weight="bold"')]
        bottom, right = self.HEIGHT - self.BOTTOM, self.WIDTH - self.RIGHT
        for value in self.ticks(*self.ys):
            body += [line(self.LEFT, self.y(value), right, self.y(value), "#e5e5e5"),
                     text(self.LEFT - 4, self.y(value) + 3, f"{value:g}", "end")]
        for value in sorted({x for found in self.lines.values() for x, _ in found}):
            body.append(text(self.x(value), bottom + 13, f"{value:g}", "middle"))
        body += [text((self.LEFT + right) / 2, bottom + 27, f"{self.x_label}; vertically {self.y_label}", "middle")]
        legend = self.LEFT
        for i, (name, found) in enumerate(self.lines.items()):
            colour = COLOURS[i % len(COLOURS)]
            path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in found)
            body.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
            body += [f'<circle cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="2.5" fill="{colour}"/>' for x, y in found]
            body.append(text(legend, self.HEIGHT - 12, name, more=f'fill="{colour}"'))
            legend += 12 + 5.4 * len(name)
        return body


def panels(found):
    """Two beside each other."""
    body = []
    for i, panel in enumerate(found):
        place = f'translate({i % 2 * (Panel.WIDTH + 10)} {i // 2 * (Panel.HEIGHT + 10)})'
        body += [f'<g transform="{place}">', *panel.drawn(), "</g>"]
    rows = (len(found) + 1) // 2
    return svg(2 * Panel.WIDTH + 10, rows * (Panel.HEIGHT + 10), body)
