"""``GradientCheck``: checks the gradients of the port's backward pass."""

from __future__ import annotations

from mindsummary_lightning.porting.port_check.finding_log import FindingLog
from mindsummary_lightning.porting.port_check.forward_check import ForwardCheck
from mindsummary_lightning.porting.port_check.gradient_paths import GradientPaths
from mindsummary_lightning.porting.port_check.gradient_scale import GradientScale
from mindsummary_lightning.porting.port_check.output_gradient_check import OutputGradientCheck
from mindsummary_lightning.porting.port_check.reference_step import ReferenceStep
from mindsummary_lightning.porting.port_check.weight_gradient_check import WeightGradientCheck
from mindsummary_lightning.porting.port_check.weight_pairs import WeightPairs


class GradientCheck:
    """Checks the gradients in a backward pass of the port.

    Args:
        reference: the recorded step.
        forward: the forward pass, whose paired outputs receive gradients.
        weights: how the weights are paired.
        log: takes the findings.

    Attributes:
        scale: of both sides' gradients.
        outputs: takes the gradients of outputs.
        weights: takes the gradients of weights.
    """

    def __init__(
        self, reference: ReferenceStep, forward: ForwardCheck, weights: WeightPairs, log: FindingLog
    ) -> None:
        self.scale: GradientScale = GradientScale(recorded=reference.step.loss_scale)
        paths = GradientPaths(reference, forward)
        self.outputs: OutputGradientCheck = OutputGradientCheck(
            reference, forward, paths, self.scale, log
        )
        self.weights: WeightGradientCheck = WeightGradientCheck(
            reference, forward, weights, paths, self.scale, log
        )

    @property
    def agreed(self) -> int:
        """The number of gradients that agreed."""
        return self.outputs.agreed + self.weights.agreed
