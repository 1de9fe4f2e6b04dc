"""``ParameterTable``: the statistics of a run's parameters at every recorded step."""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.errors import closest, imported
from mindsummary_lightning.fileformat.row_names import ROW_NAMES_FILE, decode_row_names
from mindsummary_lightning.fileio.regular import read_regular
from mindsummary_lightning.reading.decode import OpenFiles
from mindsummary_lightning.reading.followed_run import FollowedRun
from mindsummary_lightning.values import Tensor
from mindsummary_lightning.values.statistics_columns import (
    COLUMNS,
    STATISTICS_TAG,
    from_stored,
    origin,
)
from mindsummary_lightning.values.summary_values import owned

if TYPE_CHECKING:
    import pandas

_LOSS_TAG = "loss/auto"


@dataclass(frozen=True, slots=True)
class NonFinite:
    """The first non-finite number in the parameter statistics of a run.

    It is known by the ``step``, the ``parameter``, and ``"gradient"`` or ``"weight"``.
    """

    step: int
    parameter: str
    kind: Literal["gradient", "weight"]


@dataclass(frozen=True, slots=True, eq=False)
class ParameterTable:
    """Statistics of all parameters of the optimizers, at every recorded step.

    Attributes:
        steps: optimizer steps, int64, shape ``(s,)``.
        parameters: names of the ``p`` parameters.
        columns: names of the ``c`` statistics. ``gradient_rms``, ``gradient_mean`` (of the
            magnitudes), ``gradient_max`` and ``gradient_zeros`` (a share, 0 to 1) are those of the
            finite elements, of a sparse gradient of the stored ones; ``gradient_non_finite`` counts
            the others. ``weight_rms``, ``weight_max`` and ``weight_non_finite`` are of the weight
            after the step; ``update_ratio`` is the root mean square of its change in the step by
            ``weight_rms``; ``elements`` counts the weight's.
        values: float64, shape ``(s, p, c)``; NaN where there is none, as of a parameter without a
            gradient.
    """

    steps: NDArray[np.int64]
    parameters: tuple[str, ...]
    columns: tuple[str, ...]
    values: NDArray[np.float64]

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", owned(self.steps, np.int64))
        object.__setattr__(self, "values", owned(self.values, np.float64))
        shape = (self.steps.size, len(self.parameters), len(self.columns))
        if self.values.shape != shape:
            raise ValueError(
                f"values must have the shape (steps, parameters, columns) = {shape}, got "
                f"{self.values.shape}"
            )

    def __repr__(self) -> str:
        steps, parameters, columns = self.values.shape
        return f"{type(self).__name__}({steps} steps, {parameters} parameters, {columns} columns)"

    def column(self, name: str) -> NDArray[np.float64]:
        """Return the values of one statistic, shape ``(steps, parameters)``.

        Raises:
            ValueError: there is no column of this name.
        """
        if name not in self.columns:
            known = ", ".join(self.columns)
            raise ValueError(
                f"there is no column {name!r}{closest(name, self.columns)}; the columns are {known}"
            )
        return self.values[:, :, self.columns.index(name)]

    def gradient_logarithms(self) -> NDArray[np.float64]:
        """Return log10 of ``gradient_rms``, shape ``(steps, parameters)``.

        It is -inf for zero, and +inf where the gradient or the weight is not finite.
        """
        with np.errstate(divide="ignore"):
            logarithms = np.log10(self.column("gradient_rms"))
        is_bad = (self.column("gradient_non_finite") > 0) | (self.column("weight_non_finite") > 0)
        return np.where(is_bad, np.inf, logarithms)

    def first_non_finite(self) -> NonFinite | None:
        """Find the first non-finite number of the tables, or ``None``.

        The warning of the training names the same number.
        """
        for step, table in zip(self.steps.tolist(), self.values, strict=True):
            first = origin(self.parameters, table)
            if first is not None:
                return NonFinite(step, *first)
        return None

    def to_pandas(self) -> pandas.DataFrame:
        """Return a table with one row per step and parameter, one column per statistic.

        Raises:
            ImportError: pandas is not installed.
        """
        pandas = imported("pandas", "a table of parameters")
        index = pandas.MultiIndex.from_product(
            [self.steps, self.parameters], names=["step", "parameter"]
        )
        return pandas.DataFrame(
            self.values.reshape(-1, len(self.columns)), index, list(self.columns)
        )


def loss_at(run: FollowedRun, step: int) -> float | None:
    """Return the loss that a collector recorded at a step, or ``None``."""
    if _LOSS_TAG not in run.tags()["scalar"]:
        return None
    series = run.scalars(_LOSS_TAG)
    return next((float(value) for value in series.values[series.steps == step]), None)


def row_names(run_dir: str) -> tuple[list[str], list[str]]:
    """Read the row names and column names of a run's parameter tables.

    There are no rows if their file is missing or damaged.
    """
    with contextlib.suppress(OSError, ValueError):
        return decode_row_names(read_regular(os.path.join(run_dir, ROW_NAMES_FILE)))
    return [], list(COLUMNS)


def stacked_tables(
    run: FollowedRun, tag: str, width: int, rows: int | None = None
) -> tuple[NDArray[np.int64], NDArray[np.float64]] | None:
    """Read steps and values of a run's tables under a tag, shape ``(s, r, width)``.

    Without tables the result is ``None``.

    Values are NaN where a table has fewer rows.

    Tensors of the tag with another shape, or with more than ``rows`` rows, are skipped.
    """
    if tag not in run.tags()["tensor"]:
        return None
    most = sys.maxsize if rows is None else rows
    steps = []
    tables = []
    with OpenFiles() as files:
        for sample in run.samples("tensor", tag):
            data = cast("Tensor", files.value(sample.location)).data
            if data.shape[1:] == (width,) and len(data) <= most:
                steps.append(sample.step)
                tables.append(data)
    if not tables:
        return None
    values = np.full((len(tables), rows or max(map(len, tables)), width), np.nan)
    for table, data in zip(values, tables, strict=True):
        table[: len(data)] = data
    return np.array(steps), values


def read_parameter_table(run: FollowedRun) -> ParameterTable | None:
    """Read all parameter tables of a run as of its last refresh, or ``None``.

    A row without a name is named by its number.
    """
    names, columns = row_names(run.run_dir)
    found = stacked_tables(run, STATISTICS_TAG, len(COLUMNS)) if columns == list(COLUMNS) else None
    if found is None:
        return None
    steps, values = found
    for table in values:
        table[:] = from_stored(table)
    rows = values.shape[1]
    parameters = (*names[:rows], *(f"row {number}" for number in range(len(names), rows)))
    return ParameterTable(steps, parameters, COLUMNS, values)


def parameter_facts(run: FollowedRun) -> tuple[ParameterTable, dict[str, Any]] | None:
    """Return a run's statistics and the summary of them for JSON, or ``None``."""
    table = read_parameter_table(run)
    if table is None:
        return None
    first = table.first_non_finite()
    facts = {
        "parameters": len(table.parameters),
        "steps": table.steps.tolist(),
        "first_not_finite": None,
    }
    if first is not None:
        loss = loss_at(run, first.step)
        facts["first_not_finite"] = {
            "step": first.step,
            "parameter": first.parameter,
            "kind": first.kind,
            "loss": loss,
        }
    return table, facts
