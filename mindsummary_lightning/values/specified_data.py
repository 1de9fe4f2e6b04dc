"""The dicts of ``collect_specified_data``, as a type checker sees them.

Their values are checked where they are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict


class CreateLandscape(TypedDict, total=False):
    """The landscapes that are computed.

    They are of the training's intervals, and around its result.
    """

    train: bool
    result: bool


class CollectLandscape(TypedDict, total=False):
    """The keys of ``collect_landscape``.

    :class:`LandscapeSettings` documents them.
    """

    landscape_size: int
    unit: Literal["step", "epoch"]
    num_samples: int
    create_landscape: CreateLandscape
    intervals: Sequence[Sequence[int]]


class SpecifiedData(TypedDict, total=False):
    """The keys of ``collect_specified_data``.

    :class:`SummaryCollector` documents them.
    """

    collect_metric: bool
    collect_graph: bool
    collect_train_lineage: bool
    collect_eval_lineage: bool
    collect_input_data: bool
    collect_dataset_graph: bool
    histogram_regular: str | None
    collect_landscape: CollectLandscape | None
