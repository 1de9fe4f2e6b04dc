"""Find the scopes of modules in a graph, and the dotted names of their tensors.

Tensors are parameters, buffers and plain tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import nn

# Attributes in which the wrappers of torch.compile, DDP, FSDP, activation checkpointing and Fabric
# hold the module.
_WRAPPERS = {
    "OptimizedModule": "_orig_mod",
    "DistributedDataParallel": "module",
    "DataParallel": "module",
    "FullyShardedDataParallel": "_fsdp_wrapped_module",
    "CheckpointWrapper": "_checkpoint_wrapped_module",
    "_FabricModule": "_original_module",
}


def unwrapped(module: nn.Module) -> nn.Module:
    """Return the user's module inside wrappers such as ``DistributedDataParallel``.

    The wrappers are those of ``torch.compile``, DDP, FSDP, Fabric and the like.
    """
    inner = getattr(module, _WRAPPERS.get(type(module).__name__, ""), None)
    if isinstance(inner, nn.Module):
        return unwrapped(inner)
    return module


def is_compiled(module: nn.Module) -> bool:
    """Tell whether ``torch.compile`` or ``Module.compile`` has compiled a module."""
    return (
        type(module).__name__ == "OptimizedModule"
        or module.__dict__.get("_compiled_call_impl") is not None
    )


def module_class_name(module: nn.Module) -> str:
    """Return the class name of a user's module, even if it is scripted or sharded."""
    inner = unwrapped(module)
    return str(getattr(inner, "original_name", "")) or _users_class(inner).__name__


def torch_class_name(module: nn.Module) -> str | None:
    """Return the class name of a ``torch.nn`` module; ``None`` for any other module."""
    if _users_class(module).__module__.startswith("torch.nn.modules."):
        return module_class_name(module)
    return None


def _users_class(module: nn.Module) -> type:
    kinds = type(module).__mro__
    # FSDP2 makes a class FSDPNet(FSDPModule, Net)
    if kinds[1].__name__ == "FSDPModule":
        return kinds[2]
    return kinds[0]


# Any: values of any module's attributes
def module_properties(module: nn.Module) -> list[tuple[str, Any]]:
    """Return the settings of a ``torch.nn`` module, such as kernel size and stride."""
    return [
        (name, getattr(module, name))
        for name in getattr(module, "__constants__", ())
        if hasattr(module, name)
    ]


class Place(NamedTuple):
    """A module, its dotted path in the network, and its scope in the graph.

    A path has dots (``encoder.0``), a scope has slashes and class names
    (``encoder-Encoder/0-Linear``).
    """

    module: nn.Module
    path: str
    scope: str


class ModuleNames:
    """Paths and scopes of all modules of a network, and names of their tensors.

    The scope of the network is ``""``, the scopes of its children are ``<name>-<Class>``.
    ``new_scope`` returns the scope for a parent's scope, a name and the name of a class.
    """

    def __init__(self, network: nn.Module, new_scope: Callable[[str, str, str], str]) -> None:
        self._new_scope = new_scope
        self._places: dict[int, Place] = {}  # holds the modules, so that no id is used again
        # Of a tied parameter the first name, as statistics and histograms have it, wherever it is
        # used.
        self._parameters: dict[int, tuple[nn.Parameter, int, str]] = {}
        self.root: Place = self._add(Place(unwrapped(network), "", ""))

    def place(self, module: nn.Module, caller: Place) -> Place:
        """Return the path and scope of a module that is being called.

        A module that is not registered in the network gets a scope inside the caller's scope if it
        has parameters or children. Otherwise its operations count as operations of the caller.
        """
        module = unwrapped(module)
        if id(module) not in self._places and (module._modules or module._parameters):
            return self._add(self._child(caller, module_class_name(module), module))
        return self._places.get(id(module), caller._replace(module=module))

    def places(self) -> list[Place]:
        """Return the paths and scopes of all known modules, the network's first."""
        return [*self._places.values()]

    def tensors(self) -> Iterator[tuple[str, str, torch.Tensor]]:
        """Yield the name, kind and tensor of all parameters and buffers.

        The kind is ``parameter`` or ``buffer``. A tied tensor has only its first name.
        """
        seen: set[int] = set()
        for module, path, _ in self._places.values():
            for kind, held in (("parameter", module._parameters), ("buffer", module._buffers)):
                for key, tensor in held.items():
                    if tensor is not None and id(tensor) not in seen:
                        seen.add(id(tensor))
                        yield f"{path}.{key}".lstrip("."), kind, tensor

    def parameter_name(self, tensor: torch.Tensor, running: Place) -> tuple[int, str] | None:
        """Return the module and the name of a parameter, buffer or plain tensor.

        The module is given by its id. The running module is searched first, because the tensor most
        likely belongs to it. The result is ``None`` if the tensor belongs to no module.

        Modules that are not registered may share a name.
        """
        if id(tensor) in self._parameters:
            return self._parameters[id(tensor)][1:]
        for module, path, _ in chain([running], self._places.values()):
            for held in (module._parameters, module._buffers, module.__dict__):
                for key, value in held.items():
                    if value is tensor:
                        return id(module), f"{path}.{key}".lstrip(".")
        return None

    def _add(self, place: Place) -> Place:
        self._places[id(place.module)] = place
        for key, parameter in place.module._parameters.items():
            if parameter is not None:
                named = parameter, id(place.module), f"{place.path}.{key}".lstrip(".")
                self._parameters.setdefault(id(parameter), named)
        for name, child in place.module._modules.items():
            if child is None:
                continue
            inner = unwrapped(child)
            if id(inner) not in self._places:
                self._add(self._child(place, name, inner))
        return place

    def _child(self, parent: Place, name: str, module: nn.Module) -> Place:
        path = f"{parent.path}.{name}".lstrip(".")
        return Place(module, path, self._new_scope(parent.scope, name, module_class_name(module)))
