"""``Divergence``: the first stage of a step at which two runs differ.

``Divergence`` also holds the location in the code.
"""

from __future__ import annotations

from typing import NamedTuple

from mindsummary_lightning.porting.comparison.pair_table import Stage
from mindsummary_lightning.values.step_chain import OutputRow


class RowPair(NamedTuple):
    """A row that both runs recorded, and the distance between its two recordings.

    For a gradient that only one run has, the row of the weight takes its place.
    """

    baseline: OutputRow
    candidate: OutputRow
    distance: float


class DivergenceLocation(NamedTuple):
    """The call of a module at which the values diverge.

    Attributes:
        baseline: name of the module in the baseline; ``""`` for the network.
        candidate: name of the module in the candidate.
        kind_baseline: class of the module in the baseline, or ``training step``.
        kind_candidate: class of the module in the candidate.
        call: number of the call in the step, from 0.
        line_baseline: file and line of the call in the baseline; ``""`` if unknown.
        line_candidate: file and line of the call in the candidate.
        is_between: whether the values diverge in the module's own code, outside of the compared
            modules inside it.
    """

    baseline: str
    candidate: str
    kind_baseline: str
    kind_candidate: str
    call: int
    line_baseline: str
    line_candidate: str
    is_between: bool


class SettingDifference(NamedTuple):
    """A setting that differs, with its values in both runs.

    It is a setting of an optimizer, a norm, or the number of losses.
    """

    name: str
    baseline: list[float]
    candidate: list[float]


class Divergence(NamedTuple):
    """The first stage of a step, such as the forward pass, at which two runs differ.

    Attributes:
        step: the step.
        stage: the stage; ``None`` if settings differ in a step that begins with different weights,
            so that it is not the first difference.
        tensors: rows beyond the tolerance, the largest distance first; of gradients the nearest to
            the loss first.
        location: where in the forward pass.
        last_match: the last row before it that agrees.
        settings: settings that differ in this step.
        has_gradients: whether gradients of the step were compared.
        tolerance: the tolerance that the first tensor exceeds; ``None`` for the tolerance of the
            precision.
    """

    step: int
    stage: Stage | None
    tensors: tuple[RowPair, ...]
    location: DivergenceLocation | None = None
    last_match: RowPair | None = None
    settings: tuple[SettingDifference, ...] = ()
    has_gradients: bool = True
    tolerance: float | None = None
