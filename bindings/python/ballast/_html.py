"""How archives, tensors and reports look in notebooks: plain HTML and inline SVG, which need nothing else."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from ballast._text import bytes_text, counted

if TYPE_CHECKING:
    from ballast import _core
    from ballast._reports import Histogram

_MOST_ROWS = 500
_WIDTH, _HEIGHT = 120, 24


def _visible(text: str) -> str:
    """Names out of files may hold bytes that are no text: they are shown, not sent as they are."""
    return escape(text.encode("utf-8", "backslashreplace").decode())


def titled(title: str, body: str) -> str:
    return f"<div><b>{_visible(title)}</b>{body}</div>"


def table(header: list[str], rows: list[list[str]], pictures: list[str] | None = None) -> str:
    """``pictures`` are a last column that is HTML already."""
    if not rows:
        return ""
    head = "".join(f"<th style='text-align:left'>{_visible(cell)}</th>" for cell in header)
    lines: list[str] = []
    for number, row in enumerate(rows[:_MOST_ROWS]):
        cells = "".join(f"<td style='text-align:left'>{_visible(cell)}</td>" for cell in row)
        if pictures is not None:
            cells += f"<td>{pictures[number]}</td>"
        lines.append(f"<tr>{cells}</tr>")
    more = f"<p>and {len(rows) - _MOST_ROWS} more</p>" if len(rows) > _MOST_ROWS else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>{more}"


def histogram_svg(histogram: Histogram) -> str:
    """Bars from the lowest to the highest value."""
    counts = histogram.counts
    if not counts:
        return ""
    most = max(counts) or 1
    width = _WIDTH / len(counts)
    bars: list[str] = []
    for place, count in enumerate(counts):
        height = _HEIGHT * count / most
        bars.append(
            f"<rect x='{place * width:.1f}' y='{_HEIGHT - height:.1f}' width='{width * 0.9:.1f}' height='{height:.1f}'/>"
        )
    label = f"{histogram.low:.4g} to {histogram.high:.4g}"
    return (
        f"<svg width='{_WIDTH}' height='{_HEIGHT}' viewBox='0 0 {_WIDTH} {_HEIGHT}' fill='#4878a8' role='img'>"
        f"<title>{label}</title>{''.join(bars)}</svg>"
    )


def archive_html(archive: _core.Archive) -> str:
    """The tree of modules, folded."""
    if archive.closed:
        return titled(archive.path, "<p>closed</p>")
    tensors = list(archive.values())
    size = sum(tensor.nbytes for tensor in tensors)
    title = f"{archive.path}: {archive.format}, {counted(len(tensors), 'tensor')}, {bytes_text(size)}"
    rows = [[key, str(value)[:200]] for key, value in archive.metadata.items()]
    tree: dict[str, Any] = {}
    for tensor in tensors[:5000]:
        *folders, last = tensor.name.split(".")
        place = tree
        for folder in folders:
            place = place.setdefault(folder + ".", {})
        place[last] = tensor
    return titled(title, table(["metadata", ""], rows) + _branch_html(tree, 0))


def _branch_html(branch: dict[str, Any], depth: int) -> str:
    parts: list[str] = []
    for name, entry in branch.items():
        if isinstance(entry, dict):
            inner: dict[str, Any] = entry  # pyright: ignore[reportUnknownVariableType]
            opened = " open" if depth == 0 else ""
            parts.append(f"<li><details{opened}><summary>{_visible(name)}</summary>{_branch_html(inner, depth + 1)}</details></li>")
        else:
            shape = "x".join(map(str, entry.shape)) or "scalar"
            parts.append(f"<li>{_visible(name)} <code>{_visible(entry.type)} {shape}</code></li>")
    return f"<ul>{''.join(parts)}</ul>"


def tensor_html(tensor: _core.Tensor) -> str:
    """Name, type, shape and a histogram of the values."""
    from ballast._tools import stats

    measured = stats(tensor.file, only=[tensor.name]).tensors[0]
    rows = [["type", tensor.type], ["shape", "x".join(map(str, tensor.shape))], ["size", bytes_text(tensor.nbytes)]]
    picture = ""
    if measured.numbers is not None:
        numbers = measured.numbers
        rows += [["range", f"{numbers.min:.4g} to {numbers.max:.4g}"], ["mean, std", f"{numbers.mean:.4g}, {numbers.std:.4g}"]]
        picture = histogram_svg(numbers.histogram)
    return titled(tensor.name, table(["", ""], rows) + picture)
