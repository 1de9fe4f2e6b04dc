"""Findings about the files of a run: damage, and what MindInsight would drop, confuse or fail on."""

from __future__ import annotations

import contextlib
import math
import os
import stat
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from mindsummary_lightning.fileformat.file_names import LINEAGE_SUFFIX, MAX_TIMESTAMP, is_summary_name, timestamp_of
from mindsummary_lightning.fileformat.framing import HEADER_SIZE
from mindsummary_lightning.fileformat.lineage_codec import decode_lineage_event
from mindsummary_lightning.fileformat.row_names import ROW_NAMES_FILE, decode_row_names
from mindsummary_lightning.fileformat.scalar_codec import MAX_SCALAR_EVENT, decode_scalar_events
from mindsummary_lightning.fileformat.summary_codec import checked_event
from mindsummary_lightning.fileio.blocks import checked_length
from mindsummary_lightning.fileio.salvage import Piece, read_pieces
from mindsummary_lightning.reading.run_directory import lineage_file_paths, summary_files
from mindsummary_lightning.values import (
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
from mindsummary_lightning.values.events import GRAPH_TAGS, tags_of
from mindsummary_lightning.values.limits import MAX_BUCKETS, MAX_ELEMENTS, MAX_EVENT, MAX_TAGS, MAX_TENSOR_TAGS
from mindsummary_lightning.values.statistics_columns import STATISTICS_TAG

_BATCH = 2048
_MAGICS = {
    b"\x1f\x8b": "a gzip file; unpack it",
    b"BZh": "a bzip2 file; unpack it",
    b"\xfd7zXZ": "an xz file; unpack it",
    b"\x28\xb5\x2f\xfd": "a zstd file; unpack it",
    b"PK\x03\x04": "a zip file; unpack it",
    b"\xff\xfe": "UTF-16 text, as a shell's redirection makes of binary data",
    b"\xfe\xff": "UTF-16 text, as a shell's redirection makes of binary data",
    b"version https://git-lfs": "a pointer of Git LFS; fetch the file with `git lfs pull`",
}
# Steps of a tag that MindInsight 2.3.1 keeps, by kind.
_STEPS_KEPT = {"scalar": 1000, "image": 10, "tensor": 20, "histogram": 50, "loss_landscape": 500}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be.

    Attributes:
        path: the file or directory.
        offset: byte offset of the record, or ``None``.
        is_damage: True if data is lost or MindInsight fails; False if it only shows less or something else.
        message: what is wrong, and its consequence.
    """

    path: str
    offset: int | None
    is_damage: bool
    message: str


def verify_run(run_dir: str, progress: Callable[[int], object] = lambda size: None) -> Iterator[Finding]:
    """Check every record of every file of a run; ``progress`` is called with numbers of bytes read.

    Raises:
        OSError: a file cannot be read; what was found before has been yielded.
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
    seconds: dict[int, str] = {}
    for name in sorted(os.listdir(run_dir)):
        path = os.path.join(run_dir, name)
        problem = _no_content(path) if timestamp_of(name) is not None else None
        if problem:
            yield _warning(path, problem)
        if not os.path.isfile(path):
            continue
        if name.endswith(".pb") and not name.startswith("memory_usage_"):
            yield _warning(path, "MindInsight reads every .pb file in a run as a MindSpore graph")
        second = timestamp_of(name)
        if second is None:
            continue
        if second > MAX_TIMESTAMP:
            message = f"{second} in the name is not a time in seconds; because of it MindInsight lists no run at all"
            yield _damage(path, None, message)
        if os.path.islink(path):
            yield _warning(path, "a symbolic link; MindInsight lists no run for it")
        if is_summary_name(name):
            if second in seconds:
                other = seconds[second]
                yield _warning(path, f"the name has the same time as {other}; MindInsight follows only one of the two")
            seconds[second] = name


def _no_content(path: str) -> str | None:
    """Why nothing can be read under an event file's name, if so."""
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
    return None if state.st_size else "an empty file; nothing was recorded in it"


def _summary_file(path: str, steps: dict[tuple[str, str], int], progress: Callable[[int], object]) -> Iterator[Finding]:
    seen: dict[tuple[str, str], array[int]] = {}
    batch: list[Piece] = []
    size = os.path.getsize(path)
    for piece in read_pieces(path):
        progress(piece.end - piece.start)
        if piece.payload is None:
            yield _damage(path, piece.start, _damage_message(piece, size, path))
        elif len(piece.payload) > MAX_SCALAR_EVENT:
            yield from _event(path, piece, seen)
        else:
            batch.append(piece)
        if len(batch) == _BATCH:
            yield from _events(path, batch, seen)
            batch = []
    yield from _events(path, batch, seen)
    for (kind, tag), found in sorted(seen.items()):
        steps[kind, tag] = steps.get((kind, tag), 0) + len(found)
        twice = len(found) - np.unique(np.frombuffer(found, np.int64)).size
        if twice and (kind, tag) not in GRAPH_TAGS:
            message = f"{kind} {tag!r} has {twice} samples at steps that it already has; MindInsight shows one per step"
            yield _warning(path, message)


def _damage_message(piece: Piece, file_size: int, path: str) -> str:
    size = piece.end - piece.start
    if size >= file_size:
        return f"no record can be read; it looks like {appearance(path)}"
    if piece.is_tail:
        return f"{size} bytes of an unfinished record at the end ({piece.damage}); run `mindsummary repair`"
    return f"{piece.damage}; {size} bytes without a complete record; run `mindsummary repair`"


def appearance(path: str) -> str:
    """What a file without a readable record looks like, by its first bytes.

    Raises:
        OSError: the file cannot be read.
    """
    with open(path, "rb") as file:
        begin = file.read(512)
    for magic, name in _MAGICS.items():
        if begin.startswith(magic):
            return name
    if not begin.strip(b"\0"):
        return "zeros, which a crashed disk or file system leaves"
    if len(begin) >= HEADER_SIZE and checked_length(begin[:HEADER_SIZE])[1] is None:
        return "the beginning of a record that was never finished"
    if b"\xef\xbf\xbd" in begin:
        return "binary data that was copied as text"
    with contextlib.suppress(UnicodeDecodeError):
        text = begin[:-4].decode() if len(begin) == 512 else begin.decode()
        if text and all(char.isprintable() or char.isspace() for char in text):
            return "text"
    return "nothing that is known here"


def checked_lineage(payload: bytes) -> LineageEvent:
    """Decode a lineage record that MindInsight can take.

    Raises:
        ValueError: the payload is not a lineage event, or MindInsight fails on it, perhaps for other runs too.
    """
    event = decode_lineage_event(payload)
    what = event.what
    if isinstance(what, TrainInfo):  # a loss that is not finite is shown; it is no reason to drop all the rest
        what = replace(what, loss=_finite(what.loss), learning_rate=_finite(what.learning_rate))
    try:
        check_recordable(what)
    except TypeError as error:
        raise ValueError(str(error)) from error
    return event


def _finite(value: float | None) -> float | None:
    return value if value is None or math.isfinite(value) else None


def _events(path: str, batch: list[Piece], seen: dict[tuple[str, str], array[int]]) -> Iterator[Finding]:
    scalars, others = decode_scalar_events([piece.payload or b"" for piece in batch])
    for columns in scalars:
        for tag in columns.tags:
            seen.setdefault(("scalar", tag), array("q")).frombytes(columns.steps.tobytes())
    for index in others:
        yield from _event(path, batch[index], seen)


def _event(path: str, piece: Piece, seen: dict[tuple[str, str], array[int]]) -> Iterator[Finding]:
    payload = piece.payload or b""
    if len(payload) > MAX_EVENT:
        message = f"an event of {len(payload)} bytes; MindInsight drops events of more than {MAX_EVENT}"
        yield _warning(path, message, piece.start)
    try:
        event = checked_event(payload)
    except ValueError as error:
        yield _damage(path, piece.start, f"{error}; run `mindsummary repair`")
        return
    for key in tags_of(event.what):
        seen.setdefault(key, array("q")).append(event.step)
    for tag, value in event.what if isinstance(event.what, tuple) else ():
        kind = kind_of(value)
        problem = _problem_of(value)
        if problem:
            yield _warning(path, f"{kind} {tag!r} at step {event.step} {problem}", piece.start)


def _problem_of(value: SummaryValue) -> str | None:
    if isinstance(value, Tensor) and value.data.size > MAX_ELEMENTS:
        return f"has more than {MAX_ELEMENTS} elements; MindInsight drops their values"
    if isinstance(value, Histogram) and value.counts.size > MAX_BUCKETS:
        return f"has {value.counts.size} buckets; MindInsight drops more than {MAX_BUCKETS}"
    try:
        check_recordable(value)
    except ValueError as error:
        return f"cannot be shown by MindInsight: {error}"
    return None


def _reader_limits(run_dir: str, steps: dict[tuple[str, str], int]) -> Iterator[Finding]:
    if len(steps) > MAX_TAGS:
        message = f"{len(steps)} tags; MindInsight keeps the {MAX_TAGS} that appeared last; a graph counts as two"
        yield _warning(run_dir, message)
    tensors = sum(kind == "tensor" for kind, _ in steps)
    if tensors > MAX_TENSOR_TAGS:
        yield _warning(run_dir, f"{tensors} tensor tags; MindInsight keeps the last {MAX_TENSOR_TAGS}")
    for kind, kept in _STEPS_KEPT.items():
        more = sum(count > kept for (found, _), count in steps.items() if found == kind)
        if more:
            message = f"{more} {kind} tags have more than {kept} steps; MindInsight shows a random {kept} of them"
            yield _warning(run_dir, message)


def _row_names(path: str) -> Iterator[Finding]:
    consequence = f"the rows of {STATISTICS_TAG} have numbers instead of names"
    try:
        with open(path, "rb") as file:
            decode_row_names(file.read())
    except FileNotFoundError:
        yield _warning(path, f"is missing; {consequence}")
    except (OSError, ValueError) as error:
        yield _damage(path, None, f"{error}; {consequence}")


def _lineage_file(path: str, progress: Callable[[int], object]) -> Iterator[Finding]:
    kinds: set[type] = set()
    size = os.path.getsize(path)
    for piece in read_pieces(path):
        progress(piece.end - piece.start)
        if piece.payload is None:
            message = f"{_damage_message(piece, size, path)}; until then MindInsight shows nothing of it"
            yield _damage(path, piece.start, message)
            continue
        try:
            what = checked_lineage(piece.payload).what
        except ValueError as error:
            message = f"{error}; MindInsight may lose lineage because of it, that of other runs too; "
            yield _damage(path, piece.start, f"{message}run `mindsummary repair`")
            continue
        kinds.add(type(what))
        if isinstance(what, TrainInfo) and (what.loss, what.learning_rate) != (
            _finite(what.loss),
            _finite(what.learning_rate),
        ):
            yield _warning(path, "loss or learning rate is not finite; MindInsight's landscape page of this run fails")
    if UserDefinedInfo in kinds and kinds <= {UserDefinedInfo, RunInfo}:
        yield _warning(path, f"custom data alone in a {LINEAGE_SUFFIX} file; MindInsight ignores it")
