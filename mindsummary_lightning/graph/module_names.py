"""``ModuleNames``: scopes of modules and dotted names of their parameters, buffers and plain tensors."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from mindsummary_lightning.graph.scope_names import ScopeNames

__all__ = ["ModuleNames", "is_torch_module", "module_class_name", "module_properties", "unwrapped"]

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
    while (inner := _wrapped(module)) is not None:
        module = inner
    return module


def _wrapped(module: nn.Module) -> nn.Module | None:
    attribute = _WRAPPERS.get(type(module).__name__)
    inner = module._modules.get(attribute) if attribute is not None else None
    return inner if isinstance(inner, nn.Module) else None


def module_class_name(module: nn.Module) -> str:
    """Class of the user's module, also of a scripted or fully sharded one."""
    inner = unwrapped(module)
    if isinstance(inner, torch.jit.ScriptModule):
        return str(getattr(inner, "original_name", type(inner).__name__))
    return _users_class(inner).__name__


def _users_class(module: nn.Module) -> type:
    kinds = type(module).__mro__
    names = [kind.__name__ for kind in kinds]
    # FSDP2 makes a class FSDPNet(FSDPModule, Net).
    return kinds[names.index("FSDPModule") + 1] if "FSDPModule" in names else kinds[0]


def is_torch_module(module: nn.Module) -> bool:
    """Whether the class is one of torch.nn's own."""
    return _users_class(module).__module__.startswith("torch.nn.modules.")


def module_properties(module: nn.Module) -> list[tuple[str, Any]]:  # Any: values of any module's attributes
    """Settings of a torch.nn module: kernel size, stride, number of features, ..."""
    names = getattr(module, "__constants__", ())
    return [(name, getattr(module, name)) for name in names if hasattr(module, name)]


class ModuleNames:
    """Paths and scopes of all modules of a network, and names of their tensors.

    Args:
        network: the root; its operations have the scope ``""``, those of its children ``<name>-<Class>``.
    """

    def __init__(self, network: nn.Module) -> None:
        self.scopes = ScopeNames()
        self._places: dict[int, tuple[str, str]] = {}
        self._first_names: dict[int, tuple[weakref.ref[torch.Tensor], str]] = {}
        self._kept: list[nn.Module] = []
        self._add(unwrapped(network), "", "")

    def place(self, module: nn.Module, caller_path: str, caller_scope: str) -> tuple[str, str]:
        """Path and scope of a module that is being called.

        Args:
            module: any module. One that is not registered in the network gets a scope inside that of its caller if
                it has parameters or children, else its operations count as the caller's.
            caller_path: path of the module that calls it.
            caller_scope: its scope.
        """
        if id(module) not in self._places:
            name = module_class_name(module)
            if not module._modules and not module._parameters:
                self._places[id(module)] = (caller_path, caller_scope)
                self._kept.append(module)
            else:
                path = f"{caller_path}.{name}" if caller_path else name
                self._add(unwrapped(module), path, self.scopes.child(caller_scope, name, name))
                self._places.setdefault(id(module), self._places[id(unwrapped(module))])
        return self._places[id(module)]

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
                        return f"{path}.{key}" if path else key
        return None

    def _add(self, module: nn.Module, path: str, scope: str) -> None:
        if id(module) in self._places:
            return
        self._places[id(module)] = (path, scope)
        self._kept.append(module)  # an id is unique only as long as its object lives
        for name, tensor in (*module._parameters.items(), *module._buffers.items()):
            if tensor is not None:
                self._first_names.setdefault(id(tensor), (weakref.ref(tensor), f"{path}.{name}" if path else name))
        for name, child in module._modules.items():
            if child is not None:
                inner = unwrapped(child)
                inner_path = f"{path}.{name}" if path else name
                self._add(inner, inner_path, self.scopes.child(scope, name, module_class_name(inner)))
                while child is not inner:
                    self._places.setdefault(id(child), self._places[id(inner)])
                    self._kept.append(child)
                    child = _wrapped(child) or inner
