"""Loads the state with which an optimizer of the port begins a recorded step."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import nn
from torch.optim import Optimizer

from mindsummary_lightning.porting.chain.whole_step_recorder import STATE_NAMES
from mindsummary_lightning.porting.port_check.reference_step import ReferenceStep
from mindsummary_lightning.values.whole_step import StoredState

_TORCH_NAMES = {ours: own for own, ours in STATE_NAMES.items()}


def give_state(
    optimizer: Optimizer, reference: ReferenceStep, references: Mapping[int, Sequence[str]]
) -> bool:
    """Load the original's recorded optimizer state into an optimizer of the port.

    Args:
        optimizer: of the port.
        reference: the recorded step.
        references: names in the original of the weights, by identity of the parameters.

    Returns:
        Whether the recorded state is all of the state that the optimizer keeps.
    """
    known = _state_names(optimizer)
    if known is None:
        return False
    recorded: list[StoredState] = []
    for stored in reference.step.optimizers:
        recorded.extend(stored.state)
    given = {state.name for state in recorded}
    if not all(STATE_NAMES.get(name, name) in given for name in known):
        return False
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            names = [*references.get(id(parameter), ())]
            own = [state for state in recorded if not state.weight or names == [state.weight]]
            optimizer.state[parameter].update(_states(reference, own, known, parameter))
    return True


def _states(
    reference: ReferenceStep,
    recorded: Sequence[StoredState],
    known: set[str],
    parameter: torch.Tensor,
) -> dict[str, torch.Tensor]:
    """Return the state of a parameter under torch's names."""
    tensors = {}
    for state in recorded:
        name = _TORCH_NAMES.get(state.name, state.name)
        if name in known:
            tensors[name] = _state_tensor(reference, state, parameter)
    return tensors


def give_rates(optimizer: Optimizer, reference: ReferenceStep) -> None:
    """Set an optimizer's learning rates to the recorded rates.

    A schedule may have changed them.
    """
    groups = itertools.chain.from_iterable(stored.groups for stored in reference.step.optimizers)
    for group, recorded in zip(optimizer.param_groups, groups, strict=False):
        if "lr" in recorded:
            group["lr"] = recorded["lr"]


def _state_tensor(
    reference: ReferenceStep, state: StoredState, parameter: torch.Tensor
) -> torch.Tensor:
    value = torch.tensor(np.ascontiguousarray(reference.array(state.tensor)))
    if value.numel() == parameter.numel() and parameter.numel() > 1:
        return value.reshape(parameter.shape).to(parameter.device)
    return value.reshape(())


def _state_names(optimizer: Optimizer) -> set[str] | None:
    """Name the state tensors that an optimizer keeps per weight; ``None`` if unknown."""
    try:
        known = inspect.signature(type(optimizer)).parameters
        settings = {}
        for name, value in optimizer.param_groups[0].items():
            if name != "params" and name in known:
                settings[name] = value
        weight = nn.Parameter(torch.ones(2, 2))
        weight.grad = torch.ones(2, 2)
        small = type(optimizer)([weight], **settings)
        small.step()
        return set(small.state[weight])
    except Exception:  # whatever the user's optimizer asks for
        return None
