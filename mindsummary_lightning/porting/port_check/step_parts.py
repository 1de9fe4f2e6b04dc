"""``StepParts``: compares the batch, initial weights, loss and update of a step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from mindsummary_lightning.porting.port_check.finding_log import (
    AT_THE_END,
    FindingLog,
    LoggedFinding,
)
from mindsummary_lightning.porting.port_check.findings import NotTested, PortFinding
from mindsummary_lightning.porting.port_check.forward_check import ForwardCheck
from mindsummary_lightning.porting.port_check.input_comparison import Relation, compared, matched
from mindsummary_lightning.porting.port_check.port_frames import PortTensor
from mindsummary_lightning.porting.port_check.reference_step import ReferenceStep
from mindsummary_lightning.porting.port_check.tensor_distance import (
    Array,
    layouts,
    relative_distance,
    rms,
)
from mindsummary_lightning.porting.port_check.tolerances import (
    GRADIENT_FLOOR,
    TOLERANCES,
    UPDATE_ROUNDINGS,
    PrecisionTolerance,
    tolerance_of,
    unit_of,
)
from mindsummary_lightning.porting.port_check.weight_pairs import WeightPairs
from mindsummary_lightning.values.text import Phrase, listed
from mindsummary_lightning.values.whole_step import StoredTensor, StoredWeight

_MOST_WEIGHTS = 5  # differing weights that are listed one by one, however few there are
# of all weights: more that differ were not transferred at all, the others begin as constants
_MOST_SHARE = 0.3
_MOST_NAMED = 3
# relative distance of a weight that was transferred, through text or half precision it is more
_EQUAL_WEIGHT = 1e-6


@dataclass(frozen=True, slots=True)
class PortWeight:
    """A parameter or buffer of the port."""

    name: str
    array: Array
    dtype: str


@dataclass(slots=True, eq=False)
class _Updates:
    """The parameter updates that differ, and whether any parameter changed at all."""

    wrong: list[PortFinding] = field(default_factory=list)
    unchanged: list[PortFinding] = field(default_factory=list)
    moved: bool = False


class StepParts:
    """Checks of a step that concern no module calls.

    Args:
        reference: the recorded step.
        weights: how the weights are paired.
        log: receives the findings.
        forward: the forward pass, which knows the coarsest precision so far.

    Attributes:
        agreed: how many tensors agreed.
        not_tested: checks that were not made.
        is_called: whether a call of a module was compared.
    """

    def __init__(
        self, reference: ReferenceStep, weights: WeightPairs, log: FindingLog, forward: ForwardCheck
    ) -> None:
        self._forward = forward
        self._reference = reference
        self._weights = weights
        self._log = log
        self.agreed: int = 0
        self.not_tested: list[NotTested] = []
        self.is_called: Callable[[str], bool] = lambda module: True
        self._stepped: PortFinding | None = None  # of the gradients that the optimizer gets

    @property
    def _tolerance(self) -> PrecisionTolerance:
        return TOLERANCES[self._forward.precision]

    # ---- batch

    def batch(
        self, number: int, tensors: Sequence[PortTensor], line: str = ""
    ) -> list[Array | None]:
        """Compare the batch from the port's own data loader with the recorded batch.

        Returns:
            The recorded values in the port's shapes; ``None`` where the batch has no such tensor.
        """
        values: list[Array | None] = [None] * len(tensors)
        if number >= len(self._reference.step.batches):
            self._report_batch_count(number)
            return values
        recorded = self._reference.step.batches[number]
        pairs = matched(recorded, tensors)
        for pair in pairs:
            if len(pair.port) != 1:
                continue
            place = pair.port[0]
            values[place] = self._compare_batch(pair.reference, tensors[place])
        taken = {pair.reference.array for pair in pairs}
        for tensor in recorded:
            if tensor.array not in taken:
                self._report_missing_batch(tensor, tensors)
        return values

    def _compare_batch(self, reference: StoredTensor, port: PortTensor) -> Array | None:
        array = self._reference.array(reference)
        tolerance = tolerance_of({reference.dtype, port.dtype}).value
        found = compared(array, port.array, tolerance, may_transpose=False)
        layout = next(iter(layouts(reference.shape, port.array.shape)), None)
        if found.relation is Relation.AGREES:
            self.agreed += 1
        else:
            distance = found.distance
            what = reference.path or port.path or "0"
            sentence = Phrase(
                "The port's own batch differs in {} by {:.1e}. "
                "The check goes on with the recorded batch.",
                what, distance,
            )  # fmt: skip
            finding = PortFinding(
                "", "data", Phrase("batch, tensor {}", what), distance, tolerance, sentence, "",
                tuple(reference.shape), tuple(port.array.shape), step=self._reference.step.step,
            )  # fmt: skip
            self._log.add(LoggedFinding(finding, None))
        return None if layout is None else layout.applied(array)

    def _report_missing_batch(self, tensor: StoredTensor, tensors: Sequence[PortTensor]) -> None:
        shapes = [[*each.array.shape] for each in tensors]
        sentence = Phrase(
            "The port's batch has no tensor that fits the original's {} of shape {}. The "
            "port's shapes are {}.",
            tensor.path or "0", [*tensor.shape], shapes,
        )  # fmt: skip
        finding = PortFinding(
            "", "data", Phrase("batch, tensor {}", tensor.path or "0"), np.inf,
            self._tolerance.value, sentence, shape_reference=tuple(tensor.shape),
            step=self._reference.step.step,
        )  # fmt: skip
        self._log.add(LoggedFinding(finding, None))

    def _report_batch_count(self, number: int) -> None:
        count = len(self._reference.step.batches)
        sentence = Phrase(
            "The port's step uses more than {} batches, the number in the original's step.", count
        )
        for each in self._log.logged:
            if each.finding.place == "batches":
                return
        finding = PortFinding(
            "", "data", Phrase("batches"), np.inf, 0.0, sentence, step=self._reference.step.step
        )
        self._log.add(LoggedFinding(finding, None))

    # ---- weights as the step begins

    def weights_before(self, weights: Sequence[PortWeight], is_judged: bool) -> dict[str, Array]:
        """Compare the port's weights with the recorded weights.

        Args:
            weights: of the port.
            is_judged: whether they should be equal already.

        Returns:
            The recorded weights by the port's names, in the port's shapes.
        """
        given: dict[str, Array] = {}
        differing: list[PortFinding] = []
        for weight in weights:
            found = self._recorded_weight(weight)
            if found is None:
                continue
            reference, array = found
            given[weight.name] = array
            distance = relative_distance(array, weight.array)
            if distance <= max(_EQUAL_WEIGHT, unit_of(weight.dtype)):
                self.agreed += 1
            elif is_judged:
                differing.append(self._weight_finding(weight, reference, distance))
        self._report_weights(differing, len(weights))
        if not is_judged:
            self.not_tested.append(
                NotTested(
                    Phrase("weights before the step"), Phrase("this step is not the first step")
                )
            )
        return given

    def _recorded_weight(self, weight: PortWeight) -> tuple[StoredWeight, Array] | None:
        pair = self._weights.pairs.get(weight.name)
        if pair is None:
            return None
        weights = self._reference.weights
        arrays = [self._reference.array(weights[name].before) for name in pair.references]
        return weights[pair.references[0]], pair.in_port(arrays)

    def _weight_finding(
        self, weight: PortWeight, reference: StoredWeight, distance: float
    ) -> PortFinding:
        sentence = Phrase(
            "The weight {} differs by {:.1e} before the step. "
            "The check goes on with the recorded weight.",
            weight.name, distance,
        )  # fmt: skip
        return PortFinding(
            weight.name.rpartition(".")[0], "weights", Phrase("weight {}", weight.name), distance,
            _EQUAL_WEIGHT, sentence, "", tuple(reference.before.shape), tuple(weight.array.shape),
            step=self._reference.step.step,
        )  # fmt: skip

    def _report_weights(self, differing: list[PortFinding], count: int) -> None:
        if len(differing) > max(_MOST_WEIGHTS, _MOST_SHARE * count):
            farthest = max(finding.distance for finding in differing)
            sentence = Phrase(
                "{} of {} weights differ before the step: "
                "transfer the original's weights to the port. "
                "The check goes on with the recorded weights.",
                len(differing), count,
            )  # fmt: skip
            whole = PortFinding("", "weights", Phrase("weights"), farthest, _EQUAL_WEIGHT, sentence)
            whole.consequences = differing
            differing = [whole]
        for finding in differing:
            self._log.add(LoggedFinding(finding, None))

    # ---- loss

    def loss(self, number: int, value: Array, factor: float = 1.0, line: str = "") -> None:
        """Compare a loss of the port with the original's loss.

        Args:
            number: batches earlier in the step.
            value: the loss.
            factor: by which the port's loss was divided, as for accumulated batches.
            line: of the port's code, if known.
        """
        losses = self._reference.step.losses
        if number >= len(losses):
            self.not_tested.append(
                NotTested(Phrase("loss"), Phrase("the original recorded no loss here"))
            )
            return
        expected = float(np.mean(self._reference.array(losses[number])))
        found = float(np.mean(value)) * factor
        distance = relative_distance(np.array(expected), np.array(found))
        if distance <= self._tolerance.value:
            self.agreed += 1
            return
        sentence = Phrase(
            "The loss is {:.6g} instead of {:.6g}: the cause is the code between the last "
            "compared module and the loss.",
            found, expected,
        )  # fmt: skip
        finding = PortFinding(
            "", "loss", Phrase("loss"), distance, self._tolerance.value, sentence, line, (), (),
            step=self._reference.step.step,
        )  # fmt: skip
        self._log.add(LoggedFinding(finding, None, order=AT_THE_END))

    # ---- update

    def update(
        self,
        before: Mapping[str, Array],
        after: Sequence[PortWeight],
        settings: Sequence[Mapping[str, object]],
        is_known: bool = True,
    ) -> None:
        """Compare the weights and running statistics after the step with the original's.

        Args:
            before: as the step began, by the port's names.
            after: as they are now.
            settings: of each group of the port's optimizers.
            is_known: whether the optimizer's state was that of the original.
        """
        found = _Updates()
        for weight in after:
            self._take_update(found, before.get(weight.name), weight, is_known)
        if not is_known:
            self.not_tested.append(
                NotTested(
                    Phrase("update"),
                    Phrase("the state of the original's optimizer is not recorded"),
                )
            )
        if found.moved:
            self._report_unchanged(found.unchanged)
        else:
            found.wrong.extend(found.unchanged)
        self._report_updates(found.wrong, settings)

    def _take_update(
        self, found: _Updates, before: Array | None, weight: PortWeight, is_known: bool
    ) -> None:
        finding = self._compare_update(before, weight)
        names = self._weights.references(weight.name)
        is_buffer = bool(names) and self._reference.weights[names[0]].kind == "buffer"
        is_unchanged = before is not None and np.array_equal(before, weight.array)
        found.moved = found.moved or not (is_buffer or is_unchanged)
        if finding is None:
            return
        if is_buffer:
            is_called = self.is_called(finding.module)
            self._log.add(LoggedFinding(finding, None, is_buffer=True, is_called=is_called))
        elif is_known and not self._has_no_gradient(finding):
            (found.unchanged if is_unchanged else found.wrong).append(finding)

    def _report_unchanged(self, findings: Sequence[PortFinding]) -> None:
        """Report weights that the step did not change, as no optimizer holds them."""
        if not findings:
            return
        names = listed([str(each.place) for each in findings], _MOST_NAMED)
        first = findings[0]
        first.sentence = Phrase(
            "The original's step changes {}, but the port's step does not.", names
        )
        first.consequences.extend(findings[1:])
        self._log.add(LoggedFinding(first, None))

    def _report_updates(
        self, findings: list[PortFinding], settings: Sequence[Mapping[str, object]]
    ) -> None:
        others = self._other_settings(settings)
        if findings and self._stepped is not None and not others:
            self._stepped.consequences.extend(findings)
        elif findings:
            self._log.add(LoggedFinding(self._update_finding(findings, others), None))
        elif others:
            what = Phrase("settings of the optimizer")
            reason = Phrase("these settings have no effect in this step: {}", "; ".join(others))
            self.not_tested.append(NotTested(what, reason))

    def stepped_gradients(self, gradients: Mapping[str, Array]) -> None:
        """Compare the optimizer's gradients with the original optimizer's.

        Args:
            gradients: by the port's names of the weights, unscaled.
        """
        known: dict[str, Array] = {}
        for name in gradients:
            recorded = self._stepped_gradient(name)
            if recorded is not None:
                known[name] = recorded
        floor = GRADIENT_FLOOR * max(map(rms, known.values()), default=0.0)
        tolerance = self._tolerance.gradient
        farthest = 0.0
        wrong: list[str] = []
        for name, array in known.items():
            distance = relative_distance(array, gradients[name], floor)
            farthest = max(farthest, distance)
            if distance > tolerance:
                wrong.append(name)
        self.agreed += len(known) - len(wrong)
        if not wrong or self._stepped is not None:
            return
        size = _joint_norm(known[name] for name in wrong)
        own = _joint_norm(gradients[name] for name in wrong)
        sentence = Phrase(
            "The optimizer gets gradients that differ from the original's for {} weights: "
            "{}. Their norm is {:.3g}, in the "
            "original {:.3g}. Code after the backward pass, such as clipping, changes them.",
            len(wrong), listed(wrong, _MOST_NAMED), own, size,
        )  # fmt: skip
        self._stepped = PortFinding(
            "", "update", Phrase("gradients of the optimizer"), farthest, tolerance,
            sentence, step=self._reference.step.step,
        )  # fmt: skip
        self._log.add(LoggedFinding(self._stepped, None))

    def _stepped_gradient(self, name: str) -> Array | None:
        """Return a gradient of the original's optimizer, in the port's shape.

        ``None`` if it is unknown.
        """
        arrays: list[Array] = []
        for source in self._weights.references(name):
            weight = self._reference.weights[source]
            if weight.gradient is None or weight.stepped_gradient is None:
                return None
            arrays.append(self._reference.array(weight.stepped_gradient))
        if not arrays:
            return None
        return self._weights.pairs[name].in_port(arrays)

    def _has_no_gradient(self, update: PortFinding) -> bool:
        """Tell whether a missing gradient, which is reported already, explains an update."""
        for logged in self._log.logged:
            is_same_place = str(logged.finding.place) == str(update.place)
            if logged.finding.kind == "no gradient" and is_same_place:
                logged.finding.consequences.append(update)
                return True
        return False

    def _compare_update(self, before: Array | None, weight: PortWeight) -> PortFinding | None:
        if before is None or weight.array.dtype.kind != "f":
            return None
        expected = self._expected_after(weight.name)
        if expected is None:
            return None
        change = expected.astype(np.float64) - before
        distance = rms(weight.array - expected.astype(np.float64))
        rounding = UPDATE_ROUNDINGS * unit_of(weight.dtype) * rms(before)
        if distance <= max(rounding, self._tolerance.update * rms(change)):
            self.agreed += 1
            return None
        relative = distance / rms(change) if rms(change) > 0.0 else np.inf
        sentence = Phrase(
            "With the original's gradients, the update of {} differs by {:.1e} of its size "
            "(tolerance {:.0e}).",
            weight.name, relative, self._tolerance.update,
        )  # fmt: skip
        return PortFinding(
            weight.name.rpartition(".")[0], "update", Phrase("weight {}", weight.name), relative,
            self._tolerance.update, sentence, "", tuple(expected.shape), tuple(weight.array.shape),
            step=self._reference.step.step,
        )  # fmt: skip

    def _expected_after(self, name: str) -> Array | None:
        """Return a weight's values after the original's step; ``None`` if unknown."""
        arrays: list[Array] = []
        for source in self._weights.references(name):
            after = self._reference.weights[source].after
            if after is None:
                return None
            arrays.append(self._reference.array(after))
        return self._weights.pairs[name].in_port(arrays) if arrays else None

    def _update_finding(self, findings: list[PortFinding], others: Sequence[str]) -> PortFinding:
        """Join all weight updates that differ into a single finding."""
        if len(findings) == 1 and not others:
            return findings[0]
        names = listed([str(each.place) for each in findings], _MOST_NAMED)
        sentence: str = Phrase(
            "With the original's gradients, the optimizer updates {} weights differently: {}.",
            len(findings),
            names,
        )
        if others:
            sentence = Phrase("{} Settings that differ: {}.", sentence, "; ".join(others))
        farthest = max(finding.distance for finding in findings)
        whole = PortFinding(
            "", "update", Phrase("optimizer"), farthest, self._tolerance.update, sentence,
            step=self._reference.step.step,
        )  # fmt: skip
        whole.consequences = findings
        return whole

    def _other_settings(self, settings: Sequence[Mapping[str, object]]) -> list[str]:
        recorded: list[Mapping[str, object]] = []
        for optimizer in self._reference.step.optimizers:
            recorded.extend(optimizer.groups)
        others: list[str] = []
        for number, (group, own) in enumerate(zip(recorded, settings, strict=False)):
            for name in group.keys() & own.keys():
                if _differ(group[name], own[name]):
                    at = f"group {number}: " if len(recorded) > 1 else ""
                    others.append(f"{at}{name} is {own[name]}, in the original {group[name]}")
        return sorted(others)


def _joint_norm(arrays: Iterable[Array]) -> float:
    """Return the norm of all arrays, taken as a single vector."""
    return math.hypot(*(float(np.linalg.norm(array)) for array in arrays))


def _differ(recorded: object, own: object) -> bool:
    if isinstance(recorded, (int, float)) and isinstance(own, (int, float)):
        return abs(recorded - own) > 1e-6 * max(abs(recorded), abs(own))
    return False
