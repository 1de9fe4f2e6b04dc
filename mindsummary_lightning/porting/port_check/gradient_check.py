"""``GradientCheck``: compares and replaces gradients of outputs and weights."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from mindsummary_lightning.porting.port_check.finding_log import (
    FindingLog,
    GradientPath,
    LoggedFinding,
)
from mindsummary_lightning.porting.port_check.findings import PortFinding
from mindsummary_lightning.porting.port_check.forward_check import ForwardCheck
from mindsummary_lightning.porting.port_check.port_frames import Frame, PairedCall, PairedOutput
from mindsummary_lightning.porting.port_check.reference_step import ReferenceStep
from mindsummary_lightning.porting.port_check.tensor_distance import (
    Array,
    moves_between_equal_elements,
    relative_distance,
    rms,
)
from mindsummary_lightning.porting.port_check.tolerances import (
    GRADIENT_FLOOR,
    SUM_ROUNDINGS,
    TOLERANCES,
)
from mindsummary_lightning.porting.port_check.weight_pairs import WeightPairs
from mindsummary_lightning.values.text import Phrase
from mindsummary_lightning.values.whole_step import StoredTensor

# of the greatest gradient of an output: smaller ones are compared on this scale
_LEAST_OUTPUT_GRADIENT = 1e-6


class GradientCheck:
    """Checks a backward pass of the port.

    Args:
        reference: the recorded step.
        forward: the forward pass, whose paired outputs receive gradients.
        weights: how the weights are paired.
        log: receives the findings.

    Attributes:
        agreed: how many gradients agreed.
        worst: greatest distance of an output's gradient that agreed.
        worst_weight: greatest distance of a weight's gradient that agreed.
        scale: factor of the port's gradients, as of a scaled loss.
        is_going_on: whether gradients arrive that the backward pass of the port has left out.
        needs_none: paths of outputs, by the order of entering their call, that nothing in them
            trains.
    """

    def __init__(
        self, reference: ReferenceStep, forward: ForwardCheck, weights: WeightPairs, log: FindingLog
    ) -> None:
        self._reference = reference
        self._forward = forward
        self._weights = weights
        self._log = log
        self._received: set[tuple[int, str]] = set()
        self._replaced: set[tuple[int, str]] = set()
        self._weights_received: set[str] = set()
        self._recorded_scale = reference.step.loss_scale
        self.agreed: int = 0
        self.worst: float = 0.0
        self.worst_weight: float = 0.0
        self.scale: float = 1.0
        self.is_going_on = False
        self.needs_none: set[tuple[int, str]] = set()
        outputs = [
            reference.size(each) for call in reference.step.calls for each in call.output_gradients
        ]
        gradients = [
            weight.gradient for weight in reference.step.weights if weight.gradient is not None
        ]
        self._output_floor = _LEAST_OUTPUT_GRADIENT * max(outputs, default=0.0)
        self._weight_floor = GRADIENT_FLOOR * max(map(reference.size, gradients), default=0.0)

    @property
    def _tolerance(self) -> float:
        return TOLERANCES[self._forward.precision].gradient

    # ---- outputs

    def output_gradient(
        self, call: PairedCall, output: PairedOutput, gradient: Array
    ) -> Array | None:
        """Compare the gradient that has reached an output.

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
        recorded = self._recorded(output.gradient)
        placed = self._placed(recorded, output, gradient)
        if placed is None:
            return None
        self._replaced.add(key)
        factor = self.scale / self._recorded_scale
        expected = placed * factor if factor != 1.0 else placed
        distance = relative_distance(expected, gradient, self._output_floor * factor)
        if distance <= self._tolerance:
            self.agreed += 1
            self.worst = max(self.worst, distance)
        elif call.is_random or self._passes_random(call, output):
            pass
        elif self._is_tie(output, recorded, placed, gradient / factor):
            self.agreed += 1
        else:
            self._report_output(call, output, distance, "gradient", gradient.shape)
        return expected

    def missing(self) -> Iterator[tuple[PairedCall, PairedOutput, Array]]:
        """Yield outputs without a gradient that the original has, the last first.

        Each missing gradient is reported. The third item is the gradient that should be passed on.
        """
        for call in reversed(self._forward.paired):
            for output in reversed(call.outputs):
                key = call.frame.entered, output.port
                if output.gradient is None or key in self._received or key in self.needs_none:
                    continue
                if self._reference.size(output.gradient) == 0.0:
                    continue
                self._received.add(key)
                recorded = self._recorded(output.gradient)
                self._report_output(call, output, np.inf, "no gradient", None)
                placed = output.layout.applied(recorded) if output.layout is not None else recorded
                yield call, output, placed * (self.scale / self._recorded_scale)

    def _recorded(self, tensor: StoredTensor) -> Array:
        return self._reference.array(tensor)

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

    def _passes_random(self, call: PairedCall, output: PairedOutput) -> bool:
        """Tell whether the gradient went through a module or code that is random."""
        regions, passed = self._regions(call, output)
        random = {each.frame.module.name for each in self._forward.paired if each.is_random}
        is_random_code = any(region is not None and region.has_drawn_at_all for region in regions)
        return is_random_code or bool(random.intersection(passed))

    def _report_output(
        self,
        call: PairedCall,
        output: PairedOutput,
        distance: float,
        kind: str,
        shape: tuple[int, ...] | None,
    ) -> None:
        regions, passed = self._regions(call, output)
        blamed, through = self._blamed(call, regions, output)
        name = call.frame.module.name or Phrase("the network")
        frame = next(
            (each for each in regions if each is not None and each.module.name == blamed), None
        )
        where = blamed or Phrase("the training step" if frame is None else "the network")
        if through:
            place: str = Phrase("backward pass of {}", where)
        else:
            place = Phrase("code of {} after {}", where, name)
        if kind == "no gradient":
            sentence = Phrase("No gradient reaches {}, in the original one does: {}.", name, place)
        else:
            sentence = Phrase(
                "The gradient that reaches {} differs by {:.1e} (tolerance {:.0e}): {}.",
                name, distance, self._tolerance, place,
            )  # fmt: skip
        is_missing = kind == "no gradient"
        finding = PortFinding(
            blamed, "no gradient" if is_missing else "gradient", place, distance,
            self._tolerance, sentence,
            call.frame.line, tuple(output.reference.shape), None if shape is None else tuple(shape),
            call.frame.number,
        )  # fmt: skip
        path = GradientPath(regions, passed, call.frame.left)
        self._log.add(LoggedFinding(finding, frame, call, call.frame.left, (path,)))

    def _regions(
        self, call: PairedCall, output: PairedOutput
    ) -> tuple[tuple[Frame | None, ...], tuple[str, ...]]:
        """Find the calls whose own code has used an output, and the modules it passed."""
        visible: list[Frame | None] = []
        frame: Frame | None = call.frame
        while frame is not None:
            parent = _paired_parent(frame)
            visible.append(parent)
            is_returned = parent is not None and self._returns(parent, output)
            frame = parent if is_returned else None
        recorded = self._reference.step.calls[call.reference]
        users = {
            index for index, _ in self._reference.consumers(output.reference, recorded.entered)
        }
        passed = [each for each in self._forward.paired if each.reference in users]
        for around in visible:
            passed.extend(self._fed_by_code(around, call.frame.left))
        used = self._used_in(passed)
        return (*visible, *used), tuple(each.module.name for each in used)

    def _paths_of(self, weight: str) -> tuple[GradientPath, ...]:
        """List the gradient paths of all uses of a weight.

        The list is empty if a use is unknown.
        """
        paths: list[GradientPath] = []
        for use in self._forward.uses.get(weight, ()):
            if not self._is_replaced_after(use.frame):
                return ()
            around = use.frame
            while around is not None and around.reference is None:
                around = around.parent
            used = self._used_in(self._fed_by_code(around, use.order))
            passed = tuple(each.module.name for each in used)
            paths.append(GradientPath((use.frame, *used), passed, use.order))
        return tuple(paths)

    def _is_replaced_after(self, frame: Frame | None) -> bool:
        """Tell whether the gradients of a paired call's outputs were replaced."""
        outputs = [
            (call.frame.entered, output.port)
            for call in self._forward.paired
            for output in call.outputs
            if call.frame is frame and output.gradient is not None
        ]
        return self._replaced.issuperset(outputs)

    def _likely_paths(self, module: str) -> tuple[GradientPath, ...]:
        """List probable gradient paths of a weight whose uses are unknown.

        They start at the calls that take the outputs of the weight's module.
        """
        own = [each for each in self._forward.paired if each.frame.module.name == module]
        fed = [user for each in own for user in self._fed_by_code(each.frame, each.frame.entered)]
        regions = (*(each.frame for each in own), *self._used_in(fed))
        return (GradientPath(regions),)

    def _used_in(self, users: list[PairedCall]) -> list[Frame]:
        """List calls, and inner calls fed by their inputs through code alone."""
        regions: list[Frame] = []
        done: set[int] = set()
        while users:
            user = users.pop()
            if id(user) not in done:
                done.add(id(user))
                regions.append(user.frame)
                users.extend(self._fed_by_code(user.frame, user.frame.entered))
                users.extend(self._fed_by_inputs(user))
        return regions

    def _has_code(self, frame: Frame) -> bool:
        """Tell whether a call has computations of its own.

        A call that only passes returned values to modules has none.
        """
        if frame.reference is None or not frame.has_compared_inside:
            return True
        calls = self._reference.step.calls
        own = calls[frame.reference]
        inside = [calls[each.reference] for each in self._calls_in(frame)]
        given = [*own.inputs, *(tensor for call in inside for tensor in call.outputs)]
        taken = [*own.outputs, *(tensor for call in inside for tensor in call.inputs)]
        return any(not self._is_among(tensor, given) for tensor in taken)

    def _is_among(self, tensor: StoredTensor, others: Sequence[StoredTensor]) -> bool:
        return any(self._reference.is_same(tensor, other) for other in others)

    def _returns(self, frame: Frame, output: PairedOutput) -> bool:
        """Tell whether a call returns the output of an inner call."""
        if frame.reference is None:
            return False
        outputs = self._reference.step.calls[frame.reference].outputs
        return any(self._reference.is_same(each, output.reference) for each in outputs)

    def _calls_in(self, around: Frame | None) -> list[PairedCall]:
        """List the paired calls in a call's own code.

        The code of containers that only the port has belongs to the call.
        """
        return [each for each in self._forward.paired if _paired_parent(each.frame) is around]

    def _fed_by_code(self, around: Frame | None, after: int) -> list[PairedCall]:
        """List later inner calls whose inputs the enclosing call's code computed."""
        calls = self._reference.step.calls
        is_computed = self._reference.is_computed_in_code
        found = []
        for call in self._calls_in(around):
            inputs = calls[call.reference].inputs
            if call.frame.entered > after and any(map(is_computed, inputs)):
                found.append(call)
        return found

    def _fed_by_inputs(self, user: PairedCall) -> list[PairedCall]:
        """List inner calls that get the enclosing call's inputs unchanged."""
        calls = self._reference.step.calls
        own = calls[user.reference].inputs
        found = []
        for call in self._calls_in(user.frame):
            pairs = itertools.product(calls[call.reference].inputs, own)
            if any(self._reference.is_same(tensor, mine) for tensor, mine in pairs):
                found.append(call)
        return found

    def _blamed(
        self, call: PairedCall, regions: tuple[Frame | None, ...], output: PairedOutput
    ) -> tuple[str, bool]:
        """Find the module through which a wrong gradient has passed.

        Also tells whether the module's own backward pass is wrong.
        """
        inside = {id(each) for each in (call.frame, *call.frame.ancestors())}
        users = [each for each in regions if each is not None and id(each) not in inside]
        custom = [each for each in users if not each.module.is_library and self._has_code(each)]
        if custom:
            innermost = max(custom, key=lambda each: len(each.ancestors()))
            is_leaf = not innermost.has_compared_inside
            return innermost.module.name, is_leaf
        last = regions[-1] if not users else regions[0]
        owner = next((each for each in regions if each is None or each.reference is not None), last)
        return "" if owner is None else owner.module.name, False

    # ---- weights

    def weight_gradient(
        self, name: str, gradient: Array, received: Array | None = None
    ) -> Array | None:
        """Compare the gradient that has reached a weight of the port.

        Args:
            name: of the weight.
            gradient: before clipping.
            received: the gradient before the weight's hooks; ``None`` if it has none.

        Returns:
            The gradient of the original in the port's shape; ``None`` if it is unknown.
        """
        self._weights_received.add(name)
        expected = self._expected_gradient(name)
        if expected is None:
            return None
        distance = self._weight_distance(name, expected, gradient)
        if distance <= self._tolerance:
            self.agreed += 1
            self.worst_weight = max(self.worst_weight, distance)
        elif not self._is_of_random_module(name):
            before_hooks = gradient
            if received is not None and self._report_hooks(name, received, gradient):
                before_hooks = received
            self._judge_received(name, expected, before_hooks)
        return expected

    def _judge_received(self, name: str, expected: Array, received: Array) -> None:
        """Compare a weight's gradient, before its hooks, with the original's."""
        distance = self._weight_distance(name, expected, received)
        if distance > self._tolerance:
            self._report_weight(name, distance, "weight gradient", received.shape)

    def _report_hooks(self, name: str, received: Array, gradient: Array) -> bool:
        """Report a gradient change by hooks that the original lacks.

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
        floor = max(self._weight_floor, self._rounding(name) / self._tolerance)
        return relative_distance(expected, gradient, floor * self.scale / self._recorded_scale)

    def missing_weights(self, wanted: Iterable[str]) -> Iterator[tuple[str, Array]]:
        """Report and yield weights without a gradient that the original has.

        Args:
            wanted: names of the parameters.
        """
        for name in wanted:
            if name in self._weights_received:
                continue
            expected = self._expected_gradient(name)
            if expected is not None and rms(expected) > self._weight_floor:
                self._report_weight(name, np.inf, "no gradient", None)
                yield name, expected

    def is_called(self, module: str) -> bool:
        """Tell whether a call of a module of the port was compared."""
        return any(each.frame.module.name == module for each in self._forward.paired)

    def _expected_gradient(self, name: str) -> Array | None:
        gradients = [
            self._reference.weights[each].gradient for each in self._weights.references(name)
        ]
        arrays = [self._recorded(each) for each in gradients if each is not None]
        if not arrays or len(arrays) < len(gradients):
            return None
        factor = self.scale / self._recorded_scale
        placed = self._weights.pairs[name].in_port(arrays)
        return placed * factor if factor != 1.0 else placed

    def _rounding(self, name: str) -> float:
        """Return the rounding of a weight's gradient.

        The gradient is a sum over all positions of an output.
        """
        module = name.rpartition(".")[0]
        largest = 0.0
        for each in self._forward.paired:
            if each.frame.module.name != module:
                continue
            call = self._reference.step.calls[each.reference]
            inputs = [
                self._reference.size(tensor) for tensor in call.inputs if "float" in tensor.dtype
            ]
            for gradient in call.output_gradients:
                terms = math.prod(gradient.shape) / self._rows(name)
                product = self._reference.size(gradient) * max([1.0, *inputs])
                largest = max(
                    largest,
                    SUM_ROUNDINGS
                    * TOLERANCES[self._forward.precision].unit
                    * math.sqrt(max(1.0, terms))
                    * product,
                )
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

    def _report_weight(
        self,
        name: str,
        distance: float,
        kind: str,
        shape: tuple[int, ...] | None,
    ) -> None:
        module = name.rpartition(".")[0]
        if kind == "no gradient":
            sentence = Phrase("No gradient reaches the weight {}, in the original one does.", name)
        else:
            sentence = Phrase(
                "The gradient of the weight {} differs by {:.1e} (tolerance {:.0e}). "
                "The gradient of its module's output agrees.",
                name, distance, self._tolerance,
            )  # fmt: skip
        reference = self._reference.weights[self._weights.references(name)[0]]
        is_missing = kind == "no gradient"
        finding = PortFinding(
            module, "no gradient" if is_missing else "weight gradient", Phrase("weight {}", name),
            distance, self._tolerance, sentence, "", tuple(reference.before.shape),
            None if shape is None else tuple(shape),
        )  # fmt: skip
        paths = self._paths_of(name)
        logged = LoggedFinding(
            finding,
            None,
            paths=paths or self._likely_paths(module),
            is_called=self.is_called(module),
            has_all_paths=bool(paths),
        )
        self._log.add(logged)


def _paired_parent(frame: Frame) -> Frame | None:
    """Return the innermost paired enclosing call; ``None`` for the step's code."""
    return next((each for each in frame.ancestors() if each.reference is not None), None)
