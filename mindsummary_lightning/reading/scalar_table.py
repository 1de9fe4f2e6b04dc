"""Scalars of one run or of many as one pandas table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mindsummary_lightning.errors import imported
from mindsummary_lightning.reading.series import ScalarSeries

if TYPE_CHECKING:
    import pandas


def scalar_table(names: Mapping[str, Sequence[str]], found: Sequence[ScalarSeries]) -> pandas.DataFrame:
    """A row per sample: a categorical column for each of ``names``, which names every series, then step, time, value.

    Raises:
        ImportError: pandas is not installed.
    """
    pandas = imported("pandas", "a table of scalars")
    lengths = [len(series) for series in found]
    columns: dict[str, Any] = {}
    for column, labels in names.items():
        codes = {label: code for code, label in enumerate(dict.fromkeys(labels))}
        rows = np.repeat(np.array([codes[label] for label in labels], np.intp), lengths)
        columns[column] = pandas.Categorical.from_codes(rows, categories=list(codes))
    for column, field, dtype in (
        ("step", "steps", np.int64),
        ("wall_time", "wall_times", np.float64),
        ("value", "values", np.float32),
    ):
        columns[column] = np.concatenate([np.empty(0, dtype), *(getattr(series, field) for series in found)])
    return pandas.DataFrame(columns)
