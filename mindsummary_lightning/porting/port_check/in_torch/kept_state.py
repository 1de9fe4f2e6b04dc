"""``KeptState``: saves all state that a step may change, and restores it exactly."""

from __future__ import annotations

import collections
import copy
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.optim import Optimizer

# Any, in this module: attributes of the user's modules.
_CONTAINERS = (list, dict, set, collections.deque)
_OF_MODULES = frozenset(nn.Module().__dict__)


@dataclass(slots=True)
class _Tensors:
    """A tensor and a copy of its earlier values."""

    tensor: torch.Tensor
    value: torch.Tensor
    gradient: torch.Tensor | None
    requires_grad: bool


@dataclass(slots=True)
class _Attributes:
    """A module's plain attributes, and copies of the containers among them."""

    module: nn.Module
    values: dict[str, Any]
    contents: dict[str, Any]
    tensors: dict[str, torch.Tensor]
    registered: dict[str, dict[str, Any]]


@dataclass(slots=True)
class _OptimizerState:
    optimizer: Optimizer
    attributes: dict[str, Any]
    groups: list[dict[str, Any]]
    state: dict[Any, dict[str, Any]]
    values: dict[Any, dict[str, Any]] = field(default_factory=dict)


class KeptState:
    """The saved state of a network, its optimizers and the random generators.

    Gradients are set aside: parameters have none until :meth:`give_back`.

    Args:
        network: whose parameters, buffers, training modes and plain attributes are kept.
    """

    def __init__(self, network: nn.Module) -> None:
        self._random = RandomState()
        self._optimizers: dict[int, _OptimizerState] = {}
        self._training = [(module, module.training) for module in network.modules()]
        self._attributes = [_attributes(module) for module in network.modules()]
        self._tensors: list[_Tensors] = []
        for tensor in {
            id(each): each for each in (*network.parameters(), *network.buffers())
        }.values():
            if not nn.parameter.is_lazy(tensor):
                kept = _Tensors(tensor, tensor.detach().clone(), tensor.grad, tensor.requires_grad)
                self._tensors.append(kept)
        self.set_aside_gradients()

    def set_aside_gradients(self) -> None:
        """Remove the gradients of all parameters until they are restored."""
        for kept in self._tensors:
            kept.tensor.grad = None

    def keep_optimizer(self, optimizer: Optimizer) -> bool:
        """Save an optimizer's state, too; return ``False`` if it was saved before."""
        if id(optimizer) in self._optimizers:
            return False
        groups = []
        for group in optimizer.param_groups:
            settings = dict(group)
            settings.pop("params", None)
            groups.append(settings)
        plain = {
            name: value
            for name, value in vars(optimizer).items()
            if isinstance(value, (int, float, str))
        }
        kept = _OptimizerState(optimizer, plain, copy.deepcopy(groups), dict(optimizer.state))
        for parameter, states in optimizer.state.items():
            kept.values[parameter] = {name: _cloned(value) for name, value in states.items()}
        self._optimizers[id(optimizer)] = kept
        return True

    @torch.no_grad()
    def give_back(self) -> None:
        """Restore all saved state."""
        for attributes in self._attributes:
            _give_back_attributes(attributes)
        for kept in self._tensors:
            kept.tensor.requires_grad_(kept.requires_grad)
            kept.tensor.data.copy_(kept.value)
            kept.tensor.grad = kept.gradient
        for module, is_training in self._training:
            module.training = is_training
        for optimizer in self._optimizers.values():
            _give_back_optimizer(optimizer)
        self._random.give_back()


class RandomState:
    """Saved states of the random generators in torch, NumPy and Python."""

    def __init__(self) -> None:
        self._torch = torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
        self._numpy = np.random.get_state()  # noqa: NPY002 # the user's code may use it
        self._python = random.getstate()

    def give_back(self) -> None:
        """Restore the saved states of the generators."""
        torch.set_rng_state(self._torch)
        if self._cuda:
            torch.cuda.set_rng_state_all(self._cuda)
        np.random.set_state(self._numpy)  # noqa: NPY002
        random.setstate(self._python)


class GeneratorStates:
    """Saved states of torch generators that a loader or sampler owns."""

    def __init__(self, owners: Iterable[Any]) -> None:
        self._states: list[tuple[torch.Generator, torch.Tensor]] = []
        for owner in owners:
            generator = getattr(owner, "generator", None)
            if isinstance(generator, torch.Generator):
                self._states.append((generator, generator.get_state()))

    def give_back(self) -> None:
        """Restore the saved states of the generators."""
        for generator, state in self._states:
            generator.set_state(state)


def _cloned(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else copy.copy(value)


def _attributes(module: nn.Module) -> _Attributes:
    # what begins with an underscore there belongs to a Trainer
    is_lightning = "_trainer" in vars(module)
    values: dict[str, Any] = {}
    contents: dict[str, Any] = {}
    tensors: dict[str, torch.Tensor] = {}
    for name, value in vars(module).items():
        if _is_foreign(name, is_lightning):
            continue
        values[name] = value
        if isinstance(value, _CONTAINERS):
            contents[name] = copy.copy(value)
        elif isinstance(value, torch.Tensor):
            tensors[name] = value.detach().clone()
    registered = {name: dict(vars(module)[name]) for name in ("_parameters", "_buffers")}
    return _Attributes(module, values, contents, tensors, registered)


def _is_foreign(name: str, is_lightning: bool) -> bool:
    """Tell whether an attribute belongs to torch or Lightning, not to the user."""
    return name in _OF_MODULES or (is_lightning and name.startswith("_"))


def _give_back_attributes(kept: _Attributes) -> None:
    own = vars(kept.module)
    is_lightning = "_trainer" in own
    for name in [*own]:
        if not _is_foreign(name, is_lightning) and name not in kept.values:
            del own[name]
    own.update(kept.values)
    for name, registered in kept.registered.items():
        if own[name].keys() != registered.keys() or any(
            own[name][key] is not registered[key] for key in registered
        ):
            own[name].clear()
            own[name].update(registered)
    for name, tensor in kept.tensors.items():
        own[name].data.copy_(tensor)
    for name, contents in kept.contents.items():
        _refill(own[name], contents)


def _refill(container: Any, contents: Any) -> None:
    container.clear()
    if isinstance(container, (list, collections.deque)):
        container.extend(contents)
    else:
        container.update(contents)


def _give_back_optimizer(kept: _OptimizerState) -> None:
    optimizer = kept.optimizer
    vars(optimizer).update(kept.attributes)
    for group, own in zip(optimizer.param_groups, kept.groups, strict=True):
        for name in [*group]:
            if name != "params" and name not in own:
                del group[name]
        group.update(own)
    optimizer.state.clear()
    for parameter, states in kept.state.items():
        _give_back_states(states, kept.values[parameter])
        optimizer.state[parameter] = states


def _give_back_states(states: dict[str, Any], values: dict[str, Any]) -> None:
    """Restore the values of tensors in place."""
    for name, value in values.items():
        if isinstance(value, torch.Tensor) and isinstance(states.get(name), torch.Tensor):
            states[name].data.copy_(value)
        else:
            states[name] = value
    for name in states.keys() - values.keys():
        del states[name]
