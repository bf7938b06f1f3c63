"""Numbers and tables for people."""

from __future__ import annotations

import math

_MOST_ROWS = 60


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def bytes_text(size: float) -> str:
    """
    >>> bytes_text(1536)
    '1.5 KiB'
    """
    if size < 1024:
        return f"{size:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        size /= 1024
        if size < 1024:
            return f"{size:.1f} {unit}"
    return f"{size / 1024:.1f} TiB"


def number_text(number: float) -> str:
    return f"{number:.4g}" if math.isfinite(number) else str(number)


def table(header: list[str], rows: list[list[str]]) -> str:
    """Columns as wide as they need to be; only the first rows of many."""
    if not rows:
        return ""
    shown = [header, *rows[:_MOST_ROWS]]
    widths = [max(len(row[column]) for row in shown) for column in range(len(header))]
    lines = ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in shown]
    if len(rows) > _MOST_ROWS:
        lines.append(f"  ... and {len(rows) - _MOST_ROWS} more")
    return "\n".join(lines)
