"""Converts a comparison to JSON values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import numpy as np

from mindsummary_lightning.porting.comparison.comparison_data import ComparisonData, OnlyIn
from mindsummary_lightning.porting.comparison.first_difference import FirstDifference
from mindsummary_lightning.porting.comparison.pair_table import PairRow
from mindsummary_lightning.porting.comparison.statistics_comparison import StatisticsComparison
from mindsummary_lightning.values.text import finite_or_named, map_json

_Pairs = Iterable[tuple[str, tuple[Any, Any]]]


def comparison_dict(comparison: ComparisonData) -> dict[str, Any]:
    """Convert a comparison to a dict of JSON values with the documented keys.

    Floats that are not finite become their names, such as ``"nan"``.
    """
    found = {
        "baseline": comparison.baseline,
        "candidate": comparison.candidate,
        "verdict": comparison.verdict,
        "sentence": comparison.sentence,
        "next_step": comparison.next_step,
        "first_difference": _difference(comparison.first_difference),
        "undecided_difference": _difference(comparison.undecided_difference),
        "doubt": comparison.doubt,
        "compared": comparison.compared._asdict(),
        "only_in_baseline": _only_in(comparison.only_in_baseline),
        "only_in_candidate": _only_in(comparison.only_in_candidate),
        "other_shapes": [tensor._asdict() for tensor in comparison.other_shapes],
        "matched_by_value": _named_pairs(comparison.matched_by_value),
        "matched_by_position": _named_pairs(comparison.matched_by_position),
        "largest": comparison.largest._asdict(),
        "tolerance": comparison.tolerance._asdict(),
        "repeat": comparison.repeat and comparison.repeat._asdict(),
        "settings": _of_both(comparison.settings.items()),
        "scalars": dict(comparison.scalars),
        "whole_tensors": dict(comparison.whole_tensors),
        "notes": [asdict(note) for note in comparison.notes],
        "output_statistics": _statistics(comparison.output_statistics),
    }
    result: dict[str, Any] = map_json(found, finite_or_named)
    return result


def _only_in(only: OnlyIn) -> dict[str, Any]:
    return {"steps": only.steps, "tensors": list(only.tensors)}


def _named_pairs(pairs: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"baseline": name_a, "candidate": name_b} for name_a, name_b in pairs]


def _of_both(values: _Pairs) -> dict[str, dict[str, Any]]:
    result = {}
    for name, (value_a, value_b) in values:
        result[name] = {"baseline": value_a, "candidate": value_b}
    return result


def _difference(difference: FirstDifference | None) -> dict[str, Any] | None:
    if difference is None:
        return None
    settings = ((name, (value_a, value_b)) for name, value_a, value_b in difference.settings)
    return {
        "step": difference.step,
        "stage": difference.stage,
        "loss_distance": difference.loss_distance,
        "tensors": [asdict(tensor) for tensor in difference.tensors],
        "last_equal_step": difference.last_equal_step,
        "location": difference.location and difference.location._asdict(),
        "settings": _of_both(settings),
    }


def _statistics(statistics: StatisticsComparison | None) -> dict[str, Any] | None:
    """Convert the result for the output statistics to JSON values.

    They hold the compared steps, and of the shown step every stage and every row beyond tolerance.
    """
    if statistics is None:
        return None
    table = statistics.shown.table
    return {
        "steps": statistics.steps,
        "judged_step": statistics.judged_step,
        "shown_step": statistics.shown.step,
        "stages": [summary._asdict() for summary in table.summaries()],
        "exceeding": [_row(row) for row in table.exceeding()],
    }


def _row(row: PairRow) -> dict[str, Any]:
    return {
        "stage": row.stage,
        "baseline": row.baseline and row.baseline.name,
        "candidate": row.candidate and row.candidate.name,
        "distance": None if np.isnan(row.distance) else row.distance,
        "tolerance": row.tolerance,
    }
