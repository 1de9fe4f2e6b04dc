"""Describes module calls of the port, while they run and afterwards."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mindsummary_lightning.porting.port_check.findings import CodeOperation
from mindsummary_lightning.porting.port_check.tensor_distance import Array, Layout
from mindsummary_lightning.values.whole_step import StoredTensor


@dataclass(frozen=True, slots=True)
class PortTensor:
    """An input or output tensor of a port's module.

    Attributes:
        path: dotted path in a nested input or output; ``""`` for a single tensor.
        array: its values now; bfloat16 as float32.
        dtype: as NumPy names it, or ``bfloat16``.
    """

    path: str
    array: Array
    dtype: str


@dataclass(frozen=True, slots=True, eq=False)
class PortModule:
    """A module of the port.

    Attributes:
        name: dotted; ``""`` for the network.
        kind: its class.
        is_library: whether its code is the framework's own, so that its backward pass is right.
        is_training: whether it is in training mode.
        settings: numbers and texts that tell how it computes; those with the original's names are
            compared.
    """

    name: str
    kind: str
    is_library: bool = False
    is_training: bool = True
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Frame:
    """A module call in the port.

    Attributes:
        module: that is called.
        number: calls of this module earlier in the step.
        parent: enclosing call; ``None`` for the code of the training step.
        line: of the user's code that calls it.
        inputs: tensors as they were before the module ran.
        entered: order of entering.
        reference: index of the paired call; ``None`` if not paired, or not paired yet.
        candidates: calls of the original with the same inputs, of which one is chosen when the
            output is known.
        reason: why the call is not paired.
        doubts: inputs that differ in a way that may be no mistake; they are reported if the output
            differs.
        has_fitting_inputs: whether the inputs have the sizes of the paired call's inputs.
        last: the last compared module that was called in this call; ``""`` if there is none.
        has_compared_inside: whether a call inside this call was compared.
        has_drawn: whether its own code drew random numbers since the last comparison.
        has_drawn_at_all: whether random numbers were drawn while it ran.
        operations: calls in its own code since the last comparison.
        left: order of leaving; -1 while it runs.
    """

    module: PortModule
    number: int
    parent: Frame | None
    line: str
    inputs: list[PortTensor]
    entered: int
    reference: int | None = None
    candidates: list[int] = field(default_factory=list)
    reason: str = ""
    doubts: list[Doubt] = field(default_factory=list)
    has_fitting_inputs: bool = True
    last: str = ""
    has_compared_inside: bool = False
    has_drawn: bool = False
    has_drawn_at_all: bool = False
    operations: list[CodeOperation] = field(default_factory=list)
    left: int = -1

    def ancestors(self) -> list[Frame]:
        """List the enclosing calls, the innermost first."""
        found: list[Frame] = []
        frame = self.parent
        while frame is not None:
            found.append(frame)
            frame = frame.parent
        return found


@dataclass(frozen=True, slots=True, eq=False)
class WeightUse:
    """The use of a weight by a function.

    Attributes:
        frame: call whose own code used the weight; ``None`` for the code of the training step.
        order: time of the use, on the counter of call starts and ends.
    """

    frame: Frame | None
    order: int


@dataclass(frozen=True, slots=True)
class Doubt:
    """An input that differs but may be right, such as a mask or permuted axes."""

    reference: StoredTensor
    port: PortTensor
    distance: float


@dataclass(frozen=True, slots=True)
class PairedOutput:
    """An output of a paired module call.

    Attributes:
        port: path of the output in the port.
        reference: the output in the original.
        layout: how the original's values become those of the port's shape; ``None`` if they do not.
        gradient: of the original; ``None`` if the output received none.
    """

    port: str
    reference: StoredTensor
    layout: Layout | None
    gradient: StoredTensor | None


@dataclass(frozen=True, slots=True, eq=False)
class PairedCall:
    """A finished port call that is paired with a call of the original.

    It holds the index of the matched call of the original, and the call's outputs.
    """

    frame: Frame
    reference: int
    outputs: tuple[PairedOutput, ...]
    is_random: bool = False


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """The tensors that replace the inputs or outputs of a call.

    Attributes:
        values: a value for each tensor, in the port's shape; ``None`` keeps the port's value.
        heals: for each tensor whether the port's own tensor was wrong, so that later uses should
            have these values.
        call: for outputs, the paired call.
    """

    values: list[Array | None]
    heals: list[bool]
    call: PairedCall | None = None
