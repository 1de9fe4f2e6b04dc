"""``GradientPaths``: finds the modules and the code that a gradient has passed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mindsummary_lightning.porting.port_check.finding_log import GradientPath
from mindsummary_lightning.porting.port_check.forward_check import ForwardCheck
from mindsummary_lightning.porting.port_check.port_frames import Frame, PairedCall, PairedOutput
from mindsummary_lightning.porting.port_check.reference_step import ReferenceStep
from mindsummary_lightning.values.whole_step import StoredTensor


@dataclass(frozen=True, slots=True)
class Blame:
    """The module that is to blame for a wrong gradient.

    Attributes:
        module: its name; ``""`` for the network or the code of the training step.
        is_own_backward: whether its own backward pass is wrong, not the code in it.
    """

    module: str
    is_own_backward: bool


class GradientPaths:
    """Finds the modules and the code of the port that a gradient has passed.

    Args:
        reference: the recorded step.
        forward: the forward pass, whose paired outputs receive gradients.

    Attributes:
        replaced: outputs whose gradient was replaced, as order of entering their call and path.
    """

    def __init__(self, reference: ReferenceStep, forward: ForwardCheck) -> None:
        self._reference = reference
        self._forward = forward
        self.replaced: set[tuple[int, str]] = set()

    def of_output(
        self, call: PairedCall, output: PairedOutput
    ) -> tuple[tuple[Frame | None, ...], tuple[str, ...]]:
        """List calls whose code used an output, and modules that its gradient has passed."""
        visible: list[Frame | None] = []
        frame: Frame | None = call.frame
        while frame is not None:
            parent = _paired_parent(frame)
            visible.append(parent)
            is_returned = parent is not None and self._returns(parent, output)
            frame = parent if is_returned else None
        recorded = self._reference.step.calls[call.reference]
        users = dict(self._reference.consumers(output.reference, recorded.entered))
        passed = [each for each in self._forward.paired if each.reference in users]
        for around in visible:
            passed.extend(self._fed_by_code(around, call.frame.left))
        used = self._used_in(passed)
        return (*visible, *used), _module_names(used)

    def passes_random(self, call: PairedCall, output: PairedOutput) -> bool:
        """Tell whether a gradient has passed modules or code that draw random numbers."""
        regions, passed = self.of_output(call, output)
        for region in regions:
            if region is not None and region.has_drawn_at_all:
                return True
        for each in self._forward.paired:
            if each.is_random and each.frame.module.name in passed:
                return True
        return False

    def blamed(
        self, call: PairedCall, regions: tuple[Frame | None, ...], output: PairedOutput
    ) -> Blame:
        """Find the module that is to blame for a wrong gradient."""
        inside = (call.frame, *call.frame.ancestors())
        users = [each for each in regions if each is not None and each not in inside]
        custom = [each for each in users if not each.module.is_library and self._has_code(each)]
        if custom:
            innermost = max(custom, key=lambda each: len(each.ancestors()))
            is_leaf = not innermost.has_compared_inside
            return Blame(innermost.module.name, is_leaf)
        owner = regions[0] if users else regions[-1]
        for region in regions:
            if region is None or region.reference is not None:
                owner = region
                break
        return Blame("" if owner is None else owner.module.name, is_own_backward=False)

    def of_weight(self, weight: str) -> tuple[GradientPath, ...]:
        """List the paths that a weight's gradient takes, a path per use of the weight.

        Empty if not all are known.
        """
        paths: list[GradientPath] = []
        for use in self._forward.uses.get(weight, ()):
            if not self._is_replaced_after(use.frame):
                return ()
            around = use.frame
            while around is not None and around.reference is None:
                around = around.parent
            used = self._used_in(self._fed_by_code(around, use.order))
            paths.append(GradientPath((use.frame, *used), _module_names(used), use.order))
        return tuple(paths)

    def likely_of(self, module: str) -> tuple[GradientPath, ...]:
        """List the paths that gradients of a module's weights probably take.

        They come from the calls that its module's outputs feed.
        """
        own: list[Frame] = []
        fed: list[PairedCall] = []
        for call in self._forward.paired:
            frame = call.frame
            if frame.module.name == module:
                own.append(frame)
                fed.extend(self._fed_by_code(frame, frame.entered))
        return (GradientPath((*own, *self._used_in(fed))),)

    def _is_replaced_after(self, frame: Frame | None) -> bool:
        """Tell whether the gradients of a paired call's outputs were replaced."""
        for call in self._forward.paired:
            if call.frame is not frame:
                continue
            for output in call.outputs:
                is_replaced = (call.frame.entered, output.port) in self.replaced
                if output.gradient is not None and not is_replaced:
                    return False
        return True

    def _used_in(self, users: list[PairedCall]) -> list[Frame]:
        """Add to calls the inner calls that use their inputs, directly or through code."""
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
        """Tell whether a call's own code computes anything, apart from inner calls.

        A call that only passes returned values to modules has none.
        """
        if frame.reference is None or not frame.has_compared_inside:
            return True
        calls = self._reference.step.calls
        own = calls[frame.reference]
        given = [*own.inputs]
        taken = [*own.outputs]
        for each in self._calls_in(frame):
            call = calls[each.reference]
            given.extend(call.outputs)
            taken.extend(call.inputs)
        return any(not self._is_among(tensor, given) for tensor in taken)

    def _is_among(self, tensor: StoredTensor, others: Sequence[StoredTensor]) -> bool:
        return any(self._reference.is_same(tensor, other) for other in others)

    def _returns(self, frame: Frame, output: PairedOutput) -> bool:
        """Tell whether a call returns the output of an inner call."""
        if frame.reference is None:
            return False
        outputs = self._reference.step.calls[frame.reference].outputs
        return self._is_among(output.reference, outputs)

    def _calls_in(self, around: Frame | None) -> list[PairedCall]:
        """List the paired calls that a call's own code makes.

        The code of containers that only the port has belongs to the call.
        """
        return [each for each in self._forward.paired if _paired_parent(each.frame) is around]

    def _fed_by_code(self, around: Frame | None, after: int) -> list[PairedCall]:
        """List later inner calls with inputs that the enclosing call's code computed."""
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
            inputs = calls[call.reference].inputs
            if any(self._is_among(tensor, own) for tensor in inputs):
                found.append(call)
        return found


def _paired_parent(frame: Frame) -> Frame | None:
    """Return the innermost paired enclosing call; ``None`` for the step's code."""
    return next((each for each in frame.ancestors() if each.reference is not None), None)


def _module_names(frames: Sequence[Frame]) -> tuple[str, ...]:
    return tuple(frame.module.name for frame in frames)
