"""Where a module lies: wrappers taken off, dotted paths turned into scopes and parameter names."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import nn

from mindsummary_lightning.graph.scope_names import ScopeNames

__all__ = ["ModuleTree", "class_name", "is_torch_module", "module_properties", "unwrapped"]

# Wrapper class -> attribute that holds the module. Matched by name: Fabric's wrapper is Lightning's, which this layer
# does not know, and torch's own lie in modules that are slow to import.
_WRAPPERS = {
    "DataParallel": "module",
    "DistributedDataParallel": "module",
    "OptimizedModule": "_orig_mod",
    "_FabricModule": "_original_module",
}

# torch.export marks the k-th call of a module by ``@k`` at the end of its path.
_REPEATED_CALL = re.compile(r"@\d+$")


def unwrapped(module: nn.Module) -> nn.Module:
    """The user's module below ``torch.compile``, DDP, DataParallel and Fabric wrappers."""
    while (attribute := _WRAPPERS.get(type(module).__name__)) is not None:
        inner = getattr(module, attribute, None)
        if not isinstance(inner, nn.Module):
            break
        module = inner
    return module


def class_name(module: nn.Module) -> str:
    """Class of the user's module, also of a scripted one."""
    inner = unwrapped(module)
    scripted = getattr(inner, "original_name", None) if isinstance(inner, torch.jit.ScriptModule) else None
    return str(scripted) if scripted else type(inner).__name__


def is_torch_module(module: nn.Module) -> bool:
    """Whether the class is one of torch.nn's own."""
    return type(module).__module__.startswith("torch.nn.modules.")


def module_properties(module: nn.Module) -> list[tuple[str, Any]]:  # Any: values of any module's fields
    """What a torch.nn module says about itself: kernel size, stride, number of features, ..."""
    names = getattr(module, "__constants__", ())
    return [(name, getattr(module, name)) for name in names if hasattr(module, name)]


class ModuleTree:
    """Scopes and parameter names of one network.

    Args:
        network: the root, already unwrapped.
    """

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self.scopes = ScopeNames(class_name(network))
        self._first_names = _first_names(network)
        self._known: dict[str, tuple[str, nn.Module]] = {"": (self.scopes.root, network)}

    def locate(self, path: str) -> tuple[str, nn.Module]:
        """Scope and module of a dotted path; the nearest known ancestor's when a part of it is unknown.

        Args:
            path: as ``named_modules`` gives it, with or without the ``@k`` that torch.export adds.
        """
        if path not in self._known:
            parent_path, _, name = path.rpartition(".")
            scope, parent = self.locate(parent_path)
            children = parent._modules
            child = children.get(name) or children.get(name := _REPEATED_CALL.sub("", name))
            if child is None:
                self._known[path] = (scope, parent)
            elif name == "_orig_mod" and type(parent).__name__ == "OptimizedModule":
                self._known[path] = (scope, child)
            else:
                scope = self.scopes.child(scope, name, class_name(child))
                self._known[path] = (scope, child)
        return self._known[path]

    def parameter_name(self, path: str) -> str:
        """Name of a weight or buffer as ``named_parameters`` gives it, without the ``_orig_mod`` of compiled modules.

        A tied weight has the first of its names, whichever of them the path is.
        """
        return ".".join(part for part in self._first_names.get(path, path).split(".") if part != "_orig_mod")


def _first_names(network: nn.Module) -> dict[str, str]:
    first: dict[int, str] = {}
    everything = (
        *network.named_parameters(remove_duplicate=False),
        *network.named_buffers(remove_duplicate=False),
    )
    return {name: first.setdefault(id(tensor), name) for name, tensor in everything}
