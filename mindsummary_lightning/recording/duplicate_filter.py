"""Skip values that the summary file already contains.

The last value of every tag is kept in memory for this. Tags are counted too, because MindInsight
2.3.1 drops the oldest tags of a run that has too many (``EventsData._check_tag_out_of_spec``). All
tags are written, with one warning per limit, because other readers have no such limit.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

from mindsummary_lightning.values import Histogram, Image, SummaryValue, kind_of
from mindsummary_lightning.values.events import GRAPH_TAGS
from mindsummary_lightning.values.limits import MAX_TAGS, MAX_TENSOR_TAGS
from mindsummary_lightning.warn_once import WarnOnce

_LOG = logging.getLogger(__name__)
_FEWER_TAGS = "Name fewer parameters in histogram_regular, or log fewer metrics"
_FEWER_TENSORS = "Record fewer tensors, or histograms where they suffice"


class DuplicateFilter:
    """A filter that drops values which the summary file already contains."""

    def __init__(self, directory: str) -> None:
        # by tag for scalars, else by type and tag
        self._last: dict[object, tuple[int, object]] = {}
        self._directory = directory
        self._tags: dict[str, set[str]] = {}  # of the run, by kind
        self._warnings = WarnOnce(_LOG)

    def clear(self) -> None:
        """Forget all remembered values, because a new file contains no values yet."""
        self._last.clear()

    def new_values(
        self, step: int, values: Collection[tuple[str, SummaryValue]]
    ) -> list[tuple[str, SummaryValue]]:
        """Return the values that are not in the summary file yet, and remember them.

        A tag that gets a different value at the same step counts as new, with one warning. Pass
        values that could not be written to :meth:`forget`.
        """
        new: list[tuple[str, SummaryValue]] = []
        last, has_new_tag = self._last, False
        for pair in values:
            tag, value = pair
            key: object = tag
            mark: object = value
            if type(value) is not float:
                key, mark = (type(value), tag), _mark(value)
            previous = last.get(key)
            if previous is None:
                has_new_tag = True
                self._tags.setdefault(kind_of(value), set()).add(tag)
            elif previous[0] == step:
                if _is_same(previous[1], mark):
                    continue
                self._warn_of_change(kind_of(value), tag, step)
            last[key] = (step, mark)
            new.append(pair)
        if has_new_tag:
            self._check_limits()  # once for a step, so that the number is that of the step
        return new

    def count_graph(self) -> None:
        """Count the tags of a graph, because MindInsight limits the tags of a run."""
        for kind, tag in GRAPH_TAGS:
            self._tags.setdefault(kind, set()).add(tag)
        self._check_limits()

    def forget(self, values: Iterable[tuple[str, SummaryValue]]) -> None:
        """Forget values that could not be written, so that they count as new again."""
        for tag, value in values:
            self._last.pop(tag if type(value) is float else (type(value), tag), None)

    def _check_limits(self) -> None:
        for what, count, limit, advice in (
            ("tags", sum(map(len, self._tags.values())), MAX_TAGS, _FEWER_TAGS),
            ("tensor tags", len(self._tags.get("tensor", ())), MAX_TENSOR_TAGS, _FEWER_TENSORS),
        ):
            if count > limit:
                self._warnings.warn(
                    what,
                    "%s has %d %s so far. MindInsight shows the %d that appeared last and drops "
                    "the rest. %s",
                    *(self._directory, count, what, limit, advice),
                )

    def _warn_of_change(self, kind: str, tag: str, step: int) -> None:
        # a landscape is computed again on purpose, over the same steps
        if kind != "loss_landscape":
            self._warnings.warn(
                "changed",
                "%s %r is recorded again at step %d with another value. MindInsight shows only "
                "one of the two values. Give a later step or another tag. Later repeats are not "
                "reported",
                *(kind, tag, step),
            )


def _mark(value: SummaryValue) -> object:
    """Return an object with which an image or histogram is compared later.

    It is ``None`` for other values, because comparing them costs more than writing them twice.
    """
    if isinstance(value, Histogram):
        return value
    return hash(value.encoded) if isinstance(value, Image) else None


def _is_same(old: object, new: object) -> bool:
    if isinstance(new, Histogram):
        return isinstance(old, Histogram) and _parts(old) == _parts(new)
    if new is None:
        return False
    return old == new or (old != old and new != new)  # noqa: PLR0124 # NaN, without a call


def _parts(histogram: Histogram) -> tuple[object, ...]:
    buckets = (histogram.lefts, histogram.widths, histogram.counts)
    tallies = (
        histogram.count,
        histogram.nan_count,
        histogram.pos_inf_count,
        histogram.neg_inf_count,
    )
    # NaN equals NaN as text
    return (*(array.tobytes() for array in buckets), *tallies, repr(histogram.sum))
