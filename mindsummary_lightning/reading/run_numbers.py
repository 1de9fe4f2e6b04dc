"""The statistics of a histogram, which stand in its last bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.reading.decode import OpenFiles
from mindsummary_lightning.reading.followed_file import SAMPLE, TAIL, Location
from mindsummary_lightning.reading.followed_run import FollowedRun
from mindsummary_lightning.values import Histogram

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
    """What a histogram says without its buckets, over the steps of a run.

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
    """Statistics of every histogram by its tag; a sample that is not encoded as known writers do it is read whole.

    Raises:
        DamagedFileError: a sample contradicts itself.
    """
    statistics: dict[str, HistogramStatistics] = {}
    located: dict[str, tuple[list[str], NDArray[np.intp], NDArray[np.void]]] = {}
    waiting = 0
    for tag in run.tags_in_order("histogram"):
        located[tag] = run.rows("histogram", tag)
        waiting += located[tag][2].size
        if waiting > _TOGETHER:
            statistics |= _statistics(located)
            located, waiting = {}, 0
    return statistics | _statistics(located) if located else statistics


def _statistics(
    located: dict[str, tuple[list[str], NDArray[np.intp], NDArray[np.void]]],
) -> dict[str, HistogramStatistics]:
    ends = np.cumsum([rows.size for *_, rows in located.values()])
    rows = np.concatenate([rows.view(f"V{rows.itemsize}") for *_, rows in located.values()]).view(
        SAMPLE
    )
    tails = np.ascontiguousarray(rows["tail"]).view(np.uint8).reshape(-1, TAIL)
    numbers = np.full((3, rows.size), np.nan)  # minimum, maximum, and sum, later mean
    counts = np.zeros((4, rows.size), np.int64)
    goes_on = tails[:, : TAIL - _MAX_VARINT - 2 : -1] >= 128
    # of the count's varint, behind its key, which is below 128
    sizes = goes_on[:, 1:].argmin(axis=1) + 1
    is_left = np.ones(rows.size, np.bool_)
    for size in np.flatnonzero(np.bincount(sizes)).tolist():
        fields = np.ascontiguousarray(tails[:, TAIL - size - _FIELDS.itemsize : TAIL - size]).view(
            _FIELDS
        )[:, 0]
        is_usual = (sizes == size) & ~goes_on[:, 0] & (fields["none"] == _NONE)
        for name, key in _KEYS.items():
            is_usual &= fields[name] == key
        for index, name in enumerate(("min", "max", "sum")):
            np.copyto(numbers[index], fields[name], where=is_usual)
        for index in range(size):
            counts[0, is_usual] |= (tails[is_usual, TAIL - size + index] & 127).astype(
                np.int64
            ) << 7 * index
        is_left &= ~is_usual
    parts, left = [*located.values()], np.flatnonzero(is_left)
    with OpenFiles() as files:
        for row, place in zip(
            left.tolist(), np.searchsorted(ends, left, side="right").tolist(), strict=True
        ):
            paths, owners, _ = parts[place]
            bounds = (int(rows[name][row]) for name in ("start", "end", "record"))
            value = cast(
                "Histogram", files.value(Location(paths[owners[row - ends[place]]], *bounds))
            )
            numbers[:, row] = [
                np.nan if one is None else one for one in (value.min, value.max, value.sum)
            ]
            counts[:, row] = value.count, value.nan_count, value.pos_inf_count, value.neg_inf_count
    finite = counts[0] - counts[1:].sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        np.divide(numbers[2], finite, out=numbers[2])
    numbers[2, finite <= 0] = np.nan
    # What most tensors have none of takes no memory.
    kept = (
        each.copy() if each.any() else np.broadcast_to(np.int64(0), each.shape) for each in counts
    )
    columns = (np.split(column, ends[:-1]) for column in (rows["step"].copy(), *numbers, *kept))
    return dict(zip(located, map(HistogramStatistics, *columns), strict=True))
