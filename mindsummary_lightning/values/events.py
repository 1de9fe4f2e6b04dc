"""Events, which are the decoded records of summary and lineage files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from mindsummary_lightning.values.graph_nodes import Graph
from mindsummary_lightning.values.lineage_info import (
    DatasetGraph,
    EvaluationInfo,
    TrainInfo,
    UserDefinedInfo,
)
from mindsummary_lightning.values.summary_values import Histogram, Image, LossLandscape, Tensor

SummaryValue: TypeAlias = float | Image | Tensor | Histogram | LossLandscape

_KINDS: dict[type, str] = {
    float: "scalar",
    Image: "image",
    Tensor: "tensor",
    Histogram: "histogram",
    LossLandscape: "loss_landscape",
}


def kind_of(value: SummaryValue) -> str:
    """Return MindInsight's name for the kind of a value, such as ``scalar``.

    The kinds are scalar, image, tensor, histogram and loss_landscape.
    """
    return _KINDS[type(value)]


GRAPH_TAGS = (("graph", ""), ("optimized_graph", ""))
"""MindInsight lists a graph under two tags, and both count towards the 300 tags of a run."""


def tags_of(
    what: str | Graph | tuple[tuple[str, SummaryValue], ...] | None,
) -> Sequence[tuple[str, str]]:
    """Return the kinds and names of the tags that MindInsight finds in an event."""
    if isinstance(what, Graph):
        return GRAPH_TAGS
    if isinstance(what, tuple):
        return [(kind_of(value), tag) for tag, value in what]
    return ()


@dataclass(frozen=True, slots=True)
class Event:
    """Decoded record of a summary file: time, step and content.

    Attributes:
        wall_time: Unix time in seconds.
        step: the step of its values.
        what: the version text, a graph, ``(tag, value)`` pairs in file order, or ``None`` for a
            kind that this package does not know.
    """

    wall_time: float
    step: int = 0
    what: str | Graph | tuple[tuple[str, SummaryValue], ...] | None = ()


LineageValue: TypeAlias = TrainInfo | EvaluationInfo | DatasetGraph | UserDefinedInfo


@dataclass(frozen=True, slots=True)
class LineageEvent:
    """Decoded record of a lineage file: time and content.

    Attributes:
        wall_time: Unix time in seconds.
        what: the lineage value, or ``None`` for a kind that this package does not know.
    """

    wall_time: float
    what: LineageValue | None
