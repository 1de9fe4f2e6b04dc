"""Number of tags of a run that MindInsight keeps, with one warning per limit when a run has more.

MindInsight 2.3.1 drops the oldest tags when a new one is too many (``EventsData._check_tag_out_of_spec``). All are
written all the same: other readers have no such limit.
"""

from __future__ import annotations

import logging

from mindsummary_lightning.values.limits import MAX_TAGS, MAX_TENSOR_TAGS
from mindsummary_lightning.warn_once import WarnOnce

_LOG = logging.getLogger(__name__)


class TagLimits:
    """Counts the tags of a run and warns once for each limit that they exceed.

    Args:
        directory: the run, for the message.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._tags: set[tuple[str, str]] = set()
        self._tensor_tags: set[tuple[str, str]] = set()
        self._warnings = WarnOnce(_LOG)

    def count(self, tag: tuple[str, str]) -> None:
        """Note the kind and name of a tag."""
        self._tags.add(tag)
        if tag[0] == "tensor":
            self._tensor_tags.add(tag)

    def check(self) -> None:
        """Warn of exceeded limits; called once for all values of a step, so that the number is that of the step."""
        advice = "name fewer parameters in histogram_regular, or log fewer metrics"
        self._check("tags", len(self._tags), MAX_TAGS, advice)
        advice = "record fewer tensors, or histograms where they suffice"
        self._check("tensor tags", len(self._tensor_tags), MAX_TENSOR_TAGS, advice)

    def _check(self, what: str, count: int, limit: int, advice: str) -> None:
        if count > limit:
            self._warnings.warn(
                what,
                "%s has %d %s so far; MindInsight shows the %d that appeared last and drops the others: %s",
                *(self._directory, count, what, limit, advice),
            )
