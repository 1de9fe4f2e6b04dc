"""Text on a terminal or in a pipe: columns, curves, sizes, times and the progress of long work."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

__all__ = ["columns", "heading", "progress_bar", "readable_size", "readable_time", "short_number", "sparkline", "width"]

_BLOCKS = "▁▂▃▄▅▆▇█"
_LETTERS = "_.-=+*#@"


def width() -> int:
    """Columns of the terminal; 100 in a pipe."""
    return shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else 100


def heading(text: str) -> str:
    """A heading: bold on a terminal, plain in a pipe or where ``NO_COLOR`` is set."""
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        return f"\x1b[1m{text}\x1b[0m"
    return text


def columns(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> Iterator[str]:
    """Lines of a table with two spaces between columns.

    Args:
        rows: cells of each line.
        right: numbers of the columns to align at their right edge.
    """
    if not rows:
        return
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    for row in rows:
        cells = [
            cell.rjust(size) if index in right else cell.ljust(size)
            for index, (cell, size) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def sparkline(values: Sequence[float], length: int) -> str:
    """A curve of at most ``length`` characters, each the mean of a stretch of values, "!" if not finite."""
    if not len(values):
        return ""
    length = min(length, len(values))
    edges = [len(values) * index // length for index in range(length + 1)]
    means = [_mean(values[begin:end]) for begin, end in itertools.pairwise(edges)]
    finite = [mean for mean in means if math.isfinite(mean)]
    marks = _BLOCKS if _is_unicode() else _LETTERS
    low, high = (min(finite), max(finite)) if finite else (0.0, 0.0)
    scale = (len(marks) - 1) / (high - low) if high > low else 0.0
    middle = marks[len(marks) // 2 - 1]
    return "".join(
        "!" if not math.isfinite(mean) else marks[round((mean - low) * scale)] if scale else middle for mean in means
    )


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if all(map(math.isfinite, values)) else math.nan


def _is_unicode() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def readable_size(size: int) -> str:
    """Bytes in the largest unit that leaves at least one: ``1.4 MB``."""
    amount = float(size)
    for unit in ("B", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


def readable_time(seconds: float) -> str:
    """A wall time in the local zone; a dash where it is no time."""
    try:
        return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S") if seconds > 0 else "-"
    except (OverflowError, OSError, ValueError):
        return "-"


def short_number(value: float | None) -> str:
    """A number in at most six significant digits; a dash for ``None``."""
    return "-" if value is None else f"{value:.6g}"


@contextlib.contextmanager
def progress_bar(what: str, total: int, unit: str = "B") -> Iterator[Callable[[int], Any]]:
    """A progress bar on standard error while something long runs; nothing is shown if that is no terminal.

    Args:
        what: what is being done.
        total: how many units there are.
        unit: ``"B"`` for bytes, else the name of what is counted.
    """
    if not sys.stderr.isatty():
        yield lambda count: None
        return
    from tqdm import tqdm

    with tqdm(total=total, desc=what, unit=unit, unit_scale=unit == "B", leave=False, delay=0.5) as bar:
        yield bar.update
