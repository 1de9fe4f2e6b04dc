"""``WeightGradientCheck``: compares the gradients of weights."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Literal

import numpy as np

from mindsummary_lightning.porting.port_check.finding_log import FindingLog, LoggedFinding
from mindsummary_lightning.porting.port_check.findings import PortFinding
from mindsummary_lightning.porting.port_check.forward_check import ForwardCheck
from mindsummary_lightning.porting.port_check.gradient_paths import GradientPaths
from mindsummary_lightning.porting.port_check.gradient_scale import GradientScale
from mindsummary_lightning.porting.port_check.reference_step import ReferenceStep
from mindsummary_lightning.porting.port_check.tensor_distance import (
    Array,
    relative_distance,
    rms,
)
from mindsummary_lightning.porting.port_check.tolerances import (
    GRADIENT_FLOOR,
    SUM_ROUNDINGS,
    TOLERANCES,
    PrecisionTolerance,
)
from mindsummary_lightning.porting.port_check.weight_pairs import WeightPairs
from mindsummary_lightning.values.text import Phrase
from mindsummary_lightning.values.whole_step import StoredCall


class WeightGradientCheck:
    """Compares the gradients that reach weights of the port.

    Args:
        reference: the recorded step.
        forward: the forward pass.
        weights: how the weights are paired.
        paths: finds what a gradient has passed.
        scale: of both sides' gradients.
        log: takes the findings.

    Attributes:
        agreed: how many gradients agreed.
        worst: greatest distance of a gradient that agreed.
    """

    def __init__(
        self,
        reference: ReferenceStep,
        forward: ForwardCheck,
        weights: WeightPairs,
        paths: GradientPaths,
        scale: GradientScale,
        log: FindingLog,
    ) -> None:
        self._reference = reference
        self._forward = forward
        self._weights = weights
        self._paths = paths
        self._scale = scale
        self._log = log
        self._received: set[str] = set()
        self.agreed: int = 0
        self.worst: float = 0.0
        largest = 0.0
        for weight in reference.step.weights:
            if weight.gradient is not None:
                largest = max(largest, reference.size(weight.gradient))
        self._floor = GRADIENT_FLOOR * largest

    @property
    def _precision(self) -> PrecisionTolerance:
        return TOLERANCES[self._forward.precision]

    @property
    def _tolerance(self) -> float:
        return self._precision.gradient

    def check(self, name: str, gradient: Array, received: Array | None = None) -> Array | None:
        """Compare a gradient that reached a weight, and return its replacement.

        Args:
            name: of the weight.
            gradient: before clipping.
            received: the gradient before the weight's hooks; ``None`` if it has none.

        Returns:
            The gradient of the original in the port's shape; ``None`` if it is unknown.
        """
        self._received.add(name)
        expected = self._expected_gradient(name)
        if expected is None:
            return None
        distance = self._weight_distance(name, expected, gradient)
        if distance <= self._tolerance:
            self.agreed += 1
            self.worst = max(self.worst, distance)
        elif not self._is_of_random_module(name):
            before_hooks = gradient
            if received is not None and self._report_hooks(name, received, gradient):
                before_hooks = received
            self._judge_received(name, expected, before_hooks)
        return expected

    def missing(self, wanted: Iterable[str]) -> Iterator[tuple[str, Array]]:
        """Report and yield weights that lack a gradient that the original has.

        Args:
            wanted: names of the parameters.
        """
        for name in wanted:
            if name in self._received:
                continue
            expected = self._expected_gradient(name)
            if expected is not None and rms(expected) > self._floor:
                self._report(name, np.inf, "no gradient", None)
                yield name, expected

    def is_called(self, module: str) -> bool:
        """Tell whether any call of a port's module was compared."""
        return any(each.frame.module.name == module for each in self._forward.paired)

    def _judge_received(self, name: str, expected: Array, received: Array) -> None:
        """Compare a weight's gradient, before its hooks, with the original's."""
        distance = self._weight_distance(name, expected, received)
        if distance > self._tolerance:
            self._report(name, distance, "weight gradient", received.shape)

    def _report_hooks(self, name: str, received: Array, gradient: Array) -> bool:
        """Report a gradient that was changed by a hook that the original does not have.

        Returns whether there is a change.
        """
        originals = [self._reference.weights[each] for each in self._weights.references(name)]
        distance = self._weight_distance(name, received, gradient)
        is_unknown = any(original.is_hooked is not False for original in originals)
        if is_unknown or distance <= self._tolerance:
            return False
        sentence = Phrase(
            "A hook on the weight {} changes its gradient by {:.1e} (tolerance {:.0e}). "
            "The original has no hook there.",
            name, distance, self._tolerance,
        )  # fmt: skip
        finding = PortFinding(
            name.rpartition(".")[0], "weight gradient", Phrase("hook of weight {}", name), distance,
            self._tolerance, sentence, "", tuple(originals[0].before.shape), gradient.shape,
        )  # fmt: skip
        self._log.add(LoggedFinding(finding, None, is_of_hook=True))
        return True

    def _weight_distance(self, name: str, expected: Array, gradient: Array) -> float:
        floor = max(self._floor, self._rounding(name) / self._tolerance)
        return relative_distance(
            expected, gradient, floor * self._scale.port / self._scale.recorded
        )

    def _expected_gradient(self, name: str) -> Array | None:
        arrays: list[Array] = []
        for source in self._weights.references(name):
            gradient = self._reference.weights[source].gradient
            if gradient is None:
                return None
            arrays.append(self._reference.array(gradient))
        if not arrays:
            return None
        factor = self._scale.factor
        placed = self._weights.pairs[name].in_port(arrays)
        return placed * factor if factor != 1.0 else placed

    def _rounding(self, name: str) -> float:
        """Return how large an error rounding can make in a weight's gradient.

        The gradient is a sum over all positions of an output.
        """
        module = name.rpartition(".")[0]
        largest = 0.0
        for each in self._forward.paired:
            if each.frame.module.name != module:
                continue
            call = self._reference.step.calls[each.reference]
            input_size = self._largest_input(call)
            for gradient in call.output_gradients:
                terms = math.prod(gradient.shape) / self._rows(name)
                roundings = SUM_ROUNDINGS * self._precision.unit * math.sqrt(max(1.0, terms))
                product = self._reference.size(gradient) * input_size
                largest = max(largest, roundings * product)
        return largest

    def _largest_input(self, call: StoredCall) -> float:
        """Return the root mean square of a call's largest input, at least 1."""
        largest = 1.0
        for tensor in call.inputs:
            if "float" in tensor.dtype:
                largest = max(largest, self._reference.size(tensor))
        return largest

    def _rows(self, name: str) -> int:
        shape = self._reference.weights[self._weights.references(name)[0]].before.shape
        return max(1, shape[0]) if shape else 1

    def _is_of_random_module(self, name: str) -> bool:
        module = name.rpartition(".")[0]
        return any(
            each.frame.has_drawn_at_all and each.frame.module.name == module
            for each in self._forward.paired
        )

    def _report(
        self,
        name: str,
        distance: float,
        kind: Literal["no gradient", "weight gradient"],
        shape: tuple[int, ...] | None,
    ) -> None:
        module = name.rpartition(".")[0]
        if kind == "no gradient":
            sentence = Phrase(
                "No gradient reaches the weight {}, but in the original a gradient does.", name
            )
        else:
            sentence = Phrase(
                "The gradient of the weight {} differs by {:.1e} (tolerance {:.0e}). "
                "The gradient of its module's output agrees.",
                name, distance, self._tolerance,
            )  # fmt: skip
        reference = self._reference.weights[self._weights.references(name)[0]]
        finding = PortFinding(
            module, kind, Phrase("weight {}", name),
            distance, self._tolerance, sentence, "", tuple(reference.before.shape),
            None if shape is None else tuple(shape),
        )  # fmt: skip
        paths = self._paths.of_weight(name)
        logged = LoggedFinding(
            finding,
            None,
            paths=paths or self._paths.likely_of(module),
            is_called=self.is_called(module),
            has_all_paths=bool(paths),
        )
        self._log.add(logged)
