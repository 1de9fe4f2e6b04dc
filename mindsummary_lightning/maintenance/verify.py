"""Check the files of a run, and report damage and content that MindInsight drops.

It also reports content that MindInsight would confuse or fail on.
"""

from __future__ import annotations

import math
import os
import stat
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.fileformat.file_names import (
    LINEAGE_SUFFIX,
    MAX_TIMESTAMP,
    is_summary_name,
    timestamp_of,
)
from mindsummary_lightning.fileformat.framing import HEADER_SIZE, OVERHEAD
from mindsummary_lightning.fileformat.lineage_codec import decode_lineage_event
from mindsummary_lightning.fileformat.row_names import ROW_NAMES_FILE, decode_row_names
from mindsummary_lightning.fileformat.scalar_columns import ScalarDecoder
from mindsummary_lightning.fileformat.summary_codec import checked_event
from mindsummary_lightning.fileio.blocks import BLOCK, checked_length
from mindsummary_lightning.fileio.regular import open_regular, read_regular
from mindsummary_lightning.fileio.salvage import Piece, read_pieces
from mindsummary_lightning.reading.run_directory import lineage_file_paths, summary_files
from mindsummary_lightning.values import (
    EvaluationInfo,
    Histogram,
    LineageEvent,
    RunInfo,
    SummaryValue,
    Tensor,
    TrainInfo,
    UserDefinedInfo,
    check_recordable,
    kind_of,
)
from mindsummary_lightning.values.events import GRAPH_TAGS, Event, tags_of
from mindsummary_lightning.values.limits import (
    MAX_BUCKETS,
    MAX_ELEMENTS,
    MAX_EVENT,
    MAX_TAGS,
    MAX_TENSOR_TAGS,
)
from mindsummary_lightning.values.statistics_columns import STATISTICS_TAG
from mindsummary_lightning.values.validation import check_evaluation

_Key: TypeAlias = tuple[str, str]  # kind and tag
_Add: TypeAlias = "Callable[[_Key, NDArray[np.int64]], None]"

# Steps of a tag that MindInsight 2.3.1 keeps, by kind.
_STEPS_KEPT = {"scalar": 1000, "image": 10, "tensor": 20, "histogram": 50, "loss_landscape": 500}


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem that was found in a file of a run.

    Attributes:
        path: the file or directory.
        offset: byte offset of the record, or ``None``.
        is_damage: True if data is lost or MindInsight fails; False if MindInsight only shows less
            or something else.
        message: what is wrong, and its consequence.
    """

    path: str
    offset: int | None
    is_damage: bool
    message: str


def verify_run(
    run_dir: str, progress: Callable[[int], object] = lambda size: None
) -> Iterator[Finding]:
    """Check every record of every file of a run, and yield the problems.

    ``progress`` is called with numbers of bytes read.

    Raises:
        OSError: a file cannot be read; problems found before it have been yielded.
    """
    yield from _names(run_dir)
    steps: dict[tuple[str, str], int] = {}
    for path in summary_files(run_dir):
        yield from _summary_file(path, steps, progress)
    yield from _reader_limits(run_dir, steps)
    if ("tensor", STATISTICS_TAG) in steps:
        yield from _row_names(os.path.join(run_dir, ROW_NAMES_FILE))
    for path in lineage_file_paths(run_dir):
        yield from _lineage_file(path, progress)


def _damage(path: str, offset: int | None, message: str) -> Finding:
    return Finding(path, offset, True, message)


def _warning(path: str, message: str, offset: int | None = None) -> Finding:
    return Finding(path, offset, False, message)


def _names(run_dir: str) -> Iterator[Finding]:
    summary_names: dict[int, str] = {}
    for name in sorted(os.listdir(run_dir)):
        path = os.path.join(run_dir, name)
        second = timestamp_of(name)
        problem = _no_content(path) if second is not None else None
        if problem:
            yield _warning(path, problem)
        if not os.path.isfile(path):
            continue
        if name.endswith(".pb") and not name.startswith("memory_usage_"):
            yield _warning(path, "MindInsight reads every .pb file in a run as a MindSpore graph")
        if second is not None:
            yield from _event_file_name(path, second, summary_names)


def _event_file_name(path: str, second: int, summary_names: dict[int, str]) -> Iterator[Finding]:
    """Yield the problems of an event file's name, and add it to ``summary_names``."""
    name = os.path.basename(path)
    if second > MAX_TIMESTAMP:
        reason = "is not a time in seconds; because of it MindInsight lists no run at all"
        yield _damage(path, None, f"{second} in the name {reason}")
    if os.path.islink(path):
        yield _warning(
            path,
            "this is a symbolic link; it is not read, and MindInsight lists no run because of it",
        )
    if not is_summary_name(name):
        return
    if second in summary_names:
        other = summary_names[second]
        yield _warning(
            path,
            f"its name and the name of {other} have the same time; MindInsight reads only one "
            "of the two files",
        )
    summary_names[second] = name


