"""The dicts of ``collect_specified_data``, as a type checker sees them; what is in them is checked where it is used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict


class CreateLandscape(TypedDict, total=False):
    """Which landscapes are computed: of the training's intervals, and around its result."""

    train: bool
    result: bool


class CollectLandscape(TypedDict, total=False):
    """The keys of ``collect_landscape``; :class:`LandscapeSettings` says what each means."""

    landscape_size: int
    unit: Literal["step", "epoch"]
    num_samples: int
    create_landscape: CreateLandscape
    intervals: Sequence[Sequence[int]]


class SpecifiedData(TypedDict, total=False):
    """The keys of ``collect_specified_data``; :class:`SummaryCollector` says what each means."""

    collect_metric: bool
    collect_graph: bool
    collect_train_lineage: bool
    collect_eval_lineage: bool
    collect_input_data: bool
    collect_dataset_graph: bool
    histogram_regular: str | None
    collect_landscape: CollectLandscape | None
