"""Draws the module calls of a step as an HTML tree that can be folded.

A call contains the calls that were made inside it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mindsummary_lightning.porting.comparison.distances import Floats
from mindsummary_lightning.porting.comparison.divergence import Divergence
from mindsummary_lightning.porting.comparison.pair_table import PairRow
from mindsummary_lightning.porting.comparison.recorded_step import Call
from mindsummary_lightning.porting.comparison.row_text import both, module_text, pair_text
from mindsummary_lightning.porting.comparison.step_comparison import StepComparison
from mindsummary_lightning.values.text import Phrase


def call_tree(step: StepComparison, divergence: Divergence | None, say: Callable[..., str]) -> str:
    """Draw the baseline's module calls as a tree, unfolded at the diverging call.

    Calls that only the candidate has are not drawn. The table of stages counts them.
    """
    baseline = step.pair.a
    rows = _rows_by_call(step)
    diverging = _diverging_call(baseline.calls, divergence)
    inner: list[str] = [""] * len(baseline.calls)
    top = ""
    for index, call in enumerate(baseline.calls):
        row = rows.get((call.name, call.number))
        text = _call_text(step, index, row)
        state = _state(row, step.pair.tolerance.row, divergence)
        if divergence is not None and index == diverging:
            text, state = Phrase("{}; {}", text, pair_text(divergence.tensors[0])), "first"
        label = f'<span class="{state}">{say(text)}</span>'
        is_open = index == diverging or diverging in baseline.within[index]
        drawn = _folded(label, inner[index], is_open=is_open)
        around = baseline.parents[index]
        if around is None:
            top += drawn
        else:
            inner[around] += drawn
    return top


def _folded(label: str, inner: str, *, is_open: bool) -> str:
    """Draw a module call; a call with inner calls can be unfolded."""
    if not inner:
        return f"<div>{label}</div>"
    opened = " open" if is_open else ""
    return f"<details{opened}><summary>{label}</summary>{inner}</details>"


def output_distances(step: StepComparison) -> Floats:
    """Return the distance between the outputs of every call pair, in call order.

    A difference without an effect on loss and gradients is NaN.
    """
    distances = [row.distance for row in step.table.of("forward") if row.is_paired]
    return np.array(distances, np.float64)


def _rows_by_call(step: StepComparison) -> dict[tuple[str, int], PairRow]:
    rows = {}
    for row in step.table.of("forward"):
        if row.baseline is not None and row.candidate is not None:
            rows[row.baseline.name, row.baseline.call] = row
    return rows


def _diverging_call(calls: list[Call], divergence: Divergence | None) -> int:
    if divergence is None or divergence.location is None:
        return -1
    row = divergence.tensors[0].baseline
    for index, call in enumerate(calls):
        if (call.name, call.number) == (row.name, row.call):
            return index
    return -1


def _state(row: PairRow | None, tolerance: float, divergence: Divergence | None) -> str:
    """Return the CSS class of a call, which has a colour and a sign.

    A call may differ by more than the tolerance of the step because its inputs or weights do.
    """
    if row is None or (row.relation == "exceeds" and divergence is not None):
        return "apart"
    return "explained" if row.distance > tolerance else "agrees"


def _call_text(step: StepComparison, index: int, row: PairRow | None) -> str:
    call = step.pair.a.calls[index]
    text = module_text(call.name, call.kind)
    partner = step.pair.calls.partner.get(index)
    if partner is None or row is None:
        return Phrase("{}: not paired", text)
    candidate = step.pair.b.calls[partner]
    names = both(text, module_text(candidate.name, candidate.kind))
    if np.isnan(row.distance):
        return Phrase("{}: no effect", names)
    return Phrase("{}: {:.1e}", names, row.distance)
