"""Frozen dataclasses of a training step that was recorded with all its tensors.

They are the index of the step's file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

# Any, in this module: settings of optimizers, which are numbers, bools, texts and lists of them.
Shape = tuple[int, ...]
WeightKind = Literal["parameter", "buffer"]

FIRST_MOMENT = "first_moment"  # of Adam: exp_avg in torch, moment1 or moments in MindSpore
SECOND_MOMENT = "second_moment"  # of Adam: exp_avg_sq, moment2
MOMENTUM = "momentum"  # of SGD: momentum_buffer, accum or moments
STEP_COUNT = "step"  # steps that the optimizer has made before this one


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor of a recorded step, and the member of the file that contains it.

    Attributes:
        path: dotted path in a nested input, output or batch; ``""`` for a single tensor.
        array: member of the file without ``.npy``. Equal tensors share a member if the recorder
            knows that they are equal.
        dtype: as NumPy names it, or ``bfloat16``, which is stored as uint16.
        shape: of the tensor.
    """

    path: str
    array: str
    dtype: str
    shape: Shape


@dataclass(frozen=True, slots=True)
class StoredModule:
    """A module of the network in a recorded training step.

    Attributes:
        name: dotted; ``""`` for the network itself.
        kind: its class.
        is_training: whether it was in training mode.
        settings: numbers and texts that tell how it computes, such as a dropout's ``p``. May be
            empty.
    """

    name: str
    kind: str
    is_training: bool = True
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredCall:
    """A module call in a recorded training step, with its inputs and outputs.

    Attributes:
        module: dotted name.
        kind: class of the module.
        number: calls of this module earlier in the step.
        parent: index of the enclosing call in :class:`WholeStep`'s ``calls``; -1 for none.
        entered: position of the call's start among all starts and ends of calls in the step.
        left: position of the call's end.
        line: ``file.py:12`` of the user's code that called it; ``""`` if unknown.
        inputs: tensors as they were before the module ran.
        outputs: tensors as they were when the module returned.
        output_gradients: gradients of the loss for the outputs, scaled by :class:`WholeStep`'s
            ``loss_scale``; paths are those of ``outputs``. An output that received no gradient is
            missing.
        draws_random: whether random numbers were drawn meanwhile; ``None`` if unknown.
    """

    module: str
    kind: str
    number: int
    parent: int
    entered: int
    left: int
    line: str = ""
    inputs: tuple[StoredTensor, ...] = ()
    outputs: tuple[StoredTensor, ...] = ()
    output_gradients: tuple[StoredTensor, ...] = ()
    draws_random: bool | None = None


@dataclass(frozen=True, slots=True)
class StoredWeight:
    """A parameter or buffer before and after a recorded training step.

    Attributes:
        name: dotted name in the network.
        kind: ``parameter`` or ``buffer``.
        before: value at the beginning of the step.
        after: value after the update; ``None`` if it was not recorded.
        gradient: gradient before clipping, scaled by :class:`WholeStep`'s ``loss_scale``; ``None``
            without a gradient.
        stepped_gradient: unscaled gradient with which the optimizer made the update; ``None``
            without a gradient.
        is_hooked: whether a hook on the weight may change its gradient; ``None`` if unknown.
    """

    name: str
    kind: WeightKind
    before: StoredTensor
    after: StoredTensor | None = None
    gradient: StoredTensor | None = None
    stepped_gradient: StoredTensor | None = None
    is_hooked: bool | None = None


@dataclass(frozen=True, slots=True)
class StoredState:
    """A tensor of an optimizer's state at the beginning of a recorded step.

    Attributes:
        weight: dotted name of the parameter; ``""`` for a state of all parameters.
        name: one of the names of this module, or the framework's.
        tensor: the state.
    """

    weight: str
    name: str
    tensor: StoredTensor


@dataclass(frozen=True, slots=True)
class StoredOptimizer:
    """An optimizer that updated parameters in a recorded training step.

    Attributes:
        kind: its class.
        groups: settings of each group, by PyTorch's names where there is one (``lr``, ``momentum``,
            ``betas.0``).
        weights: dotted names of the parameters of each group.
        state: as the step began.
    """

    kind: str
    groups: tuple[dict[str, Any], ...] = ()
    weights: tuple[tuple[str, ...], ...] = ()
    state: tuple[StoredState, ...] = ()


@dataclass(frozen=True, slots=True)
class WholeStep:
    """A training step that was recorded with all tensors of its computation.

    Attributes:
        framework: ``torch`` or ``mindspore``.
        framework_version: its version.
        step: number of the optimizer step, counted from 1.
        precision: coarsest of ``float64``, ``float32``, ``tensorfloat32``, ``float16`` and
            ``bfloat16`` in the step.
        device: ``cpu`` or the name of the accelerator.
        modules: of the network, the network itself first.
        calls: in the order in which they were entered.
        batches: tensors of each batch of the step; more than one if gradients are accumulated.
        weights: parameters and buffers.
        losses: loss of each batch, unscaled and not divided by the number of batches.
        optimizers: the optimizers that made an update.
        loss_scale: factor of all recorded gradients but ``stepped_gradient``.
        random_state: state of the framework's random generator as the step began; ``None`` if
            unknown.
    """

    framework: str
    framework_version: str
    step: int
    precision: str = "float32"
    device: str = "cpu"
    modules: tuple[StoredModule, ...] = ()
    calls: tuple[StoredCall, ...] = ()
    batches: tuple[tuple[StoredTensor, ...], ...] = ()
    weights: tuple[StoredWeight, ...] = ()
    losses: tuple[StoredTensor, ...] = ()
    optimizers: tuple[StoredOptimizer, ...] = ()
    loss_scale: float = 1.0
    random_state: StoredTensor | None = None
