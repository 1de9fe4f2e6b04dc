"""``OtherEnds``: module outputs that equal a different tensor of the original."""

from __future__ import annotations

from dataclasses import dataclass

from mindsummary_lightning.porting.port_check.port_frames import Frame, PortTensor
from mindsummary_lightning.porting.port_check.reference_step import ReferenceStep
from mindsummary_lightning.porting.port_check.tolerances import PrecisionTolerance
from mindsummary_lightning.values.whole_step import StoredCall, StoredTensor


@dataclass(frozen=True, slots=True, eq=False)
class OtherEnd:
    """A module of the port whose output equals a different recorded tensor.

    Attributes:
        frame: the module's call.
        reference: output of the paired call in the original.
        port: the module's output.
        tolerance: of the output.
    """

    frame: Frame
    reference: StoredTensor
    port: PortTensor
    tolerance: PrecisionTolerance


class OtherEnds:
    """Collects outputs that equal a different recorded tensor than expected.

    Such an output is no mistake if the code after the module computes the expected value.

    Args:
        reference: the recorded step.
    """

    def __init__(self, reference: ReferenceStep) -> None:
        self._reference = reference
        self._open: list[OtherEnd] = []

    def take(
        self,
        frame: Frame,
        call: StoredCall,
        reference: StoredTensor,
        port: PortTensor,
        tolerance: PrecisionTolerance,
    ) -> bool:
        """Keep an output if it equals a different recorded tensor than expected.

        Returns whether the output was kept.
        """
        if port.array.size < 2 or port.array.dtype.kind != "f":
            return False
        own_inputs = {tensor.array for tensor in call.inputs}
        for tensor in self._reference.equal_values(port.array, tolerance.value):
            if tensor.array in own_inputs or self._is_input(tensor, call):
                continue
            kept = PortTensor(port.path, port.array.copy(), port.dtype)
            self._open.append(OtherEnd(frame, reference, kept, tolerance))
            return True
        return False

    def within(self, frame: Frame | None) -> OtherEnd | None:
        """Find the innermost kept output among a call and the calls inside it.

        ``None`` stands for any call.
        """
        return next(
            (other for other in self._open if frame is None or frame in other.frame.ancestors()),
            None,
        )

    def forget(self, frame: Frame | None) -> None:
        """Forget a call's kept outputs once a later input agrees.

        These outputs are no mistakes.
        """
        self._open = [
            other
            for other in self._open
            if frame is not None and frame not in other.frame.ancestors()
        ]

    def remove(self, other: OtherEnd) -> None:
        """Remove a kept output that turned out to be a mistake.

        The same output of enclosing modules is removed, too, as it is the same mistake.
        """
        around = other.frame.ancestors()
        self._open = [each for each in self._open if each is not other and each.frame not in around]

    def _is_input(self, tensor: StoredTensor, call: StoredCall) -> bool:
        array = self._reference.array(tensor)
        return any(self._reference.agrees(each, array, 0.0) for each in call.inputs)
