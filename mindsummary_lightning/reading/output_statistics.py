"""``OutputStatistics``: tables of statistics of every module's inputs and outputs."""

from __future__ import annotations

import contextlib
import math
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.errors import imported
from mindsummary_lightning.fileformat.output_rows import OUTPUT_ROWS_FILE, decode_output_rows
from mindsummary_lightning.fileio.regular import read_regular
from mindsummary_lightning.reading.followed_run import FollowedRun
from mindsummary_lightning.reading.parameter_tables import stacked_tables
from mindsummary_lightning.values.step_chain import (
    COLUMNS,
    OUTPUT_STATISTICS_TAG,
    SAMPLES,
    OutputRow,
)
from mindsummary_lightning.values.summary_values import owned
from mindsummary_lightning.values.text import Phrase

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, slots=True, eq=False)
class OutputStatistics:
    """The output statistics of every recorded step of a run.

    The parts are batch, weights, modules, loss, gradients and update.

    Attributes:
        steps: optimizer steps, int64, shape ``(s,)``.
        rows: descriptions of the ``r`` rows.
        columns: names of the ``c`` statistics. ``order`` is the row's place in the step; ``rms``,
            ``mean``, ``minimum``, ``maximum`` and ``zeros`` (a share, 0 to 1) are of the finite
            elements, ``non_finite`` counts the others; ``sample_0`` to ``sample_15`` are elements
            at the places of ``sample_places``.
        values: float64, shape ``(s, r, c)``; NaN where a row did not occur.
    """

    steps: NDArray[np.int64]
    rows: tuple[OutputRow, ...]
    columns: tuple[str, ...]
    values: NDArray[np.float64]

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", owned(self.steps, np.int64))
        object.__setattr__(self, "values", owned(self.values, np.float64))
        shape = (self.steps.size, len(self.rows), len(self.columns))
        if self.values.shape != shape:
            raise ValueError(
                f"values must have the shape (steps, rows, columns) = {shape}, got "
                f"{self.values.shape}"
            )

    def __repr__(self) -> str:
        steps, rows, columns = self.values.shape
        return f"{type(self).__name__}({steps} steps, {rows} rows, {columns} columns)"

    def rows_at(self, step: int) -> tuple[list[OutputRow], NDArray[np.float64]]:
        """Return a step's rows in order, and the rows' statistics, shape ``(n, c)``.

        Raises:
            ValueError: the step has no table.
        """
        if step not in self.steps:
            known = f"{self.steps.size} steps are recorded, the first is step {self.steps[0]}"
            raise ValueError(f"the output statistics of step {step} are not recorded; {known}")
        table = self.values[int(np.searchsorted(self.steps, step))]
        order = table[:, self.columns.index("order")]
        places = np.argsort(order, kind="stable")[: np.count_nonzero(~np.isnan(order))]
        return [self.rows[place] for place in places], table[places]

    def first_non_finite(self) -> tuple[int, OutputRow] | None:
        """Find the step and row in which the first non-finite number arose.

        It is the first row with such a number, in the order of its step. Of a module it is the
        first output with such a number whose inputs are finite. Inputs have it from elsewhere,
        unless they are the only such rows up to the outputs. A module's outputs come after the
        outputs of the modules that it holds.
        """
        for step in self.steps.tolist():
            bad = self._non_finite_rows(step)
            if any(row.port != "input" for row in bad):  # a mask may be infinite
                return step, _origin(bad)
        return None

    def _non_finite_rows(self, step: int) -> list[OutputRow]:
        rows, values = self.rows_at(step)
        counts = values[:, self.columns.index("non_finite")]
        return [row for row, count in zip(rows, counts.tolist(), strict=True) if count > 0]

    def to_pandas(self) -> pandas.DataFrame:
        """Return a table with one row per step and tensor, one column per statistic.

        Rows are in the order of the step.

        The index has ``step``, ``link``, ``name``, ``call``, ``port`` and ``path``.

        Raises:
            ImportError: pandas is not installed.
        """
        pandas = imported("pandas", "a table of output statistics")
        keys = []
        tables = []
        for step in self.steps.tolist():
            rows, values = self.rows_at(step)
            tables.append(values)
            for row in rows:
                keys.append((step, row.link, row.name, row.call, row.port, row.path))
        names = ["step", "link", "name", "call", "port", "path"]
        index = pandas.MultiIndex.from_tuples(keys, names=names)
        return pandas.DataFrame(np.concatenate(tables), index, list(self.columns))


