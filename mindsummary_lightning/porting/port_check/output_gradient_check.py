"""``OutputGradientCheck``: compares and replaces gradients of outputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from mindsummary_lightning.porting.port_check.finding_log import (
    FindingLog,
    GradientPath,
    LoggedFinding,
)
from mindsummary_lightning.porting.port_check.findings import PortFinding
from mindsummary_lightning.porting.port_check.forward_check import ForwardCheck
from mindsummary_lightning.porting.port_check.gradient_paths import GradientPaths
from mindsummary_lightning.porting.port_check.gradient_scale import GradientScale
from mindsummary_lightning.porting.port_check.port_frames import PairedCall, PairedOutput
from mindsummary_lightning.porting.port_check.reference_step import ReferenceStep
from mindsummary_lightning.porting.port_check.tensor_distance import (
    Array,
    moves_between_equal_elements,
    relative_distance,
)
from mindsummary_lightning.porting.port_check.tolerances import TOLERANCES
from mindsummary_lightning.values.text import Phrase

# of the greatest gradient of an output: smaller ones are compared on this scale
_LEAST_OUTPUT_GRADIENT = 1e-6


class OutputGradientCheck:
    """Compares the gradients that reach outputs of the port's modules.

    Args:
        reference: the recorded step.
        forward: the forward pass, whose paired outputs receive gradients.
        paths: finds what a gradient has passed.
        scale: of both sides' gradients.
        log: takes the findings.

    Attributes:
        agreed: how many gradients agreed.
        worst: greatest distance of a gradient that agreed.
        is_going_on: whether gradients arrive that the backward pass of the port has left out.
        needs_none: paths of outputs, by the order of entering their call, that nothing in them
            trains.
    """

    def __init__(
        self,
        reference: ReferenceStep,
        forward: ForwardCheck,
        paths: GradientPaths,
        scale: GradientScale,
        log: FindingLog,
    ) -> None:
        self._reference = reference
        self._forward = forward
        self._paths = paths
        self._scale = scale
        self._log = log
        self._received: set[tuple[int, str]] = set()
        self.agreed: int = 0
        self.worst: float = 0.0
        self.is_going_on = False
        self.needs_none: set[tuple[int, str]] = set()
        largest = 0.0
        for call in reference.step.calls:
            largest = max([largest, *map(reference.size, call.output_gradients)])
        self._floor = _LEAST_OUTPUT_GRADIENT * largest

    @property
    def _tolerance(self) -> float:
        return TOLERANCES[self._forward.precision].gradient

    def check(self, call: PairedCall, output: PairedOutput, gradient: Array) -> Array | None:
        """Compare a gradient that reached an output, and return its replacement.

        Args:
            call: whose output it is.
            output: that has received it.
            gradient: of the output's shape in the port.

        Returns:
            The gradient that should be passed on; ``None`` for the port's own.
        """
        key = call.frame.entered, output.port
        is_again = self.is_going_on and key in self._received
        self._received.add(key)
        if output.gradient is None:
            return None
        if is_again:  # the whole gradient was passed on already
            return np.zeros_like(gradient)
        recorded = self._reference.array(output.gradient)
        placed = self._placed(recorded, output, gradient)
        if placed is None:
            return None
        self._paths.replaced.add(key)
        factor = self._scale.factor
        expected = placed * factor if factor != 1.0 else placed
        distance = relative_distance(expected, gradient, self._floor * factor)
        if distance <= self._tolerance:
            self.agreed += 1
            self.worst = max(self.worst, distance)
        elif call.is_random or self._paths.passes_random(call, output):
            pass
        elif self._is_tie(output, recorded, placed, gradient / factor):
            self.agreed += 1
        else:
            self._report(call, output, distance, "gradient", gradient.shape)
        return expected

    def missing(self) -> Iterator[tuple[PairedCall, PairedOutput, Array]]:
        """Yield outputs that lack a gradient that the original has, the last output first.

        Each missing gradient is reported. The third item is the gradient that should be passed on.
        """
        for call in reversed(self._forward.paired):
            for output in reversed(call.outputs):
                key = call.frame.entered, output.port
                is_settled = key in self._received or key in self.needs_none
                if output.gradient is None or is_settled:
                    continue
                if self._reference.size(output.gradient) == 0.0:
                    continue
                self._received.add(key)
                recorded = self._reference.array(output.gradient)
                self._report(call, output, np.inf, "no gradient", None)
                placed = output.layout.applied(recorded) if output.layout is not None else recorded
                yield call, output, placed * self._scale.factor

    def _placed(self, recorded: Array, output: PairedOutput, gradient: Array) -> Array | None:
        if output.layout is not None and output.layout.shape == gradient.shape:
            return output.layout.applied(recorded)
        return recorded if recorded.shape == gradient.shape else None

    def _is_tie(
        self, output: PairedOutput, recorded: Array, placed: Array, gradient: Array
    ) -> bool:
        """Tell whether a maximum of equal elements explains the difference."""
        values = self._reference.array(output.reference)
        if output.layout is not None and values.size == placed.size:
            values = output.layout.applied(values)
        return moves_between_equal_elements(values, placed, gradient)

    def _report(
        self,
        call: PairedCall,
        output: PairedOutput,
        distance: float,
        kind: Literal["no gradient", "gradient"],
        shape: tuple[int, ...] | None,
    ) -> None:
        regions, passed = self._paths.of_output(call, output)
        blame = self._paths.blamed(call, regions, output)
        blamed = blame.module
        name = call.frame.module.name or Phrase("the network")
        of_blamed = [each for each in regions if each is not None and each.module.name == blamed]
        frame = of_blamed[0] if of_blamed else None
        where = blamed or Phrase("the training step" if frame is None else "the network")
        if blame.is_own_backward:
            place: str = Phrase("backward pass of {}", where)
        else:
            place = Phrase("code of {} after {}", where, name)
        if kind == "no gradient":
            sentence = Phrase(
                "No gradient reaches {}, but in the original a gradient does: {}.", name, place
            )
        else:
            sentence = Phrase(
                "The gradient that reaches {} differs by {:.1e} (tolerance {:.0e}): {}.",
                name, distance, self._tolerance, place,
            )  # fmt: skip
        finding = PortFinding(
            blamed, kind, place, distance,
            self._tolerance, sentence,
            call.frame.line, tuple(output.reference.shape), None if shape is None else tuple(shape),
            call.frame.number,
        )  # fmt: skip
        path = GradientPath(regions, passed, call.frame.left)
        self._log.add(LoggedFinding(finding, frame, call, call.frame.left, (path,)))
