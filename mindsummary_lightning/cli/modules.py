"""What ``show`` says of the chains of a run: the origin of the first number that is not finite, and a step's rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mindsummary_lightning.cli.output import Heading, columns, cut, short_number
from mindsummary_lightning.reading.followed_run import FollowedRun
from mindsummary_lightning.reading.module_tables import ModuleTable, origin_text, read_module_table, row_name
from mindsummary_lightning.values.step_chain import ChainRow
from mindsummary_lightning.values.text import counted

_MAX_NAME = 44
_SHOWN = ("elements", "rms", "mean", "minimum", "maximum", "zeros", "non_finite")


def module_facts(run: FollowedRun, has_rows: bool) -> tuple[ModuleTable, dict[str, Any]] | None:
    """The table of a run and what JSON says of it, if it has one; with the rows of its last step if asked for."""
    table = read_module_table(run)
    if table is None:
        return None
    first, last = table.first_non_finite(), int(table.steps[-1])
    facts: dict[str, Any] = {"rows": len(table.rows), "steps": table.steps.tolist(), "first_not_finite": None}
    if first is not None:
        facts["first_not_finite"] = {"step": first[0], **_place(first[1])}
    if has_rows:
        facts["last_step"] = [
            {**_place(row), **{name: _number(value) for name, value in zip(_SHOWN, values[1:].tolist(), strict=False)}}
            for row, values in zip(*table.chain(last), strict=True)
        ]
    return table, facts


def module_lines(table: ModuleTable, facts: dict[str, Any]) -> Iterator[str]:
    """A heading, where the first number that is not finite comes from, and the rows of the last step, if asked for."""
    yield ""
    yield Heading("Modules")
    steps = f"{counted(table.steps.size, 'step')}, {table.steps[0]} to {table.steps[-1]}"
    yield f"  {counted(len(table.rows), 'row')} of batch, weights, modules, loss, gradients and update at {steps}"
    first = table.first_non_finite()
    if first is not None:
        yield f"  first not finite: {origin_text(*first)}"
    if "last_step" not in facts:
        return
    rows = []
    for row, values in zip(*table.chain(int(table.steps[-1])), strict=True):
        numbers = [short_number(_number(value)) for value in values[1 : 1 + len(_SHOWN)].tolist()]
        rows.append(
            [row.link, cut(row_name(row), _MAX_NAME), row.kind, " x ".join(map(str, row.shape)), *numbers, row.line]
        )
    head = ["link", "name", "kind", "shape", *(name.replace("_", " ") for name in _SHOWN), "line"]
    for line in columns([head, *rows], range(4, 4 + len(_SHOWN))):
        yield f"  {line}"


def _place(row: ChainRow) -> dict[str, Any]:
    return {
        "link": row.link, "name": row.name, "kind": row.kind, "call": row.call, "port": row.port, "path": row.path,
        "dtype": row.dtype, "shape": list(row.shape), "line": row.line,
    }  # fmt: skip


def _number(value: float) -> float | None:
    return value if value == value else None
