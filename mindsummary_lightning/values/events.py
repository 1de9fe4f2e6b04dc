"""Events: the content of a record of a summary or lineage file."""

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
    """MindInsight's plugin name of a value.

    It is scalar, image, tensor, histogram or loss_landscape.
    """
    return _KINDS[type(value)]


GRAPH_TAGS = (("graph", ""), ("optimized_graph", ""))
"""MindInsight lists a graph under two tags, and both count among the 300 of a run."""


def tags_of(
    what: str | Graph | tuple[tuple[str, SummaryValue], ...] | None,
) -> Sequence[tuple[str, str]]:
    """Kinds and names of the tags of an event in MindInsight."""
    if isinstance(what, Graph):
        return GRAPH_TAGS
    if isinstance(what, tuple):
        return [(kind_of(value), tag) for tag, value in what]
    return ()


@dataclass(frozen=True, slots=True)
class Event:
    """A record of a summary file.

    Attributes:
        wall_time: seconds since the epoch.
        step: the step its values belong to.
        what: the version text, a graph, ``(tag, value)`` pairs in file order, or ``None`` for a
            kind this package does not know.
    """

    wall_time: float
    step: int = 0
    what: str | Graph | tuple[tuple[str, SummaryValue], ...] | None = ()


LineageValue: TypeAlias = TrainInfo | EvaluationInfo | DatasetGraph | UserDefinedInfo


@dataclass(frozen=True, slots=True)
class LineageEvent:
    """A record of a lineage file.

    Attributes:
        wall_time: seconds since the epoch.
        what: the lineage it carries, or ``None`` for a kind this package does not know.
    """

    wall_time: float
    what: LineageValue | None
