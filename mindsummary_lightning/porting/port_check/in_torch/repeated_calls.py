"""``RepeatedCalls``: repeats the values of a call that checkpointing runs again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from mindsummary_lightning.collection.tensor_statistics import unseen
from mindsummary_lightning.porting.chain.torch_arrays import float_array
from mindsummary_lightning.porting.port_check.in_torch.tensor_replacement import (
    argument_tensors,
    replaced,
    result_tensors,
    tensor_like,
    with_replaced,
)
from mindsummary_lightning.porting.port_check.port_frames import PairedCall
from mindsummary_lightning.porting.port_check.reference_step import ReferenceStep
from mindsummary_lightning.porting.port_check.tensor_distance import Array

# Any, in this module: arguments and results of the user's modules.


@dataclass(slots=True, eq=False)
class DoneCall:
    """The inputs and outputs of a finished call.

    Attributes:
        inputs: values that the call got instead of its own inputs.
        outputs: values that the call returned instead of its own outputs.
        call: the paired call; ``None`` if the call is not paired.
        may_train: whether a gradient may be needed, because a weight in or before it is trained.
        is_hooked: whether a gradient of an output is awaited.
        is_repeated: whether the call has run again.
    """

    inputs: list[Array | None]
    outputs: list[Array | None]
    call: PairedCall | None
    may_train: bool = True
    is_hooked: bool = False
    is_repeated: bool = False


HookGradient = Callable[[str, torch.Tensor, torch.Tensor, DoneCall], None]


class RepeatedCalls:
    """The finished calls of a step, for calls that checkpointing repeats.

    Args:
        reference: the recorded step.
        hook_gradient: awaits the gradient of an output, by its path, the module's own tensor and
            its replacement.
    """

    def __init__(self, reference: ReferenceStep, hook_gradient: HookGradient) -> None:
        self._reference = reference
        self._hook_gradient = hook_gradient
        self._done: defaultdict[str, list[DoneCall]] = defaultdict(list)
        self._repeated: dict[str, DoneCall] = {}

    def add(self, name: str, call: DoneCall) -> None:
        """Add a finished call."""
        self._done[name].append(call)

    def enter(self, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
        """Return the earlier arguments for a module that runs again."""
        tensors = argument_tensors(args, kwargs)
        done = self._call_to_repeat(name, tensors)
        if done is None:
            return args, kwargs
        self._repeated[name] = done
        table = {}
        for (_, own), value in zip(tensors, done.inputs, strict=False):
            if value is not None:
                with unseen():
                    new = tensor_like(value, own)
                table[id(own)] = replaced(own, new)
        return with_replaced((args, kwargs), table)

    def _call_to_repeat(
        self, name: str, tensors: Sequence[tuple[str, torch.Tensor]]
    ) -> DoneCall | None:
        calls = [call for call in self._done[name] if not call.is_repeated]
        if not calls:
            return None
        chosen = calls[0]
        for call in calls if len(calls) > 1 else ():
            frame = None if call.call is None else call.call.frame
            if (
                frame is not None
                and len(tensors) == len(call.inputs)
                and self._has_inputs(call, tensors)
            ):
                chosen = call
                break
        chosen.is_repeated = True
        return chosen

    def _has_inputs(self, call: DoneCall, tensors: Sequence[tuple[str, torch.Tensor]]) -> bool:
        if call.call is None:
            return False
        recorded = self._reference.step.calls[call.call.reference].inputs
        if not recorded or not tensors:
            return False
        array = self._reference.array(recorded[0])
        return array.size == tensors[0][1].numel() and bool(
            np.allclose(array.ravel(), float_array(tensors[0][1]).ravel(), rtol=1e-4, atol=1e-6)
        )

    def leave(self, name: str, output: Any) -> Any:
        """Return the earlier result for a module that has run again."""
        done = self._repeated.pop(name, None)
        if done is None:
            return output
        table: dict[int, torch.Tensor] = {}
        for (path, own), value in zip(result_tensors(output), done.outputs, strict=False):
            if value is None:
                continue
            with unseen():
                new = tensor_like(value, own)
            result = table[id(own)] = replaced(own, new)
            if not done.is_hooked:  # a reentrant checkpoint: only this pass is differentiated
                self._hook_gradient(path, own, result, done)
        return with_replaced(output, table)
