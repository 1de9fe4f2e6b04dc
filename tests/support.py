"""What many tests need: a clock of their own, and a directory's files as lists of events."""

from __future__ import annotations

import io
import os
import sys
import threading
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from mindsummary_lightning.fileformat.file_names import is_lineage_name, is_summary_name, read_order
from mindsummary_lightning.fileformat.framing import frame
from mindsummary_lightning.fileformat.lineage_codec import decode_lineage_event
from mindsummary_lightning.fileformat.summary_codec import decode_event, encode_event
from mindsummary_lightning.fileio.scan import RecordScanner
from mindsummary_lightning.values import Event, LineageEvent, SummaryValue

_OURS = f"{os.sep}mindsummary_lightning{os.sep}"
_RANKS_LIMIT_S = 60
_T = TypeVar("_T")


class Clock:
    """Seconds that stand still until a test moves them."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    """A stream on a terminal, whose text can be read."""

    def isatty(self) -> bool:
        return True


def of_two_threads(function: Callable[[int], _T]) -> list[_T]:
    """What a function returns for rank 0 and rank 1, in threads named ``rank 0`` and ``rank 1``."""
    results: dict[int, _T] = {}
    errors: list[BaseException] = []

    def as_rank(rank: int) -> None:
        try:
            results[rank] = function(rank)
        except BaseException as error:
            errors.append(error)

    threads = [
        threading.Thread(target=as_rank, args=(rank,), name=f"rank {rank}") for rank in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_RANKS_LIMIT_S)
    assert errors == []
    return [results[rank] for rank in range(2)]


def summary_paths(directory: str | Path) -> list[Path]:
    """The summary files of a directory, in the reader's order."""
    return [
        Path(directory, name) for name in read_order(filter(is_summary_name, os.listdir(directory)))
    ]


def lineage_paths(directory: str | Path) -> list[Path]:
    """The lineage files of a directory, in the reader's order."""
    return [
        Path(directory, name) for name in read_order(filter(is_lineage_name, os.listdir(directory)))
    ]


def read_events(directory: str | Path) -> list[Event]:
    """Every event of a directory's summary files; fails on a CRC that is wrong and on a
    torn tail.
    """
    return [
        decode_event(payload)
        for path in summary_paths(directory)
        for payload in whole_payloads(path)
    ]


def read_lineage(directory: str | Path) -> list[LineageEvent]:
    """Every event of a directory's lineage files; fails on a CRC that is wrong and on a
    torn tail.
    """
    return [
        decode_lineage_event(payload)
        for path in lineage_paths(directory)
        for payload in whole_payloads(path)
    ]


def read_scalars(directory: str | Path, tag: str) -> list[tuple[int, float]]:
    """Steps and values of one scalar tag, in file order."""
    return [
        (step, value)
        for step, name, value in read_values(directory)
        if name == tag and isinstance(value, float)
    ]


def read_values(directory: str | Path) -> list[tuple[int, str, SummaryValue]]:
    """Step, tag and value of everything recorded, in file order."""
    events = read_events(directory)
    return [
        (event.step, *pair)
        for event in events
        if isinstance(event.what, tuple)
        for pair in event.what
    ]


def whole_payloads(path: Path) -> list[bytes]:
    """The payloads of a file that is nothing but whole records."""
    scanner = RecordScanner(str(path))
    payloads = list(scanner)
    assert scanner.offset == path.stat().st_size, f"{path} has a torn tail"
    return payloads


def append_bytes(path: Path, content: bytes) -> None:
    """Append to a file, as its writer does."""
    with path.open("ab") as file:
        file.write(content)


def record_bytes(events: Iterable[Event]) -> bytes:
    """The bytes of a summary file that holds some events."""
    return b"".join(piece for event in events for piece in frame(encode_event(event)))


@contextmanager
def counted_calls() -> Iterator[Counter[str]]:
    """How often functions of this package were called, and by name functions of others from it."""
    counted: Counter[str] = Counter()

    def count(frame: FrameType, event: str, argument: Any) -> None:
        caller = frame.f_back
        if event == "call" and (
            _OURS in frame.f_code.co_filename
            or (caller is not None and _OURS in caller.f_code.co_filename)
        ):
            counted["calls"] += 1
        elif event == "c_call" and _OURS in frame.f_code.co_filename:
            counted[getattr(argument, "__name__", "")] += 1

    sys.setprofile(count)
    try:
        yield counted
    finally:
        sys.setprofile(None)


@contextmanager
def memory_below(most: float) -> Iterator[None]:
    """A context in which Python allocates fewer bytes at any time."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < most, f"{peak} bytes"


def growth_of_calls(work: Callable[[int], None], small: int, large: int) -> float:
    """Calls for the large size by those for the small one, divided by the ratio of the sizes: 1
    where it is linear.
    """
    totals = []
    for size in (small, large):
        with counted_calls() as counted:
            work(size)
        totals.append(counted.total())
    return totals[1] / totals[0] / (large / small)


_NEEDED_BY = {  # a word of a call or a command -> the package that it needs
    "import": "tensorboard",
    "log_figure": "matplotlib",
    "parquet": "pyarrow",
    "--plot": "matplotlib",
    "report": "bokeh",
    "tensorboard": "tensorboard",
}


def skip_without_unicode_names() -> None:
    """Skip a test that makes a file whose name the locale cannot write, as under POSIX."""
    import pytest  # here: the fuzzer reads runs without it

    try:
        os.fsencode("实验")
    except UnicodeEncodeError:
        pytest.skip("the locale's file names are ASCII")


def skip_without_packages(*texts: str) -> None:
    """Skip the test if what it calls or runs needs a package that is not installed."""
    import pytest  # here: the fuzzer reads runs without it

    for word, package in _NEEDED_BY.items():
        if any(word in text for text in texts):
            pytest.importorskip(package)
