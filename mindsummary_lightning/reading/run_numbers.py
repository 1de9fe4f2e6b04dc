"""Every scalar of a run and the statistics of its histograms, read in one pass that decodes no bucket."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileformat.histogram_columns import HistogramColumns, decode_histogram_events
from mindsummary_lightning.fileformat.scalar_codec import ScalarColumns, decode_scalar_events
from mindsummary_lightning.fileio.scan import RecordScanner
from mindsummary_lightning.reading.merge_rule import selected_samples
from mindsummary_lightning.reading.run_directory import summary_files
from mindsummary_lightning.reading.series import ScalarSeries

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
    for path in summary_files(run_dir):
        in_file: dict[tuple[str, str], list[tuple[NDArray[Any], ...]]] = {}
        first_row = 0
        for payloads, offset in _groups(path):
            short = [row for row, payload in enumerate(payloads) if len(payload) <= _MAX_SCALARS_ALONE]
            plain, others = decode_scalar_events([payloads[row] for row in short])
            left = sorted({*range(len(payloads))} - {*short} | {short[index] for index in others})
            chosen = payloads if len(left) == len(payloads) else [payloads[row] for row in left]
            try:
                wide = decode_histogram_events(chosen)
            except ValueError as error:
                raise DamagedFileError(path, offset, str(error)) from error
            for columns in plain:
                _add_scalars(in_file, columns, first_row + np.array(short)[columns.rows])
            for parts in wide:
                _add_histograms(in_file, parts, first_row + np.array(left)[parts.rows])
            first_row += len(payloads)
        for (kind, tag), parts_of_tag in in_file.items():
            joined = [np.concatenate(column) for column in zip(*parts_of_tag, strict=True)]
            order = np.argsort(joined[0], kind="stable")
            target = scalars if kind == "scalar" else histograms
            target.setdefault(tag, []).append((path, [column[order] for column in joined[1:]]))
    return RunNumbers(
        {tag: ScalarSeries(*_merged(files)) for tag, files in scalars.items()},
        {tag: _statistics(_merged(files)) for tag, files in histograms.items()},
    )


def _groups(path: str) -> Iterator[tuple[list[bytes], int]]:
    """The payloads of a file, many at a time, and the offset of the first."""
    scanner = RecordScanner(path)
    payloads: list[bytes] = []
    begin = size = 0
    for batch in scanner.batches():
        payloads += batch
        size += sum(map(len, batch))
        if size >= _MAX_GROUP:
            yield payloads, begin
            payloads, begin, size = [], scanner.offset, 0
    if payloads:
        yield payloads, begin


def _add_scalars(
    in_file: dict[tuple[str, str], list[tuple[NDArray[Any], ...]]],
    columns: ScalarColumns,
    rows: NDArray[np.int64],
) -> None:
    for index, tag in enumerate(columns.tags):
        part = (rows, columns.steps, columns.wall_times, columns.values[:, index])
        in_file.setdefault(("scalar", tag), []).append(part)


def _add_histograms(
    in_file: dict[tuple[str, str], list[tuple[NDArray[Any], ...]]],
    columns: HistogramColumns,
    rows: NDArray[np.int64],
) -> None:
    for tag, values in zip(columns.scalar_tags, columns.scalars, strict=True):
        in_file.setdefault(("scalar", tag), []).append((rows, columns.steps, columns.wall_times, values))
    for tag, numbers, counts in zip(columns.tags, columns.numbers, columns.counts, strict=True):
        in_file.setdefault(("histogram", tag), []).append((rows, columns.steps, numbers, counts))


def _merged(files: list[tuple[str, list[NDArray[Any]]]]) -> list[NDArray[Any]]:
    """The columns of a tag over all files, by MindInsight's rule for resumed runs; the first column is the steps."""
    chosen = selected_samples([(path, columns[0]) for path, columns in files])
    return [np.concatenate(column)[chosen] for column in zip(*(columns for _, columns in files), strict=True)]


def _statistics(columns: list[NDArray[Any]]) -> HistogramStatistics:
    steps, numbers, counts = columns
    finite = counts[:, 0] - counts[:, 1:].sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(finite > 0, numbers[:, 2] / finite, np.nan)
    return HistogramStatistics(steps, numbers[:, 0], numbers[:, 1], mean, *counts.T)
