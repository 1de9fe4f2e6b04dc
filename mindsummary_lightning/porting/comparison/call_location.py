"""Finds the place in the code at which two paired module calls diverge.

The place is inside these calls, in unpaired calls that made their tensors, or around them.
"""

from __future__ import annotations

from typing import NamedTuple

from mindsummary_lightning.porting.comparison.divergence import DivergenceLocation
from mindsummary_lightning.porting.comparison.recorded_step import RecordedStep
from mindsummary_lightning.porting.comparison.step_pair import StepPair
from mindsummary_lightning.porting.comparison.step_pairing import RowIndices

_TRAINING_STEP = "training step"


class _Place(NamedTuple):
    name: str
    kind: str
    call: int


def locate(
    step: StepPair, call_a: int, call_b: int, rows: RowIndices, *, is_at_input: bool
) -> DivergenceLocation:
    """Find, in both runs, the innermost code in which the difference must arise.

    Args:
        step: the step.
        call_a: the diverging call of the baseline.
        call_b: the paired call of the candidate.
        rows: the rows that differ.
        is_at_input: whether they are inputs of the calls.
    """
    made_a, made_b = _producers(step, call_a, call_b, rows, is_at_input=is_at_input)
    around: tuple[int | None, int | None] = made_a, made_b
    if is_at_input:
        around = _calls_around(step, call_a, call_b)
    place_a = _place(step.a, around[0] if made_a == call_a else made_a)
    place_b = _place(step.b, around[1] if made_b == call_b else made_b)
    return DivergenceLocation(
        place_a.name,
        place_b.name,
        place_a.kind,
        place_b.kind,
        place_a.call,
        step.a.calls[made_a].line,
        step.b.calls[made_b].line,
        is_at_input or bool(step.a.within[made_a] or step.b.within[made_b]),
    )


def _producers(
    step: StepPair, call_a: int, call_b: int, rows: RowIndices, *, is_at_input: bool
) -> tuple[int, int]:
    """Return, for both runs, the unpaired call that computed the differing tensor.

    For inputs these calls come before the diverging calls, for outputs they are inside them.
    """
    calls, limit = step.calls, step.tolerance.row
    among_a = range(call_a) if is_at_input else sorted(step.a.within[call_a])
    among_b = range(call_b) if is_at_input else sorted(step.b.within[call_b])
    made_a = calls.unpaired_producer(rows[0], among_a, call_a, limit, of_baseline=True)
    made_b = calls.unpaired_producer(rows[1], among_b, call_b, limit, of_baseline=False)
    held_a, held_b = calls.held_a[made_a], calls.held_b[made_b]
    hold_others = held_a is not None and held_b is not None and held_a.layers != held_b.layers
    if hold_others and made_a != call_a and made_b != call_b:
        return call_a, call_b  # the code calls another one of the modules that both have
    return made_a, made_b


def _place(step: RecordedStep, call: int | None) -> _Place:
    if call is None:
        return _Place("", _TRAINING_STEP, 0)
    found = step.calls[call]
    return _Place(found.name, found.kind, found.number)


def _calls_around(step: StepPair, call_a: int, call_b: int) -> tuple[int | None, int | None]:
    """Return the innermost enclosing pair of calls that get equal inputs.

    ``None`` for the training step.
    """
    for outer in step.a.around(call_a):
        partner = step.calls.partner.get(outer)
        if partner is not None and _have_equal_inputs(step, outer, partner):
            return outer, partner
    return None, None


def _have_equal_inputs(step: StepPair, call_a: int, call_b: int) -> bool:
    inputs = step.calls.inputs(call_a, call_b)
    if inputs is not None:
        return not step.exceeds(*inputs)
    return not (step.a.calls[call_a].inputs and step.b.calls[call_b].inputs)
