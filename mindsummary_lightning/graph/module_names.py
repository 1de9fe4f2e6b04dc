"""``ModuleNames``: scopes of modules and dotted names of their tensors.

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
    """The user's module inside of wrappers.

    They are of ``torch.compile``, DDP, FSDP, Fabric and the like.
    """
    inner = getattr(module, _WRAPPERS.get(type(module).__name__, ""), None)
    if isinstance(inner, nn.Module):
        return unwrapped(inner)
    return module


def is_compiled(module: nn.Module) -> bool:
    """Whether a module runs through ``torch.compile``, by either way of asking for it."""
    return (
        type(module).__name__ == "OptimizedModule"
        or module.__dict__.get("_compiled_call_impl") is not None
    )


def module_class_name(module: nn.Module) -> str:
    """Class of the user's module, also if it is scripted or fully sharded."""
    inner = unwrapped(module)
    return str(getattr(inner, "original_name", "")) or _users_class(inner).__name__


def torch_class_name(module: nn.Module) -> str | None:
    """The class of a module if it belongs to torch.nn."""
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
    """Settings of a torch.nn module: kernel size, stride, number of features, ..."""
    return [
        (name, getattr(module, name))
        for name in getattr(module, "__constants__", ())
        if hasattr(module, name)
    ]


class Place(NamedTuple):
    """The place of a module.

    Its path has dots (``encoder.0``), its scope has slashes and classes.
    """

    module: nn.Module
    path: str
    scope: str


class ModuleNames:
    """Paths and scopes of all modules of a network, and names of their tensors.

    The scope of the network is ``""``, those of its children are ``<name>-<Class>``: ``new_scope``
    makes them from that of the parent, a name and the name of a class.
    """

    def __init__(self, network: nn.Module, new_scope: Callable[[str, str, str], str]) -> None:
        self._new_scope = new_scope
        self._places: dict[int, Place] = {}  # holds the modules, so that no id is used again
        # Of a tied parameter the first name, as statistics and histograms have it, wherever it is
        # used.
        self._parameters: dict[int, tuple[nn.Parameter, int, str]] = {}
        self.root: Place = self._add(Place(unwrapped(network), "", ""))

    def place(self, module: nn.Module, caller: Place) -> Place:
        """The place of a module that is being called.

        A module that is not registered in the network has a scope inside that of its caller if it
        has parameters or children, else its operations count as the caller's.
        """
        module = unwrapped(module)
        if id(module) not in self._places and (module._modules or module._parameters):
            return self._add(self._child(caller, module_class_name(module), module))
        return self._places.get(id(module), caller._replace(module=module))

    def places(self) -> list[Place]:
        """The places of all modules that are known, the network's first."""
        return [*self._places.values()]

    def tensors(self) -> Iterator[tuple[str, str, torch.Tensor]]:
        """Name, ``parameter`` or ``buffer``, and tensor of all tensors.

        A tied tensor has its first name alone.
        """
        seen: set[int] = set()
        for module, path, _ in self._places.values():
            for kind, held in (("parameter", module._parameters), ("buffer", module._buffers)):
                for key, tensor in held.items():
                    if tensor is not None and id(tensor) not in seen:
                        seen.add(id(tensor))
                        yield f"{path}.{key}".lstrip("."), kind, tensor

    def parameter_name(self, tensor: torch.Tensor, running: Place) -> tuple[int, str] | None:
        """Id of the module and name of a parameter, buffer or plain tensor.

        It most likely belongs to the running module.

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
