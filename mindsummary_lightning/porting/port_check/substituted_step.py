"""``SubstitutedStep``: checks a port's step on the original's values."""

from __future__ import annotations

from collections.abc import Sequence

from mindsummary_lightning.porting.port_check.call_pairs import CallPairs
from mindsummary_lightning.porting.port_check.finding_log import FindingLog
from mindsummary_lightning.porting.port_check.findings import NotPaired, NotTested
from mindsummary_lightning.porting.port_check.forward_check import ForwardCheck
from mindsummary_lightning.porting.port_check.gradient_check import GradientCheck
from mindsummary_lightning.porting.port_check.port_frames import PortModule
from mindsummary_lightning.porting.port_check.port_report import CheckedStep
from mindsummary_lightning.porting.port_check.reference_step import ReferenceStep
from mindsummary_lightning.porting.port_check.step_parts import PortWeight, StepParts
from mindsummary_lightning.porting.port_check.tolerances import TOLERANCES, coarsest
from mindsummary_lightning.porting.port_check.weight_pairs import WeightPairs, pair_weights
from mindsummary_lightning.values.text import Phrase, listed

_LISTED = 4
_LEAST_PAIRED = 0.5  # of the smaller side's weights: fewer are another architecture


class SubstitutedStep:
    """Receives the events of a step in order, and returns replacement values.

    Args:
        reference: the recorded step.
        modules: all modules of the port, the network first.
        weights: parameters and buffers of the port as the step begins.
        precision: coarsest precision of the port.
        pairs: how the weights are paired, if an earlier step knows it: the port's values are those
            of the first.

    Raises:
        ValueError: the weights are those of another architecture.

    Attributes:
        weights: how the weights are paired.
        forward: receives the module calls.
        gradients: receives the gradients.
        parts: receives batch, loss and update.
    """

    def __init__(
        self,
        reference: ReferenceStep,
        modules: Sequence[PortModule],
        weights: Sequence[PortWeight],
        precision: str,
        pairs: WeightPairs | None = None,
    ) -> None:
        self.reference: ReferenceStep = reference
        self._modules = modules
        self.weights: WeightPairs = _checked_pairs(reference, weights) if pairs is None else pairs
        coarser = coarsest({precision, reference.step.precision})
        self._log = FindingLog()
        self._pairs = CallPairs(reference, modules, self.weights, coarser)
        self.forward: ForwardCheck = ForwardCheck(reference, self._pairs, self._log, coarser)
        self.gradients: GradientCheck = GradientCheck(
            reference, self.forward, self.weights, self._log
        )
        self.parts: StepParts = StepParts(reference, self.weights, self._log, self.forward)
        self.parts.is_called = self.gradients.weights.is_called

    def finish(
        self, not_tested: Sequence[NotTested] = (), has_updated: bool = False
    ) -> CheckedStep:
        """Return the result of the step.

        ``not_tested`` lists the checks that the framework's side could not make. ``has_updated``:
        whether the port's optimizers have made the step's update.
        """
        for logged in self._log.logged:
            logged.finding.step = self.reference.step.step
        findings = self._log.folded()
        if self.reference.step.calls and not self.forward.paired:
            reason = Phrase("the step has called no module of the original")
            self.parts.not_tested.append(NotTested(Phrase("modules"), reason))
        unused = [
            NotPaired(
                call.module,
                call.kind,
                "reference",
                Phrase("no call of the port has its weights or inputs"),
            )
            for call in self._pairs.unused()
        ]
        return CheckedStep(
            step=self.reference.step.step,
            findings=findings,
            paired_calls=len(self.forward.paired),
            unpaired=[*self.forward.not_paired, *unused],
            agreed=self.forward.agreed + self.gradients.agreed + self.parts.agreed,
            not_tested=[*self.forward.not_tested, *self.parts.not_tested, *not_tested],
            tolerance=TOLERANCES[self.forward.precision],
            worst_output=self.forward.worst,
            worst_gradient=self.gradients.outputs.worst,
            worst_weight_gradient=self.gradients.weights.worst,
            weights=self.weights,
            modules=[(module.name, module.kind) for module in self._modules],
            paired_modules=sorted({call.frame.module.name for call in self.forward.paired}),
            has_updated=has_updated,
        )


def _checked_pairs(reference: ReferenceStep, weights: Sequence[PortWeight]) -> WeightPairs:
    recorded = {name: reference.array(weight.before) for name, weight in reference.weights.items()}
    own = {weight.name: weight.array for weight in weights}
    pairs = pair_weights(recorded, own)
    paired = len(pairs.pairs)
    smaller = min(len(recorded), len(own))
    if paired < _LEAST_PAIRED * smaller or (smaller > 0 and not paired):
        raise ValueError(
            f"the port's weights must fit the original's weights, got {paired} of {smaller} "
            "that fit. Without a "
            f"partner are {listed(pairs.only_port, _LISTED)} in the port and "
            f"{listed(pairs.only_reference, _LISTED)} in the original. "
            "Check the architecture, or the reference"
        )
    return pairs
