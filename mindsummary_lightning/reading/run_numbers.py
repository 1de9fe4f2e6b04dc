"""Reads only the statistics of histograms, from the last bytes of each sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.reading.decode import OpenFiles
from mindsummary_lightning.reading.followed_file import SAMPLE, TAIL, Location
from mindsummary_lightning.reading.followed_run import FollowedRun
from mindsummary_lightning.values import Histogram

# paths of files, of every sample the index of its path, and the samples
_Located: TypeAlias = tuple[list[str], NDArray[np.intp], NDArray[np.void]]
_MAX_VARINT = 10  # bytes
_TOGETHER = 1 << 15  # samples that are decoded at once
# Before the varint of the last field: no NaN, no infinity, then maximum, minimum, sum and the key
# of the count.
_FIELDS = np.dtype(
    [
        *(("none", "V6"), ("max_key", "u1"), ("max", "<f8"), ("min_key", "u1"), ("min", "<f8")),
        *(("sum_key", "u1"), ("sum", "<f8"), ("count_key", "u1")),
    ]
)
_NONE = np.void(b"\x10\x00\x18\x00\x20\x00")
_KEYS = {"max_key": 0x29, "min_key": 0x31, "sum_key": 0x39, "count_key": 0x40}


@dataclass(frozen=True, slots=True, eq=False)
class HistogramStatistics:
    """The statistics, without buckets, of a histogram at every step of a run.

    Attributes:
        steps: ascending, no step twice; int64, shape ``(n,)``.
        minimum: smallest finite element, NaN if there is none; float64, shape ``(n,)``, as all that
            follow.
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


def read_statistics(run: FollowedRun) -> dict[str, HistogramStatistics]:
    """Read the statistics of all histograms in a run, by tag.

    A sample with an unusual encoding is read as a whole.

    Raises:
        DamagedFileError: a sample contradicts itself.
    """
    statistics: dict[str, HistogramStatistics] = {}
    located: dict[str, _Located] = {}
    waiting = 0
    for tag in run.tags_in_order("histogram"):
        located[tag] = run.rows("histogram", tag)
        waiting += located[tag][2].size
        if waiting > _TOGETHER:
            statistics |= _statistics(located)
            located, waiting = {}, 0
    if located:
        return statistics | _statistics(located)
    return statistics


def _statistics(located: Mapping[str, _Located]) -> dict[str, HistogramStatistics]:
    parts = list(located.values())
    ends = np.cumsum([rows.size for *_, rows in parts])
    joined = np.concatenate([rows.view(f"V{rows.itemsize}") for *_, rows in parts])
    rows = joined.view(SAMPLE)
    numbers = np.full((3, rows.size), np.nan)  # minimum, maximum, and sum, later mean
    counts = np.zeros((4, rows.size), np.int64)
    is_read = _read_tails(rows["tail"], numbers, counts)
    with OpenFiles() as files:
        for row in np.flatnonzero(~is_read).tolist():
            place = int(np.searchsorted(ends, row, side="right"))
            paths, owners, _ = parts[place]
            path = paths[owners[row - ends[place]]]
            sample = rows[row]
            location = Location(
                path, int(sample["start"]), int(sample["end"]), int(sample["record"])
            )
            value = cast("Histogram", files.value(location))
            numbers[:, row] = _number(value.min), _number(value.max), _number(value.sum)
            counts[:, row] = value.count, value.nan_count, value.pos_inf_count, value.neg_inf_count
    finite = counts[0] - counts[1:].sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        np.divide(numbers[2], finite, out=numbers[2])
    numbers[2, finite <= 0] = np.nan
    columns = [rows["step"].copy(), *numbers, *map(_without_zeros, counts)]
    by_tag = [np.split(column, ends[:-1]) for column in columns]
    return dict(zip(located, map(HistogramStatistics, *by_tag), strict=True))


def _read_tails(
    ends_of_values: NDArray[np.void], numbers: NDArray[np.float64], counts: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Decode minimum, maximum, sum and counts from the last bytes of histograms.

    The result tells which of them have the usual encoding; of all others nothing is decoded.
    """
    tails = np.ascontiguousarray(ends_of_values).view(np.uint8).reshape(-1, TAIL)
    goes_on = tails[:, : TAIL - _MAX_VARINT - 2 : -1] >= 128
    # of the count's varint, behind its key, which is below 128
    sizes = goes_on[:, 1:].argmin(axis=1) + 1
    is_read = np.zeros(len(tails), np.bool_)
    for size in np.flatnonzero(np.bincount(sizes)).tolist():
        before_varint = tails[:, TAIL - size - _FIELDS.itemsize : TAIL - size]
        fields = np.ascontiguousarray(before_varint).view(_FIELDS)[:, 0]
        is_usual = (sizes == size) & ~goes_on[:, 0] & (fields["none"] == _NONE)
        for name, key in _KEYS.items():
            is_usual &= fields[name] == key
        for index, name in enumerate(("min", "max", "sum")):
            np.copyto(numbers[index], fields[name], where=is_usual)
        for index in range(size):
            digits = (tails[is_usual, TAIL - size + index] & 127).astype(np.int64)
            counts[0, is_usual] |= digits << 7 * index
        is_read |= is_usual
    return is_read


def _number(value: float | None) -> float:
    return np.nan if value is None else value


def _without_zeros(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the counts, as an array that takes no memory if all counts are zero."""
    return counts.copy() if counts.any() else np.broadcast_to(np.int64(0), counts.shape)
