"""Every scalar of a run and the statistics of its histograms, read in one pass that decodes no bucket."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileformat.histogram_columns import HistogramColumns, HistogramEventDecoder
from mindsummary_lightning.fileformat.scalar_codec import ScalarColumns, decode_scalar_events
from mindsummary_lightning.fileformat.summary_codec import checked_event
from mindsummary_lightning.fileio.scan import RecordScanner
from mindsummary_lightning.reading.merge_rule import selected_samples
from mindsummary_lightning.reading.run_directory import summary_files
from mindsummary_lightning.reading.series import ScalarSeries

_Parts: TypeAlias = dict[tuple[str, str], list[tuple[NDArray[Any], ...]]]

_MAX_SCALARS_ALONE = 512  # bytes of an event; the scalars of longer ones are decoded beside their histograms
_MAX_GROUP = 3 << 25  # bytes of records that are walked side by side


@dataclass(frozen=True, slots=True, eq=False)
class HistogramStatistics:
    """What a histogram says without its buckets, over the steps of a run.

    Attributes:
        steps: ascending, no step twice; int64, shape ``(n,)``.
        minimum: smallest finite element, NaN if there is none; float64, shape ``(n,)``, as all that follow.
        maximum: largest finite element, NaN if there is none.
        mean: mean of the finite elements, NaN if there is none.
        count: all elements, finite or not; int64, shape ``(n,)``, as all that follow.
        nan_count: elements that are NaN.
        pos_inf_count: elements that are +inf.
        neg_inf_count: elements that are -inf.
    """

    steps: NDArray[np.int64]
    minimum: NDArray[np.float64]
    maximum: NDArray[np.float64]
    mean: NDArray[np.float64]
    count: NDArray[np.int64]
    nan_count: NDArray[np.int64]
    pos_inf_count: NDArray[np.int64]
    neg_inf_count: NDArray[np.int64]

    def __len__(self) -> int:
        return int(self.steps.size)


@dataclass(frozen=True, slots=True, eq=False)
class RunNumbers:
    """Scalars and histograms of a run by their tags.

    Attributes:
        scalars: in the order of the files.
        histograms: in the order of the files.
    """

    scalars: dict[str, ScalarSeries]
    histograms: dict[str, HistogramStatistics]


def read_numbers(run_dir: str) -> RunNumbers:
    """Read a run's scalars and histograms.

    Raises:
        DamagedFileError: a file is damaged.
        OSError: a file cannot be read.
    """
    scalars: dict[str, list[tuple[str, list[NDArray[Any]]]]] = {}
    histograms: dict[str, list[tuple[str, list[NDArray[Any]]]]] = {}
    decoder = HistogramEventDecoder()
    for path in summary_files(run_dir):
        for (kind, tag), parts in _parts_of_tags(path, decoder).items():
            rows, *columns = (np.concatenate(column) for column in zip(*parts, strict=True))
            if (np.diff(rows) < 0).any():
                order = np.argsort(rows, kind="stable")
                columns = [column[order] for column in columns]
            target = scalars if kind == "scalar" else histograms
            target.setdefault(tag, []).append((path, columns))
    return RunNumbers(
        {tag: ScalarSeries(*_merged(files)) for tag, files in scalars.items()},
        {tag: _statistics(_merged(files)) for tag, files in histograms.items()},
    )


def _parts_of_tags(path: str, decoder: HistogramEventDecoder) -> _Parts:
    """Of each kind and tag of a file the columns of many events at a time; the first column is their rows."""
    parts: _Parts = {}
    first_row = begin = 0
    waiting: list[int] = []  # rows of the events in the decoder
    scanner = RecordScanner(path)
    for payloads in chain(scanner.batches(), ((),)):
        short = [row for row, payload in enumerate(payloads) if len(payload) <= _MAX_SCALARS_ALONE]
        plain, others = decode_scalar_events([payloads[row] for row in short])
        for scalars in plain:
            _add_scalars(parts, scalars, first_row + np.array(short)[scalars.rows])
        for row in sorted({*range(len(payloads))} - {*short} | {short[index] for index in others}):
            decoder.add(payloads[row])
            waiting.append(first_row + row)
        if decoder.size >= _MAX_GROUP or not payloads:
            try:
                decoded = decoder.take()
            except ValueError as error:
                for _ in RecordScanner(path, begin).decoded(checked_event):
                    continue  # to the damaged one, whose place the decoder of many does not know
                raise DamagedFileError(path, begin, str(error)) from error
            for columns in decoded:
                _add_histograms(parts, columns, np.array(waiting)[columns.rows])
            waiting, begin = [], scanner.offset
        first_row += len(payloads)
    return parts


def _add_scalars(parts: _Parts, columns: ScalarColumns, rows: NDArray[np.int64]) -> None:
    for index, tag in enumerate(columns.tags):
        part = (rows, columns.steps, columns.wall_times, columns.values[:, index])
        parts.setdefault(("scalar", tag), []).append(part)


def _add_histograms(parts: _Parts, columns: HistogramColumns, rows: NDArray[np.int64]) -> None:
    for tag, values in zip(columns.scalar_tags, columns.scalars, strict=True):
        parts.setdefault(("scalar", tag), []).append((rows, columns.steps, columns.wall_times, values))
    count, *nonfinite = np.moveaxis(columns.counts, -1, 0)
    minimum, maximum, total = np.moveaxis(columns.numbers, -1, 0)
    finite = count - sum(nonfinite)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(finite > 0, total / finite, np.nan)
    statistics = np.stack([minimum, maximum, mean], axis=-1)
    for tag, numbers, counts in zip(columns.tags, statistics, columns.counts, strict=True):
        parts.setdefault(("histogram", tag), []).append((rows, columns.steps, numbers, counts))


def _merged(files: list[tuple[str, list[NDArray[Any]]]]) -> list[NDArray[Any]]:
    """The columns of a tag over all files, by MindInsight's rule for resumed runs; the first column is the steps."""
    (_, first), *others = files
    if not others and (np.diff(first[0]) > 0).all():
        return first
    chosen = selected_samples([(path, columns[0]) for path, columns in files])
    return [np.concatenate(column)[chosen] for column in zip(*(columns for _, columns in files), strict=True)]


def _statistics(columns: list[NDArray[Any]]) -> HistogramStatistics:
    steps, numbers, counts = columns
    return HistogramStatistics(steps, *numbers.T, *counts.T)
