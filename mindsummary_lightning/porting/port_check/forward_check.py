"""``ForwardCheck``: compares and replaces the inputs and outputs of modules."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mindsummary_lightning.porting.port_check.call_pairs import CallPairs
from mindsummary_lightning.porting.port_check.finding_log import FindingLog, LoggedFinding
from mindsummary_lightning.porting.port_check.findings import NotPaired, NotTested
from mindsummary_lightning.porting.port_check.forward_findings import (
    code_words,
    input_finding,
    module_words,
    output_finding,
)
from mindsummary_lightning.porting.port_check.input_comparison import (
    Relation,
    TensorComparison,
    TensorPair,
    borders,
    compared,
    doubt_of,
    is_rounding,
    matched,
    returns_its_inputs,
)
from mindsummary_lightning.porting.port_check.kind_words import is_random_kind
from mindsummary_lightning.porting.port_check.other_ends import OtherEnd, OtherEnds
from mindsummary_lightning.porting.port_check.port_frames import (
    CallAnswer,
    Frame,
    PairedCall,
    PairedOutput,
    PortModule,
    PortTensor,
    WeightUse,
)
from mindsummary_lightning.porting.port_check.reference_step import ReferenceStep
from mindsummary_lightning.porting.port_check.tensor_distance import Array, Layout, layouts
from mindsummary_lightning.porting.port_check.tolerances import (
    TOLERANCES,
    PrecisionTolerance,
    coarsest,
)
from mindsummary_lightning.values.text import Phrase
from mindsummary_lightning.values.whole_step import StoredCall, StoredTensor

# outputs of a module, on the original's inputs, in float64
RunAgain = Callable[[], "list[Array] | None"]


class ForwardCheck:
    """Checks a forward pass of the port.

    Args:
        reference: the recorded step.
        pairs: of calls.
        log: receives the findings.
        precision: coarsest precision of both sides.

    Attributes:
        precision: coarsest precision of both sides so far.
        agreed: how many tensors agreed.
        worst: greatest distance of an output that agreed.
        paired: calls that were paired.
        not_paired: calls of the port that were not paired.
        not_tested: what was not judged.
        uses: where each weight of the port is used; without those whose use cannot be seen.
        keeps_sizes: modules whose outputs of another size are not replaced.
    """

    def __init__(
        self, reference: ReferenceStep, pairs: CallPairs, log: FindingLog, precision: str
    ) -> None:
        self._reference = reference
        self._calls: Sequence[StoredCall] = reference.step.calls
        self._pairs = pairs
        self._log = log
        self.precision: str = precision
        self._numbers: dict[str, int] = {}
        self._running: list[Frame] = []
        self._clock = 0
        self._random: object = None
        self._outside = Frame(PortModule("", ""), 0, None, "", [], 0)  # code of the training step
        self._other_ends = OtherEnds(reference)
        self.agreed: int = 0
        self.worst: float = 0.0
        self.paired: list[PairedCall] = []
        self.not_paired: list[NotPaired] = []
        self.not_tested: list[NotTested] = []
        self.uses: dict[str, list[WeightUse]] = {}
        self.keeps_sizes: frozenset[str] = frozenset()

    @property
    def running(self) -> Frame | None:
        """The innermost running call."""
        return self._running[-1] if self._running else None

    @property
    def innermost(self) -> Frame:
        """Return the innermost running call.

        Without a running call, the code of the training step.
        """
        return self._running[-1] if self._running else self._outside

    def enter(
        self, module: PortModule, inputs: list[PortTensor], line: str, random: object = None
    ) -> CallAnswer:
        """Begin a module call of the port, and compare its inputs.

        Args:
            module: that is called.
            inputs: its tensors.
            line: ``file.py:12`` that calls it.
            random: state of the random generator, or anything that changes when it does.

        Returns:
            Values that the module should run on.
        """
        self._note_random(random)
        number = self._numbers.get(module.name, 0)
        self._numbers[module.name] = number + 1
        self._clock += 1
        frame = Frame(module, number, self.running, line, inputs, self._clock)
        self._pairs.choose(frame)
        self._running.append(frame)
        if frame.reference is not None:
            return self._compare_inputs(frame, self._calls[frame.reference])
        if frame.candidates:
            return self._compare_inputs(frame, self._calls[frame.candidates[0]])
        return CallAnswer([None] * len(inputs), [False] * len(inputs))

    def leave(self, outputs: list[PortTensor], random: object, again: RunAgain) -> CallAnswer:
        """End the innermost module call, and compare its outputs.

        Args:
            outputs: its tensors.
            random: as for :meth:`enter`.
            again: runs the module once more, in float64.

        Returns:
            Values that the caller should get.
        """
        self._note_random(random)
        frame = self._running.pop()
        self._clock += 1
        frame.left = self._clock
        if frame.reference is None and frame.candidates:
            self._pairs.decide(frame, outputs)
        if frame.reference is None:
            self.not_paired.append(
                NotPaired(frame.module.name, frame.module.kind, "port", frame.reason)
            )
            return CallAnswer([None] * len(outputs), [False] * len(outputs))
        answer = self._compare_outputs(frame, self._calls[frame.reference], outputs, again)
        self._note_compared(frame)
        return answer

    def abort(self) -> None:
        """Discard the innermost call, which has raised an error."""
        self._running.pop()

    # ---- inputs

    def _compare_inputs(self, frame: Frame, call: StoredCall) -> CallAnswer:
        values: list[Array | None] = [None] * len(frame.inputs)
        heals = [False] * len(frame.inputs)
        pairs = matched(call.inputs, frame.inputs)
        if call.inputs and frame.inputs and not pairs:
            frame.has_fitting_inputs = False
        agreed = self.agreed
        for pair in pairs:
            for place, value, heal in self._compare_input(frame, pair):
                values[place] = value
                heals[place] = heal
        parent = frame.parent or self._outside
        if pairs and self.agreed == agreed + len(pairs):
            self._other_ends.forget(self._frame_or_none(parent))
        parent.has_drawn = False
        parent.has_compared_inside = True
        return CallAnswer(values, heals)

    def _compare_input(
        self, frame: Frame, pair: TensorPair
    ) -> list[tuple[int, Array | None, bool]]:
        """Compare an input in the original with the port's input or inputs.

        Returns places, values and whether to heal.
        """
        own = [frame.inputs[place] for place in pair.port]
        recorded = self._reference.array(pair.reference)
        tolerance = self._tolerance({each.dtype for each in own} | {pair.reference.dtype})
        port = own[0].array
        if len(own) > 1:
            port = np.concatenate([each.array for each in own], pair.axis)
        found = compared(recorded, port, tolerance.value)
        is_wrong = found.relation is Relation.DIFFERS
        if found.relation in (Relation.DIFFERS, Relation.OTHER_SIZE) and self._begins_elsewhere(
            pair.reference, own[0]
        ):
            frame.has_fitting_inputs = False
            return []
        if found.relation is Relation.DOUBTFUL:
            frame.doubts.append(doubt_of(pair.reference, own[0], found))
        elif found.relation is Relation.OTHER_SIZE:
            frame.has_fitting_inputs = False
            frame.doubts.append(doubt_of(pair.reference, own[0], found))
        elif is_wrong:
            self._report_input(frame, pair.reference, own[0], found, tolerance)
        else:
            self.agreed += 1
        if found.layout is None or found.distance == 0.0:
            return []
        placed = found.layout.applied(recorded)
        heals = is_wrong and not self._reference.has_value(port, tolerance.value)
        parts = [placed] if len(own) == 1 else np.split(placed, borders(own, pair.axis), pair.axis)
        return [(place, part, heals) for place, part in zip(pair.port, parts, strict=True)]

    def _begins_elsewhere(self, reference: StoredTensor, port: PortTensor) -> bool:
        """Tell whether an input has a different rank, but is recorded elsewhere.

        One package cuts an image into windows before it calls the attention, and another one does
        so inside.
        """
        if port.array.ndim == len(reference.shape) or port.array.dtype.kind != "f":
            return False
        tolerance = self._tolerance({port.dtype, reference.dtype}).value
        return self._reference.has_value(port.array, tolerance)

    def _report_input(
        self,
        frame: Frame,
        reference: StoredTensor,
        port: PortTensor,
        found: TensorComparison,
        tolerance: PrecisionTolerance,
        *,
        is_kept: bool = False,
    ) -> None:
        blamed = self._blamed(frame)
        if self._is_random_code(blamed):
            return
        other_end = self._other_ends.within(self._frame_or_none(blamed))
        if other_end is not None:
            self._report_other_end(other_end)
            return
        finding = input_finding(blamed, frame, reference, port, found, tolerance)
        # the module runs on the wrong input
        call = PairedCall(frame, self._index(frame), ()) if is_kept else None
        order = frame.left if is_kept else frame.entered
        self._log.add(LoggedFinding(finding, self._frame_or_none(blamed), call, order))

    def _blamed(self, frame: Frame) -> Frame:
        """Find the enclosing call whose own code computed an input."""
        for parent in frame.ancestors():
            is_compared = parent.reference is not None or parent.has_compared_inside
            if is_compared or self._has_known_inputs(parent):
                return parent
        return self._outside

    def _has_known_inputs(self, frame: Frame) -> bool:
        floats = [each for each in frame.inputs if each.array.dtype.kind == "f"]
        tolerance = self._tolerance({each.dtype for each in floats}).value
        return bool(floats) and all(
            self._reference.has_value(each.array, tolerance) for each in floats
        )

    # ---- outputs

    def _compare_outputs(
        self, frame: Frame, call: StoredCall, outputs: list[PortTensor], again: RunAgain
    ) -> CallAnswer:
        values: list[Array | None] = [None] * len(outputs)
        heals = [False] * len(outputs)
        paired: list[PairedOutput] = []
        is_random = is_random_kind(frame.module.kind) or is_random_kind(call.kind)
        gradients = {tensor.path: tensor for tensor in call.output_gradients}
        if returns_its_inputs(call):
            gradients = {}  # of an identity: other uses of its input may come before it or after it
        for pair in matched(call.outputs, outputs):
            if len(pair.port) > 1:
                continue
            place = pair.port[0]
            value, layout = self._compare_output(frame, call, pair.reference, outputs, place, again)
            values[place] = value
            gradient = gradients.get(pair.reference.path)
            if value is not None:
                paired.append(PairedOutput(outputs[place].path, pair.reference, layout, gradient))
        done = PairedCall(frame, self._index(frame), tuple(paired), is_random)
        self.paired.append(done)
        return CallAnswer(values, heals, done)

    def _index(self, frame: Frame) -> int:
        return -1 if frame.reference is None else frame.reference

    def _compare_output(
        self,
        frame: Frame,
        call: StoredCall,
        reference: StoredTensor,
        outputs: list[PortTensor],
        place: int,
        again: RunAgain,
    ) -> tuple[Array | None, Layout | None]:
        port = outputs[place]
        recorded = self._reference.array(reference)
        dtypes = {port.dtype, reference.dtype, *(each.dtype for each in frame.inputs)}
        tolerance = self._tolerance(dtypes)
        found = compared(recorded, port.array, tolerance.value)
        layout = found.layout or next(layouts(reference.shape, port.array.shape), None)
        value = None if layout is None else layout.applied(recorded)
        if found.relation in (Relation.AGREES, Relation.SKIPPED):
            self.agreed += 1
            self.worst = max(self.worst, found.distance if found.distance < np.inf else 0.0)
            return (None if found.layout is None else value), layout
        if not frame.has_fitting_inputs and layout is None:
            # as a slice before the module instead of after it: what follows is judged
            return None, None
        if self._has_reason(frame, call, tolerance):
            return value, layout
        if self._other_ends.take(frame, call, reference, port, tolerance):
            return None, None
        is_other_size = found.relation is Relation.OTHER_SIZE
        if not is_other_size and is_rounding(
            recorded, [each.array for each in outputs], place, again
        ):
            self.agreed += 1
            return value, layout
        self._report_output_or_end(frame, reference, port, found, tolerance)
        return (
            (self._of_other_size(frame, recorded, port), None) if is_other_size else (value, layout)
        )

    def _of_other_size(self, frame: Frame, recorded: Array, port: PortTensor) -> Array | None:
        """Return the original's output to replace an output of a different size.

        Later calls run on it.
        """
        is_kept = frame.module.name in self.keeps_sizes or recorded.ndim != port.array.ndim
        return None if is_kept else recorded

    def _has_reason(self, frame: Frame, call: StoredCall, tolerance: PrecisionTolerance) -> bool:
        """Report random numbers or doubtful inputs if they explain a wrong output.

        Returns whether there are any.
        """
        if self._is_random_output(frame, call):
            return True
        if not frame.doubts and frame.has_fitting_inputs:
            return False
        self._report_doubts(frame, tolerance)
        return True

    def _report_output_or_end(
        self, frame: Frame, reference: StoredTensor, port: PortTensor, found: TensorComparison,
        tolerance: PrecisionTolerance,
    ) -> None:  # fmt: skip
        inner = self._other_ends.within(frame)
        if inner is None:
            self._report_output(frame, reference, port, found, tolerance)
        else:
            self._report_other_end(inner)

    def _report_output(
        self,
        frame: Frame,
        reference: StoredTensor,
        port: PortTensor,
        found: TensorComparison,
        tolerance: PrecisionTolerance,
    ) -> None:
        partner = self._reference.modules.get(self._calls[self._index(frame)].module)
        finding = output_finding(frame, partner, reference, port, found, tolerance)
        call = PairedCall(frame, self._index(frame), ())
        has_other_mode = partner is not None and partner.is_training != frame.module.is_training
        self._log.add(
            LoggedFinding(finding, frame, call, frame.left, has_other_mode=has_other_mode)
        )

    def _report_doubts(self, frame: Frame, tolerance: PrecisionTolerance) -> None:
        """Report the doubtful inputs of a call, because its output is wrong."""
        for doubt in frame.doubts:
            relation = Relation.OTHER_SIZE if doubt.distance == np.inf else Relation.DIFFERS
            found = TensorComparison(relation, doubt.distance)
            self._report_input(frame, doubt.reference, doubt.port, found, tolerance, is_kept=True)
        frame.doubts.clear()

    def _report_other_end(self, other: OtherEnd) -> None:
        self._other_ends.remove(other)
        distance = compared(
            self._reference.array(other.reference), other.port.array, other.tolerance.value
        ).distance
        found = TensorComparison(Relation.DIFFERS, distance)
        self._report_output(other.frame, other.reference, other.port, found, other.tolerance)

    # ---- random numbers

    def _note_random(self, random: object) -> None:
        if random != self._random and self._random is not None:
            self.innermost.has_drawn = True
            for frame in self._running:
                frame.has_drawn_at_all = True
        self._random = random

    def _is_random_code(self, blamed: Frame) -> bool:
        """Tell whether random numbers explain a difference, and note that."""
        if not blamed.has_drawn:
            return False
        call = None if blamed.reference is None else self._calls[blamed.reference]
        if call is not None and call.draws_random is False:
            return False
        self._not_tested(
            Phrase("code of {}", code_words(blamed)),
            Phrase("it draws random numbers; set the probability of its dropout to 0"),
        )
        return True

    def _is_random_output(self, frame: Frame, call: StoredCall) -> bool:
        draws = frame.has_drawn if frame.has_compared_inside else frame.has_drawn_at_all
        if not draws and not is_random_kind(call.kind):
            return False
        if call.draws_random is False or self._reference.leaves_its_input(call):
            return False
        self._not_tested(
            Phrase("{} ({})", module_words(frame.module.name), frame.module.kind),
            Phrase("it draws random numbers; set its probability to 0 in both models"),
        )
        return True

    def _not_tested(self, what: str, reason: str) -> None:
        new = NotTested(what, reason)
        if new not in self.not_tested:
            self.not_tested.append(new)

    def note_operation(self, operation: object) -> None:
        """Note that a function was called in the innermost call's own code."""
        self.innermost.operations.append(operation)  # type: ignore[arg-type]

    def note_precision(self, precision: str) -> None:
        """Note the precision with which the port's code computes."""
        if precision in TOLERANCES:
            self.precision = coarsest({precision, self.precision})

    def note_use(self, weight: str) -> None:
        """Note that a function uses a weight in the innermost call's own code."""
        uses = self.uses.setdefault(weight, [])
        if uses:
            last = uses[-1]
            if last.frame is self.running and last.order == self._clock:
                return
        uses.append(WeightUse(self.running, self._clock))

    def _note_compared(self, frame: Frame) -> None:
        parent = frame.parent or self._outside
        parent.last = frame.module.name
        parent.has_compared_inside = True
        parent.has_drawn = False
        parent.operations.clear()

    def _tolerance(self, dtypes: set[str]) -> PrecisionTolerance:
        """Return the tolerance for the given dtypes and the coarsest precision so far."""
        floats = {dtype for dtype in dtypes if dtype in TOLERANCES}
        self.precision = coarsest(
            {*floats, self.precision} - {"float64"} if floats != {"float64"} else floats
        )
        return TOLERANCES[self.precision]

    def _frame_or_none(self, frame: Frame) -> Frame | None:
        return None if frame is self._outside else frame