def _no_content(path: str) -> str | None:
    """Say why a path with an event file's name has no content, or return ``None``."""
    try:
        state = os.stat(path)
    except PermissionError:
        return None  # which reading it will say
    except OSError:
        return "a symbolic link that leads nowhere; nothing is read from it"
    if stat.S_ISDIR(state.st_mode):
        return "a directory with the name of an event file; nothing is read from it"
    if not stat.S_ISREG(state.st_mode):
        return "a FIFO, device or socket with the name of an event file; nothing is read from it"
    if state.st_size:
        return None
    return "an empty file; nothing was recorded in it"


@dataclass(slots=True)
class _Samples:
    """Number of samples of a tag in a file, and whether their steps ascend.

    While the steps ascend, no step can repeat, and the steps need not be kept.
    """

    count: int = 0
    last: int | None = None
    ascends: bool = True

    def add(self, steps: NDArray[np.int64]) -> None:
        follows = self.last is None or steps[0] > self.last
        self.ascends = self.ascends and bool(follows and (steps[1:] > steps[:-1]).all())
        self.count, self.last = self.count + steps.size, int(steps[-1])


def _summary_file(
    path: str, steps: dict[_Key, int], progress: Callable[[int], object]
) -> Iterator[Finding]:
    seen: dict[_Key, _Samples] = {}

    def add(key: _Key, of_key: NDArray[np.int64]) -> None:
        if key not in seen:
            seen[key] = _Samples()
        seen[key].add(of_key)

    yield from _records(path, add, progress)
    unordered = {key for key, samples in seen.items() if not samples.ascends}
    again = _steps_of(path, unordered.difference(GRAPH_TAGS))
    for (kind, tag), samples in sorted(seen.items()):
        steps[kind, tag] = steps.get((kind, tag), 0) + samples.count
        found = np.frombuffer(again.get((kind, tag), b""), np.int64)
        twice = found.size - np.unique(found).size
        if twice:
            yield _warning(
                path,
                f"{kind} {tag!r} has {twice} repeated samples, at steps with an earlier sample; "
                "MindInsight shows one sample per step",
            )


def _steps_of(path: str, wanted: Set[_Key]) -> dict[_Key, array[int]]:
    """Read a file again, and return all steps of the wanted kinds and tags."""
    found: dict[_Key, array[int]] = {}

    def add(key: _Key, steps: NDArray[np.int64]) -> None:
        if key in wanted:
            found.setdefault(key, array("q")).frombytes(steps.tobytes())

    if wanted:
        deque(_records(path, add), maxlen=0)
    return found


def _records(
    path: str, add: _Add, progress: Callable[[int], object] = lambda size: None
) -> Iterator[Finding]:
    """Yield the problems of the records of a summary file.

    ``add`` is called with the steps of every kind and tag, in their order.
    """
    decoder = ScalarDecoder()
    batch: list[Piece] = []
    size, waiting = os.path.getsize(path), 0
    for piece in read_pieces(path):
        progress(piece.end - piece.start)
        if piece.payload is None:
            yield _damage(path, piece.start, _damage_message(piece, size, path))
            continue
        batch.append(piece)
        waiting += len(piece.payload)
        if waiting > BLOCK:
            yield from _events(path, batch, decoder, add)
            batch, waiting = [], 0
    yield from _events(path, batch, decoder, add)


def _damage_message(piece: Piece, file_size: int, path: str) -> str:
    size = piece.end - piece.start
    if size >= file_size:
        return f"no record can be read; it looks like {appearance(path)}"
    if piece.is_tail:
        unfinished = f"{size} bytes of an unfinished record at the end ({piece.damage})"
        return f"{unfinished}; run `mindsummary repair`"
    return f"{piece.damage}; {size} bytes without a complete record; run `mindsummary repair`"


def appearance(path: str) -> str:
    """Describe a file without a readable record, by its first bytes.

    Raises:
        OSError: the file cannot be read.
    """
    with open_regular(path) as file:
        begin = file.read(HEADER_SIZE)
    if len(begin) == HEADER_SIZE and checked_length(begin)[1] is None:
        return "the beginning of a record that was never finished"
    return f"another kind of file: it begins with {begin!r}"


def checked_lineage(payload: bytes) -> LineageEvent:
    """Decode a lineage record, and check that MindInsight does not fail on it.

    Raises:
        ValueError: the payload is not a lineage event, or MindInsight would fail on it, perhaps for
            other runs too.
    """
    event = decode_lineage_event(payload)
    what = event.what
    # a loss that is not finite is shown; it is no reason to drop all the rest
    if isinstance(what, TrainInfo):
        what = replace(what, loss=_finite(what.loss), learning_rate=_finite(what.learning_rate))
    try:
        # a whole number beyond a float is no reason to drop the metrics
        if isinstance(what, EvaluationInfo):
            check_evaluation(what, largest=math.inf)
        else:
            check_recordable(what)
    except TypeError as error:
        raise ValueError(str(error)) from error
    return event


def _has_finite_numbers(train: TrainInfo) -> bool:
    numbers = (train.loss, train.learning_rate)
    return all(number is None or math.isfinite(number) for number in numbers)


def _finite(value: float | None) -> float | None:
    if value is None or math.isfinite(value):
        return value
    return None


