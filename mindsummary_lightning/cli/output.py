"""Prints the answer of a subcommand to a terminal or a pipe.

Text is columns, curves, sizes, times and progress bars.

:func:`say` and :func:`redraw` escape control characters, so nothing that was recorded, and no name
of a file, can send commands to the terminal. Subcommands print only through them.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import itertools
import json
import logging
import math
import os
import shutil
import sys
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TextIO

from mindsummary_lightning.errors import DamagedFileError, error_text, printable

_BLOCKS, _LETTERS = "▁▂▃▄▅▆▇█", "_.-=+*#@"
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"


class UsageError(Exception):
    """An error in the command line; the command prints its text, with exit code 2."""


class Heading(str):
    """A line of text that is printed bold on a terminal.

    It is plain if the terminal is ``dumb`` or ``NO_COLOR`` is set.
    """

    __slots__ = ()


class Answer(NamedTuple):
    """The result of a subcommand; :func:`mindsummary_lightning.cli.main` prints it.

    Attributes:
        json: the answer for ``--json``.
        lines: the same as text.
        code: the exit code.
        problems: lines for standard error, before either.
    """

    json: Any = None
    lines: Iterable[str] = ()
    code: int = 0
    problems: Iterable[str] = ()


def width() -> int:
    """Return the width of the terminal in columns; 100 in a pipe."""
    if sys.stdout.isatty():
        return shutil.get_terminal_size((100, 24)).columns
    return 100


def _drawn(line: str) -> str:
    text = printable(line)
    if not isinstance(line, Heading) or not sys.stdout.isatty():
        return text
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[1m{text}\x1b[0m"


def say(line: str, file: TextIO | None = None) -> None:
    """Print a line with control characters and line breaks escaped.

    ``None`` is standard output.
    """
    # the reader of errors may have ended
    with contextlib.suppress(BrokenPipeError) if file else contextlib.nullcontext():
        print(_drawn(line), file=file)


def say_json(value: Any) -> None:
    """Print a value as indented JSON.

    A float that is not finite becomes its name (``NaN``, ``Infinity``).
    """
    # imported late, as above
    from mindsummary_lightning.values.text import finite_or_named, map_json

    text = json.dumps(map_json(value, finite_or_named), indent=2, ensure_ascii=False)
    for line in text.split("\n"):
        say(line)


@contextlib.contextmanager
def escaped_log() -> Iterator[None]:
    """Return a context in which this package's warnings go to standard error.

    Control characters are escaped.
    """

    class Escaping(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            say(record.getMessage(), sys.stderr)

    handler = Escaping(logging.WARNING)
    logger = logging.getLogger("mindsummary_lightning")
    if not logger.hasHandlers():  # a program that calls main() has its own
        logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


@contextlib.contextmanager
def writable_output() -> Iterator[None]:
    """Return a context in which printing any text to the standard streams is safe.

    A character that an encoding lacks is printed as an escape. Printing to a closed stream is no
    error.
    """
    with contextlib.ExitStack() as ending:
        for name in ("stdin", "stdout", "stderr"):  # the order of the numbers that opening takes
            stream = getattr(sys, name)
            if stream is None:
                setattr(sys, name, ending.enter_context(open(os.devnull, "r+", encoding="utf-8")))
                ending.callback(setattr, sys, name, None)
            elif name != "stdin" and isinstance(stream, io.TextIOWrapper):
                ending.callback(stream.reconfigure, errors=stream.errors)
                stream.reconfigure(errors="backslashreplace")
        yield


def cells(text: str) -> int:
    """Count how many columns of the terminal a text takes.

    A wide character takes two columns, and a combining character takes none.
    """
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.category(char) in ("Mn", "Me") for char in text)


def cut(text: str, most: int, *, end: int = 0) -> str:
    """Shorten a text to at most ``most`` columns of the terminal.

    An ellipsis marks the cut, before the last ``end`` characters.
    """
    if cells(text) <= most:
        return text
    last, first = text[len(text) - end :], text
    while first and cells(first) + 1 + cells(last) > most:
        first = first[:-1]
    return f"{first}…{last}"


def columns(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> Iterator[str]:
    """Format the lines of a table: cells escaped, two spaces between columns.

    The columns ``right`` are right-aligned.
    """
    rows = [list(map(printable, row)) for row in rows]
    widths = [max(map(cells, column)) for column in zip(*rows, strict=True)]
    aligned = set(right)
    for row in rows:
        padded = []
        for index, (cell, size) in enumerate(zip(row, widths, strict=True)):
            gap = " " * (size - cells(cell))
            padded.append(gap + cell if index in aligned else cell + gap)
        yield "  ".join(padded).rstrip()


def table_lines(
    rows: Sequence[Sequence[str]], right: Sequence[int] = (), least: int = sys.maxsize
) -> Iterator[str]:
    """Format the lines of a table whose first row names the columns.

    ``right`` is as for :func:`columns`.

    Columns that a terminal has no room for are left out and named below. The first of them is cut
    instead where that leaves it ``least`` cells.
    """
    rows = [list(map(printable, row)) for row in rows]
    most = width() if sys.stdout.isatty() else sys.maxsize
    ends = list(
        itertools.accumulate(max(map(cells, column)) + 2 for column in zip(*rows, strict=True))
    )
    shown = max(1, sum(end - 2 <= most for end in ends))
    shown += shown < len(ends) and ends[shown - 1] + least <= most
    for index, line in enumerate(columns([row[:shown] for row in rows], right)):
        yield cut(line, most) if index else Heading(cut(line, most))
    if shown < len(ends):
        yield f"not shown because the terminal is too narrow: {', '.join(rows[0][shown:])}"


def redraw(lines_of: Callable[[], Iterable[str]], is_json: bool, every_s: float = 2.0) -> Answer:
    """Print lines again and again in the same place of the terminal, until Ctrl-C.

    Raises:
        UsageError: standard output is not a terminal, or JSON is asked for.
    """
    if is_json or not sys.stdout.isatty():
        raise UsageError(
            "--follow needs a terminal, and cannot be combined with --json. Without --follow, run "
            "the command each time you need a new answer"
        )
    drawn, size = 0, shutil.get_terminal_size()
    try:
        print(_NO_WRAP, end="")  # a line that is wider than the terminal must not count as two
        while True:
            started = time.monotonic()
            lines = list(lines_of())
            now = shutil.get_terminal_size()
            begin = ""
            if drawn:
                begin = f"\x1b[{drawn}F" if now == size else "\x1b[H\x1b[2J"
            size = now
            lines = lines[: now.lines - 1]
            page = "".join(f"{_drawn(line)}\x1b[K\n" for line in lines)
            print(f"{begin}{page}\x1b[J", end="", flush=True)
            drawn = len(lines)
            time.sleep(max(every_s, 5 * (time.monotonic() - started)))
    except KeyboardInterrupt:
        return Answer()
    finally:
        print(_WRAP, end="", flush=True)


def error_line(error: Exception) -> str:
    """Describe an expected error on one line: place, problem and remedy."""
    if isinstance(error, FileNotFoundError) and error.strerror and error.filename is not None:
        name = os.fsdecode(error.filename)
        remote = _remote_line(name) if ":/" in name else None
        if remote is not None:
            return remote
        above = os.path.dirname(name)
        if above and not os.path.exists(above):
            return f"{name}: there is no directory {above}"
    text = error_text(error)
    is_silent = isinstance(error, DamagedFileError) and "mindsummary repair" not in text
    if is_silent:
        return f"{text}; run `mindsummary repair`"
    return text


def _remote_line(name: str) -> str | None:
    """Return the message for an address of a remote store that is given as a path.

    The result is ``None`` for any other name.
    """
    from mindsummary_lightning.values.addresses import is_remote  # here: it loads NumPy
    from mindsummary_lightning.values.text import without_secrets

    text = f"{name} must be a local path, got the address of a remote store"
    if is_remote(name):
        return without_secrets(text, name)
    return None


def tally(numbers: Mapping[str, int]) -> str:
    """Format counts as ``5 scalar, 1 image``; empty if all counts are 0."""
    return ", ".join(f"{number} {kind}" for kind, number in numbers.items())


def sparkline(values: Sequence[float], length: int) -> str:
    """Draw values as a curve of at most ``length`` block characters.

    Every character is the mean of some neighbouring values, "!" if it is not finite.
    """
    length = min(length, len(values))
    means = []
    for index in range(length):
        begin = len(values) * index // length
        end = len(values) * (index + 1) // length
        part = values[begin:end]
        is_finite = all(map(math.isfinite, part))
        means.append(math.fsum(part) / len(part) if is_finite else math.nan)
    finite = [mean for mean in means if math.isfinite(mean)] or [0.0]
    return blocks(means, min(finite), max(finite), nan="!")


def blocks(values: Iterable[float], low: float, high: float, nan: str = " ") -> str:
    """Draw a block character per value, whose height is between ``low`` and ``high``.

    "!" stands for +inf and "0" for -inf.
    """
    has_blocks = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    marks = _BLOCKS if has_blocks else _LETTERS
    not_finite = {math.inf: "!", -math.inf: "0"}
    last = len(marks) - 1
    scale, least = (last / (high - low), 0) if high > low else (0.0, last // 2)
    drawn = []
    for value in values:
        if math.isfinite(value):
            height = (min(max(value, low), high) - low) * scale
            drawn.append(marks[least + round(height)])
        else:
            drawn.append(not_finite.get(value, nan))
    return "".join(drawn)


def readable_size(size: int) -> str:
    """Format a number of bytes with the unit that fits, such as ``1.4 MB``."""
    amount = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            break
        amount /= 1000
    return f"{amount:.{int(unit != 'B')}f} {unit}"


def readable_time(seconds: float) -> str:
    """Format a wall time in the local time zone; a dash for an impossible time."""
    try:
        if seconds > 0:
            return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S")
        return "-"
    except (OverflowError, OSError, ValueError):
        return "-"


def short_number(value: float | None) -> str:
    """Format a number with at most six significant digits; a dash for ``None``."""
    return "-" if value is None else f"{value:.6g}"


@contextlib.contextmanager
def progress_bar(what: str, total: int, unit: str = "B") -> Iterator[Callable[[int], Any]]:
    """Show a progress bar on standard error during long work.

    Without a terminal there is no bar.

    The unit is ``"B"`` for bytes, else the name of what is counted; ``total`` is how many of them
    there are.
    """
    # Lightning brings tqdm; an installation for viewing may lack it.
    if not sys.stderr.isatty() or importlib.util.find_spec("tqdm") is None:
        yield lambda count: None
        return
    from tqdm import tqdm

    # no % a second
    form = "{desc}: {percentage:.0f}%|{bar}| [{elapsed}<{remaining}]" if unit == "%" else None
    with tqdm(
        total=total,
        desc=what,
        unit=unit,
        unit_scale=unit == "B",
        leave=False,
        delay=0.5,
        bar_format=form,
    ) as bar:
        yield bar.update


def say_step(text: str) -> None:
    """Print on standard error which work precedes the progress bar.

    The line goes to standard error, if that is a terminal.
    """
    if sys.stderr.isatty():
        say(f"{text} ...", sys.stderr)
