"""``ModuleNames``: scopes of modules and dotted names of their parameters, buffers and plain tensors."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

__all__ = ["ModuleNames", "module_class_name", "module_properties", "torch_class_name", "unwrapped"]

# Attributes in which the wrappers of torch.compile, DDP, FSDP, activation checkpointing and Fabric hold the module.
_WRAPPERS = {
    "OptimizedModule": "_orig_mod",
    "DistributedDataParallel": "module",
    "DataParallel": "module",
    "FullyShardedDataParallel": "_fsdp_wrapped_module",
    "CheckpointWrapper": "_checkpoint_wrapped_module",
    "_FabricModule": "_original_module",
}


def unwrapped(module: nn.Module) -> nn.Module:
    """The user's module inside the wrappers of ``torch.compile``, DDP, FSDP, Fabric and the like."""
    return _layers(module)[-1]


def _layers(module: nn.Module) -> list[nn.Module]:
    """The module and what it wraps, the user's module last."""
    layers = [module]
    while (attribute := _WRAPPERS.get(type(layers[-1]).__name__)) in layers[-1]._modules:
        layers.append(getattr(layers[-1], str(attribute)))
    return layers


def _users_class(module: nn.Module) -> type:
    kinds = type(module).__mro__
    names = [kind.__name__ for kind in kinds]
    # FSDP2 makes a class FSDPNet(FSDPModule, Net).
    return kinds[names.index("FSDPModule") + 1] if "FSDPModule" in names else kinds[0]


def module_class_name(module: nn.Module) -> str:
    """Class of the user's module, also of a scripted or fully sharded one."""
    inner = unwrapped(module)
    return str(getattr(inner, "original_name", "")) or _users_class(inner).__name__


def torch_class_name(module: nn.Module) -> str | None:
    """The class if it is one of torch.nn's own."""
    return module_class_name(module) if _users_class(module).__module__.startswith("torch.nn.modules.") else None


def module_properties(module: nn.Module) -> list[tuple[str, Any]]:  # Any: values of any module's attributes
    """Settings of a torch.nn module: kernel size, stride, number of features, ..."""
    return [(name, getattr(module, name)) for name in getattr(module, "__constants__", ()) if hasattr(module, name)]


class ModuleNames:
    """Paths and scopes of all modules of a network, and names of their tensors.

    Args:
        network: the root; its operations have the scope ``""``, those of its children ``<name>-<Class>``.
        new_scope: makes a scope from that of the parent, a name and the name of a class.
    """

    def __init__(self, network: nn.Module, new_scope: Callable[[str, str, str], str]) -> None:
        self._new_scope = new_scope
        self._places: dict[int, tuple[str, str]] = {}
        self._first_names: dict[int, tuple[weakref.ref[torch.Tensor], str]] = {}
        self._kept: list[nn.Module] = []  # an id is unique only as long as its object lives
        self._add(network, "", "")

    def place(self, module: nn.Module, path: str, scope: str) -> tuple[str, str]:
        """Path and scope of a module that is being called from another path and scope.

        A module that is not registered in the network has a scope inside that of its caller if it has parameters or
        children, else its operations count as the caller's.
        """
        if id(module) not in self._places and (module._modules or module._parameters):
            name = module_class_name(module)
            self._add(module, _joined(path, name), self._new_scope(scope, name, name))
        return self._places.get(id(module), (path, scope))

    def parameter_name(self, tensor: torch.Tensor, running: Iterable[tuple[nn.Module, str]]) -> str | None:
        """Name of a parameter, buffer or plain tensor attribute, the first one of a tensor with several.

        Args:
            tensor: any tensor.
            running: modules that are being called and their paths, innermost first. FSDP replaces their parameters
                for the time of the call, so that only they hold the tensor.
        """
        known = self._first_names.get(id(tensor))
        if known is not None and known[0]() is tensor:
            return known[1]
        for module, path in running:
            for held in (module._parameters, module._buffers, module.__dict__):
                for key, value in held.items():
                    if value is tensor:
                        return _joined(path, key)
        return None

    def _add(self, module: nn.Module, path: str, scope: str) -> None:
        layers = _layers(module)
        self._kept += layers
        self._places |= {id(layer): (path, scope) for layer in layers}
        for name, tensor in (*layers[-1]._parameters.items(), *layers[-1]._buffers.items()):
            if tensor is not None:
                self._first_names.setdefault(id(tensor), (weakref.ref(tensor), _joined(path, name)))
        for name, child in layers[-1]._modules.items():
            if child is not None and id(child) not in self._places:
                self._add(child, _joined(path, name), self._new_scope(scope, name, module_class_name(child)))


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
