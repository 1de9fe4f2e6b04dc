"""What ``show`` says of the statistics of a run's parameters: what went wrong first, and a heat map in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mindsummary_lightning.cli.output import Heading, blocks, columns, short_number
from mindsummary_lightning.conversion.heat_map import grouped, shaded_range
from mindsummary_lightning.reading.parameter_tables import ParameterTable
from mindsummary_lightning.values.text import counted

_MAX_ROWS, _MAX_LABEL = 30, 60


def parameter_lines(table: ParameterTable, facts: dict[str, Any]) -> Iterator[str]:
    """A heading, what went wrong first, and a row of blocks, a block a step, for each parameter or group of them."""
    yield ""
    yield Heading("Parameters")
    first = facts["first_not_finite"]
    if first:
        line = f"first not finite: the {first['kind']} of {first['parameter']} at step {first['step']}"
        yield f"  {line}, where the loss is {short_number(first['loss'])}"
    logarithms = table.gradient_logarithms().T
    names, numbers = grouped(table.parameters, logarithms, _MAX_ROWS)
    low, high = shaded_range(logarithms)
    steps = f"{counted(table.steps.size, 'step')}, {table.steps[0]} to {table.steps[-1]}"
    marks = blocks(np.array([low, high, np.inf, -np.inf]), low, high)
    yield (
        f"  log10 of the gradients' root mean square at {steps}; {marks[0]} {low:.1f} to {marks[1]} {high:.1f}, "
        f"{marks[2]} not finite, {marks[3]} zero"
    )
    what = "parameter" if len(names) == len(table.parameters) else "layers"
    rows = [
        [name if len(name) <= _MAX_LABEL else f"…{name[1 - _MAX_LABEL :]}", blocks(row, low, high), f"{row[-1]:.1f}"]
        for name, row in zip(names, numbers, strict=True)
    ]
    yield from (f"  {line}" for line in columns([[what, "steps", "last"], *rows]))
