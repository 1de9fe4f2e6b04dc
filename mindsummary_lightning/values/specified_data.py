"""Typed dicts of the argument ``collect_specified_data``, for type checkers.

The functions that use the values check them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict


class CreateLandscape(TypedDict, total=False):
    """Keys of ``create_landscape``, which choose the loss landscapes to compute.

    ``train`` stands for the landscapes of the training's intervals, ``result`` for the landscape
    around the last checkpoint.
    """

    train: bool
    result: bool


class CollectLandscape(TypedDict, total=False):
    """Keys of ``collect_landscape``, the settings of loss landscapes.

    :class:`LandscapeSettings` documents them.
    """

    landscape_size: int
    unit: Literal["step", "epoch"]
    num_samples: int
    create_landscape: CreateLandscape
    intervals: Sequence[Sequence[int]]


class SpecifiedData(TypedDict, total=False):
    """Keys of the argument ``collect_specified_data`` of ``SummaryCollector``.

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
