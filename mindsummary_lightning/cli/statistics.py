"""Formats the lines about statistics that ``mindsummary show`` prints.

They name the first number that is not finite, and draw a heat map of the parameters.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mindsummary_lightning.cli.output import Heading, blocks, columns, cut, short_number
from mindsummary_lightning.conversion.heat_map import grouped, shaded_range
from mindsummary_lightning.reading.output_statistics import OutputStatistics, origin_text, row_name
from mindsummary_lightning.reading.parameter_tables import ParameterTable
from mindsummary_lightning.values.text import counted

_MAX_ROWS, _MAX_LABEL, _MAX_NAME = 30, 60, 44


def parameter_lines(table: ParameterTable, facts: dict[str, Any]) -> Iterator[str]:
    """Yield lines about parameters: the first non-finite number and a heat map.

    The map has a row for a parameter or a group of parameters, and a block for a step.
    """
    yield from ("", Heading("Parameters"))
    first = facts["first_not_finite"]
    if first:
        line = (
            f"first not finite: the {first['kind']} of {first['parameter']} at step {first['step']}"
        )
        yield f"  {line}, where the loss is {short_number(first['loss'])}"
    logarithms = table.gradient_logarithms().T
    names, numbers = grouped(table.parameters, logarithms, _MAX_ROWS)
    low, high = shaded_range(logarithms)
    marks = blocks(np.array([low, high, np.inf, -np.inf]), low, high)
    scale = f"{marks[0]} {low:.1f} to {marks[1]} {high:.1f}, {marks[2]} not finite, {marks[3]} zero"
    yield f"  log10 of the gradients' root mean square at {_steps(table)}; {scale}"
    rows = [["parameter" if len(names) == len(table.parameters) else "layers", "steps", "last"]]
    for name, row in zip(names, numbers, strict=True):
        rows.append(
            [cut(name, _MAX_LABEL, end=_MAX_LABEL - 1), blocks(row, low, high), f"{row[-1]:.1f}"]
        )
    yield from (f"  {line}" for line in columns(rows))


def output_statistics_lines(table: OutputStatistics, facts: dict[str, Any]) -> Iterator[str]:
    """Yield lines about output statistics: where non-finite numbers arose.

    The rows of the last step follow if they were requested.
    """
    yield from ("", Heading("Output statistics"))
    what = "of batch, weights, modules, loss, gradients and update"
    yield f"  {counted(len(table.rows), 'row')} {what} at {_steps(table)}"
    first = table.first_non_finite()
    if first is not None:
        yield f"  first not finite: {origin_text(*first)}"
    if "last_step" not in facts:
        return
    shown, rows = table.columns[1:8], []  # without order and samples
    for row, found in zip(table.rows_at(int(table.steps[-1]))[0], facts["last_step"], strict=True):
        numbers, shape = (
            (short_number(found[name]) for name in shown),
            " x ".join(map(str, row.shape)),
        )
        rows.append([row.link, cut(row_name(row), _MAX_NAME), row.kind, shape, *numbers, row.line])
    head = ["link", "name", "kind", "shape", *(name.replace("_", " ") for name in shown), "line"]
    yield from (f"  {line}" for line in columns([head, *rows], range(4, 4 + len(shown))))


def _steps(table: ParameterTable | OutputStatistics) -> str:
    return f"{counted(table.steps.size, 'step')}, {table.steps[0]} to {table.steps[-1]}"