def _events(path: str, batch: list[Piece], decoder: ScalarDecoder, add: _Add) -> Iterator[Finding]:
    for piece in batch:
        size = piece.end - piece.start - OVERHEAD
        if size > MAX_EVENT:
            message = f"an event of {size} bytes; MindInsight drops events of more than {MAX_EVENT}"
            yield _warning(path, message, piece.start)
    scalars, others = decoder.decode([piece.payload or b"" for piece in batch])
    found: dict[_Key, list[_Places]] = {}
    for columns in scalars:
        for tag in columns.tags:
            found.setdefault(("scalar", tag), []).append(_Places(columns.rows, columns.steps))
    for index, _ in others:
        try:
            event = checked_event(batch[index].payload or b"")
        except ValueError as error:
            yield _damage(path, batch[index].start, f"{error}; run `mindsummary repair`")
            continue
        place = _Places(np.array([index]), np.array([event.step]))
        for key in tags_of(event.what):
            found.setdefault(key, []).append(place)
        yield from _problems(path, batch[index].start, event)
    for key, parts in found.items():
        add(key, _steps_in_order(parts))


class _Places(NamedTuple):
    """Indices of records in a batch of records, and the steps of these records."""

    rows: NDArray[np.int64]
    steps: NDArray[np.int64]


def _steps_in_order(parts: list[_Places]) -> NDArray[np.int64]:
    """Merge several lists of steps in the order of their records."""
    if len(parts) == 1:
        return parts[0].steps
    rows = np.concatenate([part.rows for part in parts])
    steps = np.concatenate([part.steps for part in parts])
    return steps[np.argsort(rows, kind="stable")]


def _problems(path: str, offset: int, event: Event) -> Iterator[Finding]:
    if not isinstance(event.what, tuple):
        return
    for tag, value in event.what:
        problem = _problem_of(value)
        if problem:
            yield _warning(path, f"{kind_of(value)} {tag!r} at step {event.step} {problem}", offset)


def _problem_of(value: SummaryValue) -> str | None:
    if isinstance(value, Tensor) and value.data.size > MAX_ELEMENTS:
        return f"has more than {MAX_ELEMENTS} elements; MindInsight drops their values"
    if isinstance(value, Histogram) and value.counts.size > MAX_BUCKETS:
        return (
            f"has {value.counts.size} buckets; MindInsight drops histograms with more than "
            f"{MAX_BUCKETS}"
        )
    try:
        check_recordable(value)
    except ValueError as error:
        return f"cannot be shown by MindInsight: {error}"
    return None


def _reader_limits(run_dir: str, steps: dict[tuple[str, str], int]) -> Iterator[Finding]:
    if len(steps) > MAX_TAGS:
        yield _warning(
            run_dir,
            f"the run has {len(steps)} tags (a graph counts as two tags); MindInsight keeps only "
            f"the {MAX_TAGS} tags that appeared last",
        )
    tensors = sum(kind == "tensor" for kind, _ in steps)
    if tensors > MAX_TENSOR_TAGS:
        yield _warning(
            run_dir,
            f"the run has {tensors} tensor tags; MindInsight keeps only the {MAX_TENSOR_TAGS} "
            "that appeared last",
        )
    for kind, kept in _STEPS_KEPT.items():
        more = sum(count > kept for (found, _), count in steps.items() if found == kind)
        if more:
            yield _warning(
                run_dir,
                f"{more} {kind} tags have more than {kept} steps; MindInsight shows only {kept} "
                "randomly chosen steps of each of these tags",
            )


def _row_names(path: str) -> Iterator[Finding]:
    consequence = f"the rows of {STATISTICS_TAG} have numbers instead of names"
    try:
        decode_row_names(read_regular(path))
    except FileNotFoundError:
        yield _warning(path, f"this file is missing; {consequence}")
    except (OSError, ValueError) as error:
        yield _damage(path, None, f"{error}; {consequence}")


def _lineage_file(path: str, progress: Callable[[int], object]) -> Iterator[Finding]:
    kinds: set[type] = set()
    size = os.path.getsize(path)
    for piece in read_pieces(path):
        progress(piece.end - piece.start)
        if piece.payload is None:
            message = (
                f"{_damage_message(piece, size, path)}; until then MindInsight shows nothing of "
                "this file"
            )
            yield _damage(path, piece.start, message)
            continue
        try:
            what = checked_lineage(piece.payload).what
        except ValueError as error:
            message = (
                f"{error}; because of this record MindInsight may lose lineage, also that of other "
                "runs; "
            )
            yield _damage(path, piece.start, f"{message}run `mindsummary repair`")
            continue
        kinds.add(type(what))
        if isinstance(what, TrainInfo) and not _has_finite_numbers(what):
            yield _warning(
                path,
                "the loss or the learning rate is not finite, so MindInsight's landscape page of "
                "this run fails",
            )
    if UserDefinedInfo in kinds and kinds <= {UserDefinedInfo, RunInfo}:
        yield _warning(
            path,
            f"this {LINEAGE_SUFFIX} file contains only custom data, so MindInsight ignores it",
        )