def _origin(bad: list[OutputRow]) -> OutputRow:
    """Find the row of a step in which the non-finite numbers arose."""
    with_bad_inputs = set()
    outputs_end = len(bad)
    for number, row in enumerate(bad, 1):
        if row.link == "forward" and row.port == "input":
            with_bad_inputs.add((row.name, row.call))
        if row.port == "output":
            outputs_end = number
    for row in bad[:outputs_end]:
        if row.port != "input" and (row.name, row.call) not in with_bad_inputs:
            return row
    return bad[0]


def row_name(row: OutputRow) -> str:
    """Return a row's module name, call number, port (input or output) and path."""
    name = Phrase("{}{}", row.name, Phrase(" (call {})", row.call + 1)) if row.call else row.name
    port = Phrase(row.port) if row.link in ("forward", "settings") else ""
    parts = [part for part in (name, port, row.path) if part]
    return Phrase(" ".join(["{}"] * len(parts)), *parts)


def origin_text(step: int, row: OutputRow) -> Phrase:
    """Describe the tensor in which a non-finite number arose."""
    kinds = {
        "data": "the batch",
        "weights": "the weight",
        "gradients": "the gradient of",
        "clipped": "the clipped gradient of",
        "update": "the weight after",
        "forward": row.kind,
    }
    name = Phrase(kinds.get(row.link, f"the {row.link}"))
    tensor = row_name(row)
    if tensor:
        name = Phrase("{} {}", name, tensor)
    text = Phrase("{} at step {}", name, step)
    if row.line:
        text = Phrase("{}, called at {}", text, row.line)
    if (row.link, row.port) == ("forward", "output"):
        text = Phrase("{}, whose inputs are finite", text)
    return text


def output_rows(run_dir: str) -> list[OutputRow]:
    """Read the descriptions of all rows of output statistics; empty if unreadable."""
    with contextlib.suppress(OSError, ValueError):
        return decode_output_rows(read_regular(os.path.join(run_dir, OUTPUT_ROWS_FILE)))
    return []


def read_output_statistics(run: FollowedRun) -> OutputStatistics | None:
    """Read all output statistics of a run as of its last refresh.

    The result is ``None`` without tables, or without the file of rows.
    """
    rows = output_rows(run.run_dir)
    found = stacked_tables(run, OUTPUT_STATISTICS_TAG, len(COLUMNS), len(rows))
    return found and OutputStatistics(found[0], tuple(rows), COLUMNS, found[1])


def output_statistics_facts(
    run: FollowedRun, has_rows: bool
) -> tuple[OutputStatistics, dict[str, Any]] | None:
    """Return a run's statistics and the summary of them for JSON, or ``None``.

    ``has_rows`` includes the rows of the last step.
    """
    table = read_output_statistics(run)
    if table is None:
        return None
    first = table.first_non_finite()
    found = {"step": first[0], **asdict(first[1])} if first else None
    facts: dict[str, Any] = {
        "rows": len(table.rows),
        "steps": table.steps.tolist(),
        "first_not_finite": found,
    }
    if has_rows:
        last_step = []
        for row, values in zip(*table.rows_at(int(table.steps[-1])), strict=True):
            shown = asdict(row)
            for name, number in zip(COLUMNS[1:-SAMPLES], values[1:].tolist(), strict=False):
                shown[name] = None if math.isnan(number) else number
            last_step.append(shown)
        facts["last_step"] = last_step
    return table, facts
