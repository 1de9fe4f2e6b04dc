"""Summarizes every scalar of many runs by its last, least and greatest value.

The curves are not kept.

The files of small runs are decoded together: NumPy's calls, not the bytes, are what small files
cost. A run with several files, or with a damaged one, is read by itself.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileformat.event_outline import EventOutline
from mindsummary_lightning.fileformat.scalar_columns import ScalarColumns, ScalarDecoder
from mindsummary_lightning.fileio.blocks import blocks_of
from mindsummary_lightning.fileio.regular import open_regular
from mindsummary_lightning.reading.followed_run import FollowedRun
from mindsummary_lightning.reading.run_directory import summary_files
from mindsummary_lightning.reading.series import ScalarSeries

_TOGETHER = 64  # runs whose files are decoded together
_SMALL = 1 << 18  # bytes of a file that is decoded together with others
_LOWER_IS_BETTER = frozenset(
    (
        *("loss", "nll", "error", "err", "mae", "mse", "rmse", "mape", "perplexity", "ppl"),
        *("wer", "cer", "eer", "fid", "lpips", "bpb", "bpc"),
    )
)


@dataclass(frozen=True, slots=True)
class TagSummary:
    """The last, least and greatest value of a scalar in a run.

    Attributes:
        last: value of the last step; NaN and infinities as recorded.
        min: least finite value, NaN if there is none.
        max: greatest finite value, likewise.
        min_step: first step with the least value, ``None`` if there is none.
        max_step: first step with the greatest value, likewise.
    """

    last: float
    min: float
    max: float
    min_step: int | None
    max_step: int | None

    def best_step(self, tag: str) -> int | None:
        """Return the step with the best value; see :func:`is_lower_better`.

        For a tag such as a loss, the least value is best.
        """
        if is_lower_better(tag):
            return self.min_step
        return self.max_step


@dataclass(frozen=True, slots=True)
class RunScalars:
    """The summaries of all scalars in a run, and the run's duration.

    Attributes:
        tags: each scalar by its tag; tags are sorted.
        last_step: greatest step of all, ``None`` if there is no scalar.
        started_s: time of the first scalar, seconds since the epoch, likewise.
        duration_s: seconds of recording: of each file the time from its first to its last scalar.
    """

    tags: Mapping[str, TagSummary] = field(default_factory=dict)
    last_step: int | None = None
    started_s: float | None = None
    duration_s: float | None = None

    @property
    def is_diverged(self) -> bool | None:
        """Tell whether a loss ends with NaN or infinity; ``None`` without a loss."""
        return is_diverged({tag: summary.last for tag, summary in self.tags.items()})


def is_diverged(last: Mapping[str, float]) -> bool | None:
    """Tell from the last values of scalars whether a loss ended as NaN or infinity.

    The result is ``None`` if no scalar is a loss.
    """
    losses = [value for tag, value in last.items() if "loss" in tag.lower()]
    if losses:
        return not all(map(math.isfinite, losses))
    return None


def duration_s(spans: Sequence[tuple[float, float]]) -> float | None:
    """Add up the seconds between the first and last time in every file.

    A clock that was set back counts as no time.
    """
    if spans:
        return sum(max(0.0, end - begin) for begin, end in spans)
    return None


def seconds_per_step(steps: NDArray[np.int64], wall_times: NDArray[np.float64]) -> float | None:
    """Return the median time per step, measured between successive samples.

    The result is ``None`` where time does not pass.

    A pause, such as that before a run is resumed, and a clock that was set back do not count.

    Args:
        steps: shape ``(n,)``.
        wall_times: the same, seconds.
    """
    passed, done = np.diff(wall_times), np.diff(steps)
    counts = (done > 0) & (passed > 0)
    if counts.any():
        return float(np.median(passed[counts] / done[counts]))
    return None


def is_lower_better(tag: str) -> bool:
    """Tell from the name of a scalar whether smaller values are better.

    The names mean a loss, an error, a perplexity and so on.
    """
    words = re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", tag).lower())
    return any(word in _LOWER_IS_BETTER or word.endswith(("loss", "error")) for word in words)


_Result: TypeAlias = "RunScalars | DamagedFileError | OSError"


def read_run_scalars(run_dirs: Iterable[str]) -> Iterator[tuple[str, _Result]]:
    """Yield the scalars of each run, or the error if a run cannot be read.

    Runs come in no particular order.
    """
    decoder = ScalarDecoder()
    small: list[_SmallFile] = []
    for run_dir in run_dirs:
        try:
            file = _small_file(run_dir)
        except OSError as error:
            yield run_dir, error
            continue
        if file is None:
            yield run_dir, _read_alone(run_dir, decoder)
            continue
        small.append(file)
        if len(small) == _TOGETHER:
            yield from _read_together(small, decoder)
            small = []
    yield from _read_together(small, decoder)


class _SmallFile(NamedTuple):
    run_dir: str
    content: bytes


def _small_file(run_dir: str) -> _SmallFile | None:
    """Return a run's only summary file, unless the file is large.

    The result is ``None`` for a large file or several files.
    """
    paths = summary_files(run_dir)
    if len(paths) > 1:
        return None
    if not paths:
        return _SmallFile(run_dir, b"")
    with open_regular(paths[0]) as file:
        content = file.read(_SMALL + 1)
    if len(content) <= _SMALL:
        return _SmallFile(run_dir, content)
    return None


def _read_alone(run_dir: str, decoder: ScalarDecoder) -> _Result:
    run = FollowedRun(run_dir, on_damage="raise", decoder=decoder)
    try:
        run.refresh()
    except (DamagedFileError, OSError) as error:
        return error
    return run_scalars(run)


def run_scalars(run: FollowedRun) -> RunScalars:
    """Summarize the scalars of a run that was already read."""
    summaries = {}
    last_steps = []
    for tag in run.tags()["scalar"]:
        series = run.scalars(tag)
        summaries[tag] = tag_summary(series)
        last_steps.append(int(series.steps[-1]))
    spans = run.time_spans()
    started_s = min((begin for begin, _ in spans), default=None)
    return RunScalars(summaries, max(last_steps, default=None), started_s, duration_s(spans))


def tag_summary(series: ScalarSeries) -> TagSummary:
    """Summarize a scalar with at least one step."""
    _, summaries = _summarized(np.zeros(len(series), np.int64), series.steps, series.values)
    return summaries[0]


def _read_together(
    files: Sequence[_SmallFile], decoder: ScalarDecoder
) -> Iterator[tuple[str, _Result]]:
    """Read the scalars of runs that have one small file, all together.

    If a file is damaged, all of the runs are read by themselves.
    """
    samples = _decoded(files, decoder) if files else None
    if samples is None:
        for file in files:
            yield file.run_dir, _read_alone(file.run_dir, decoder)
        return
    for file, scalars in zip(files, _by_run(samples, len(files)), strict=True):
        yield file.run_dir, scalars


# of samples, as the fields of _ScalarSamples after the first one
_Columns: TypeAlias = "tuple[NDArray[Any], ...]"
_KINDS = (np.int64, np.int64, np.int64, np.int64, np.float64, np.float32)


class _ScalarSamples(NamedTuple):
    """The n scalar samples of several runs, in arrays of shape ``(n,)``.

    Attributes:
        tags: the tags that ``tag`` counts.
        run: index of the run.
        tag: index of the tag.
        row: index of the record among those of all runs.
        step: its step.
        wall_time: seconds since the epoch.
        value: float32.
    """

    tags: list[str]
    run: NDArray[np.int64]
    tag: NDArray[np.int64]
    row: NDArray[np.int64]
    step: NDArray[np.int64]
    wall_time: NDArray[np.float64]
    value: NDArray[np.float32]


def _decoded(files: Sequence[_SmallFile], decoder: ScalarDecoder) -> _ScalarSamples | None:
    """Decode all scalars of some files.

    The result is ``None`` if a file is damaged, or does not end with a complete record.
    """
    content = b"".join(file.content for file in files)
    try:
        blocks = list(blocks_of(io.BytesIO(content), "", 0, len(content)))
    except DamagedFileError:
        return None
    if not blocks:
        return None if content else _joined([], {})
    end, records = blocks[0]
    ends = np.cumsum([len(file.content) for file in files])
    if end != len(content) or not np.isin(ends, records.bounds).all():
        return None
    run_of_row = np.searchsorted(ends, records.bounds[:-1], side="right")
    columns, others = decoder.decode(records)
    if any(isinstance(outline, ValueError) for _, outline in others):
        return None
    tags: dict[str, int] = {}
    parts = [_samples_of(one, run_of_row, tags) for one in columns]
    for row, outline in others:
        if not isinstance(outline, ValueError):
            parts += _loose_samples(outline, int(run_of_row[row]), row, tags)
    return _joined(parts, tags)


def _loose_samples(
    outline: EventOutline, run: int, row: int, tags: dict[str, int]
) -> Iterator[_Columns]:
    """Yield the scalars in a record whose set of tags is rare.

    New tags are added to ``tags``.
    """
    for value in outline.values:
        if value.kind == "scalar":
            tag = tags.setdefault(value.tag, len(tags))
            numbers = (run, tag, row, outline.step, outline.wall_time, value.scalar)
            yield tuple(np.array([number]) for number in numbers)


def _samples_of(
    columns: ScalarColumns, run_of_row: NDArray[np.intp], tags: dict[str, int]
) -> _Columns:
    """Convert records with equal tags to samples, and add new tags to ``tags``."""
    numbers = np.array([tags.setdefault(tag, len(tags)) for tag in columns.tags])
    count = len(columns.tags)
    return (
        np.tile(run_of_row[columns.rows], count),
        np.repeat(numbers, columns.rows.size),
        np.tile(columns.rows, count),
        np.tile(columns.steps, count),
        np.tile(columns.wall_times, count),
        columns.values.ravel(),
    )


def _joined(parts: Sequence[_Columns], tags: Mapping[str, int]) -> _ScalarSamples:
    columns: list[NDArray[Any]] = [np.empty(0, kind) for kind in _KINDS]
    if parts:
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    run, tag, row, step, wall_time, value = columns
    return _ScalarSamples([*tags], run, tag, row, step, wall_time, value.astype(np.float32))


def _by_run(samples: _ScalarSamples, runs: int) -> list[RunScalars]:
    """Group the samples by run, and summarize them."""
    found: list[dict[str, TagSummary]] = [{} for _ in range(runs)]
    group = samples.run * max(1, len(samples.tags)) + samples.tag
    order = np.lexsort((samples.row, samples.step, group))
    groups, summaries = _summarized(group[order], samples.step[order], samples.value[order])
    for number, summary in zip(groups, summaries, strict=True):
        run, tag = divmod(number, len(samples.tags))
        found[run][samples.tags[tag]] = summary
    facts, nothing = _facts_by_run(samples), _RunFacts()
    return [facts.get(run, nothing).scalars(tags) for run, tags in enumerate(found)]


@dataclass(frozen=True, slots=True)
class _RunFacts:
    last_step: int | None = None
    started_s: float | None = None
    duration_s: float | None = None

    def scalars(self, tags: Mapping[str, TagSummary]) -> RunScalars:
        return RunScalars(
            dict(sorted(tags.items())), self.last_step, self.started_s, self.duration_s
        )


def _facts_by_run(samples: _ScalarSamples) -> dict[int, _RunFacts]:
    """Return the last step and the times of each run with scalars, by run index."""
    if not samples.run.size:
        return {}
    order = np.argsort(samples.run, kind="stable")
    run, time, step = samples.run[order], samples.wall_time[order], samples.step[order]
    begins = np.flatnonzero(np.diff(run, prepend=-1))
    first, last = np.minimum.reduceat(time, begins), np.maximum.reduceat(time, begins)
    last_step = np.maximum.reduceat(step, begins)
    numbers = zip(
        run[begins].tolist(),
        last_step.tolist(),
        first.tolist(),
        (last - first).tolist(),
        strict=True,
    )
    return {number: _RunFacts(*facts) for number, *facts in numbers}


def _summarized(
    group: NDArray[np.int64], step: NDArray[np.int64], value: NDArray[np.float32]
) -> tuple[list[int], list[TagSummary]]:
    """Summarize each group of samples (one scalar of one run).

    Samples are ordered by group and step; of samples of the same step the last one counts.
    """
    if not group.size:
        return [], []
    is_replaced = (group[1:] == group[:-1]) & (step[1:] == step[:-1])
    kept = np.append(~is_replaced, True)
    group, step, value = group[kept], step[kept], value[kept]
    begins = np.flatnonzero(np.diff(group, prepend=-1))
    counts = np.diff(begins, append=group.size)
    is_finite = np.isfinite(value)
    least, greatest = np.where(is_finite, value, np.inf), np.where(is_finite, value, -np.inf)
    lowest, highest = np.minimum.reduceat(least, begins), np.maximum.reduceat(greatest, begins)
    places = np.arange(group.size)

    def first_steps(is_extreme: NDArray[np.bool_]) -> list[int]:
        first = np.minimum.reduceat(np.where(is_extreme, places, group.size - 1), begins)
        found: list[int] = step[first].tolist()
        return found

    columns = zip(
        _shortest(value[begins + counts - 1]),
        _shortest(lowest),
        _shortest(highest),
        first_steps(least == np.repeat(lowest, counts)),
        first_steps(greatest == np.repeat(highest, counts)),
        np.isfinite(lowest).tolist(),
        strict=True,
    )
    summaries = []
    for last, low, high, low_step, high_step, has_finite in columns:
        if has_finite:
            summaries.append(TagSummary(last, low, high, low_step, high_step))
        else:
            summaries.append(TagSummary(last, math.nan, math.nan, None, None))
    return group[begins].tolist(), summaries


def _shortest(values: NDArray[np.float32]) -> list[float]:
    """Round float32 numbers to the fewest digits that identify each number.

    It is faster than :func:`~mindsummary_lightning.values.text.shortest_float32`.
    """
    return [float(str(value)) for value in values]
