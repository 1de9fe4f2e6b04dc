"""Loads a recorded optimizer state into a MindSpore optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mindspore
import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.porting.mindspore.cell_substitution import set_values
from mindsummary_lightning.porting.mindspore.optimizer_settings import optimizer_state
from mindsummary_lightning.porting.port_check.reference_step import ReferenceStep
from mindsummary_lightning.porting.port_check.weight_pairs import WeightPairs
from mindsummary_lightning.values.whole_step import (
    FIRST_MOMENT,
    MOMENTUM,
    SECOND_MOMENT,
    STEP_COUNT,
)

# Any, in this module: MindSpore's optimizers and parameters, and arrays of any dtype.
_PER_WEIGHT = (FIRST_MOMENT, SECOND_MOMENT, MOMENTUM)
# of nn.Adam: beta to the number of steps
_POWERS = {"beta1_power": "beta1", "beta2_power": "beta2"}


class RecordedState:
    """The original's optimizer state at the start of a step.

    It is stored by the port's names of weights.

    Args:
        reference: the recorded step.
        weights: how the weights are paired.
    """

    def __init__(self, reference: ReferenceStep, weights: WeightPairs) -> None:
        self._reference = reference
        self._weights = weights
        self._states = {
            (each.weight, each.name): each.tensor
            for optimizer in reference.step.optimizers
            for each in optimizer.state
        }

    @property
    def steps_made(self) -> int:
        """Count the steps of the original's optimizer before this step."""
        counts = [tensor for (_, name), tensor in self._states.items() if name == STEP_COUNT]
        if counts:
            return int(self._reference.array(counts[0]).reshape(-1)[0])
        return 0 if not self._states else self._reference.step.step - 1

    @property
    def is_known(self) -> bool:
        """Tell whether the state is known: it was recorded, or it was still empty."""
        return bool(self._reference.step.optimizers)

    def of(self, weight: str, name: str) -> NDArray[Any] | None:
        """Return a recorded optimizer state of a weight, in the weight's shape.

        ``None`` if it was not recorded.
        """
        pair = self._weights.pairs.get(weight)
        if pair is None:
            return None
        found = [self._states.get((each, name)) for each in pair.references]
        arrays = [self._reference.array(tensor) for tensor in found if tensor is not None]
        return pair.in_port(arrays) if len(arrays) == len(found) else None


def load_state(optimizer: Any, name_of: Callable[[Any], str], recorded: RecordedState) -> bool:
    """Load a recorded state into an optimizer.

    Args:
        optimizer: of the port.
        name_of: name of a parameter in the port.
        recorded: state of the original.

    Returns:
        Whether the optimizer now continues from the state of the original.
    """
    steps = recorded.steps_made
    if not recorded.is_known:
        return False
    is_complete = True
    for state in optimizer_state(optimizer):
        if state.name == STEP_COUNT:
            _set(state.tensor, np.full(state.tensor.shape, steps))
        elif state.name in _PER_WEIGHT:
            is_complete &= _load_tensor(
                state.tensor, name_of(state.weight), state.name, steps, recorded
            )
    for power, beta in _POWERS.items():
        if hasattr(optimizer, power):
            _set(
                getattr(optimizer, power),
                np.full((), float(_number(getattr(optimizer, beta))) ** steps),
            )
    return is_complete


def _load_tensor(tensor: Any, weight: str, name: str, steps: int, recorded: RecordedState) -> bool:
    own = tensor.asnumpy()
    value = np.zeros_like(own) if steps == 0 else recorded.of(weight, name)
    if value is not None:
        _set(tensor, value)
    return value is not None


def _set(parameter: Any, value: NDArray[Any]) -> None:
    set_values(parameter, mindspore.Tensor(np.array(value), parameter.dtype))


def _number(value: Any) -> float:
    return float(value.asnumpy()) if hasattr(value, "asnumpy") else float(value)
