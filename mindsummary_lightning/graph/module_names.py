"""``ModuleNames``: scopes of modules and dotted names of their parameters, buffers and plain tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
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
    inner = getattr(module, _WRAPPERS.get(type(module).__name__, ""), None)
    return unwrapped(inner) if isinstance(inner, nn.Module) else module


def module_class_name(module: nn.Module) -> str:
    """Class of the user's module, also of a scripted or fully sharded one."""
    inner = unwrapped(module)
    return str(getattr(inner, "original_name", "")) or _users_class(inner).__name__


def torch_class_name(module: nn.Module) -> str | None:
    """The class if it is one of torch.nn's own."""
    return module_class_name(module) if _users_class(module).__module__.startswith("torch.nn.modules.") else None


def _users_class(module: nn.Module) -> type:
    kinds = type(module).__mro__
    return kinds[2] if kinds[1].__name__ == "FSDPModule" else kinds[0]  # FSDP2 makes a class FSDPNet(FSDPModule, Net)


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
        self._places: dict[int, tuple[nn.Module, str, str]] = {}  # holds the modules, so that no id is used again
        self._add(unwrapped(network), "", "")

    def place(self, module: nn.Module, path: str, scope: str) -> tuple[nn.Module, str, str]:
        """The unwrapped module, path and scope of a module that is being called from another path and scope.

        A module that is not registered in the network has a scope inside that of its caller if it has parameters or
        children, else its operations count as the caller's.
        """
        module = unwrapped(module)
        if id(module) not in self._places and (module._modules or module._parameters):
            name = module_class_name(module)
            self._add(module, _joined(path, name), self._new_scope(scope, name, name))
        return self._places.get(id(module), (module, path, scope))

    def parameter_name(self, tensor: torch.Tensor, running: Iterable[tuple[nn.Module, str]]) -> str | None:
        """Name of a parameter, buffer or plain tensor attribute.

        Args:
            tensor: any tensor.
            running: modules that are being called and their paths, innermost first: where it most likely is.
        """
        registered = ((module, path) for module, path, _ in self._places.values())
        for module, path in chain(running, registered):
            for held in (module._parameters, module._buffers, module.__dict__):
                for key, value in held.items():
                    if value is tensor:
                        return _joined(path, key)
        return None

    def _add(self, module: nn.Module, path: str, scope: str) -> None:
        self._places[id(module)] = (module, path, scope)
        for name, child in module._modules.items():
            if child is not None and id(inner := unwrapped(child)) not in self._places:
                self._add(inner, _joined(path, name), self._new_scope(scope, name, module_class_name(inner)))


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
