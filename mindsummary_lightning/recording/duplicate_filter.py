"""What each tag was given last in the live summary file, so that a value that stands there is not written again.

Scalars have a short way through: the loop that logs them waits for every line of it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from mindsummary_lightning.fileformat.scalar_event import pack_float32, scalar_head, scalar_record
from mindsummary_lightning.fileio.append import RecordFile
from mindsummary_lightning.recording.tag_limits import TagLimits
from mindsummary_lightning.values import Histogram, Image, LossLandscape, SummaryValue, kind_of

__all__ = ["DuplicateFilter"]

_LOG = logging.getLogger(__name__)


class _Written:
    """The last value of a tag, or what stands for it; of a scalar also the bytes that all its values begin with."""

    __slots__ = ("head", "mark", "step")

    def __init__(self, head: bytes) -> None:
        self.head = head
        self.step: int | None = None
        self.mark: object = None


class DuplicateFilter:
    """Knows the last step and value of each tag.

    Args:
        directory: the run, for messages.
    """

    def __init__(self, directory: str) -> None:
        self._scalars: dict[str, _Written] = {}
        self._others: dict[tuple[str, str], _Written] = {}
        self._tag_limits = TagLimits(directory)
        self._has_warned = False

    def clear(self) -> None:
        """Forget all values: a new file has none of them."""
        for last in (*self._scalars.values(), *self._others.values()):
            last.step = None

    def write_scalars(
        self, file: RecordFile, most: int, wall_time: float, step: int, values: Collection[tuple[str, SummaryValue]]
    ) -> bool:
        """Write a step's values, if all are plain scalars of known tags, each new at this step, in a small record.

        Args:
            file: an open summary file.
            most: the record is smaller than this many bytes.
            wall_time: seconds since the epoch.
            step: the step.
            values: tags and values, one at least.

        Returns:
            False if they are not; then nothing is done.

        Raises:
            OSError: nothing of them is in the file.
        """
        known = self._scalars
        scalars: list[bytes] = []
        try:
            for tag, value in values:
                if type(value) is not float:
                    return False
                last = known[tag]
                if last.step == step:
                    return False
                scalars.append(last.head + pack_float32(value))
        except (KeyError, OverflowError):
            return False
        record = scalar_record(wall_time, step, b"".join(scalars))
        if len(record) >= most:
            return False
        file.append_record(record)
        for tag, value in values:
            last = known[tag]
            last.step = step
            last.mark = value
        return True

    def has(self, step: int, tag: str, value: SummaryValue) -> bool:
        """Whether the file has this value already; warns once if it has another one at the same step."""
        kind = kind_of(value)
        last = self._scalars.get(tag) if kind == "scalar" else self._others.get((kind, tag))
        if last is None or last.step != step:
            return False
        if _is_same(last.mark, _mark(value)):
            return True
        # A landscape is made again on purpose, over the same steps.
        if not self._has_warned and not isinstance(value, LossLandscape):
            self._has_warned = True
            _LOG.warning(
                "%s %r is recorded again at step %d with another value; MindInsight shows one of the two. Give a later "
                "step or another tag. Later repeats are not reported.",
                *(kind, tag, step),
            )
        return False

    def remember(self, step: int, values: Collection[tuple[str, SummaryValue]]) -> None:
        """Note that the values are in the file."""
        for tag, value in values:
            kind = kind_of(value)
            is_scalar = kind == "scalar"
            last = self._scalars.get(tag) if is_scalar else self._others.get((kind, tag))
            if last is None:
                self._tag_limits.count((kind, tag))
                if is_scalar:
                    last = self._scalars[tag] = _Written(scalar_head(tag))
                else:
                    last = self._others[kind, tag] = _Written(b"")
            last.step = step
            last.mark = _mark(value)

    def check_limits(self) -> None:
        """Warn if the run has more tags than MindInsight shows; called once for all values of a step."""
        self._tag_limits.check()


def _mark(value: SummaryValue) -> object:
    """What to keep of a value so as to know it again; ``None`` where finding out costs more than writing twice."""
    if isinstance(value, (float, Histogram)):
        return value
    return hash(value.encoded) if isinstance(value, Image) else None


def _is_same(old: object, new: object) -> bool:
    if isinstance(new, Histogram):
        return isinstance(old, Histogram) and _parts(old) == _parts(new)
    return new is not None and (old == new or (old != old and new != new))


def _parts(histogram: Histogram) -> tuple[object, ...]:
    buckets = (histogram.lefts, histogram.widths, histogram.counts)
    tallies = (histogram.count, histogram.nan_count, histogram.pos_inf_count, histogram.neg_inf_count)
    return (*(array.tobytes() for array in buckets), *tallies, repr(histogram.sum))  # the text of one NaN is another's
