"""A network's tensors by the names they have in a checkpoint. Nothing here changes a tensor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from mindsummary_lightning.landscape.checkpoints import LandscapeCheckpointError
from mindsummary_lightning.landscape.directions import State, is_moved

_COMPILED = "_orig_mod."  # torch.compile puts it into the names of a network's tensors


def named_tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Every name of every parameter and buffer: a submodule with two names, or a tied weight, gives several."""
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


def canonical_names(module: nn.Module) -> dict[str, str]:
    """Every name of every parameter and buffer -> the first name of that tensor, or of one in the same memory."""
    first: dict[object, str] = {}
    return {name: first.setdefault(_memory(tensor), name) for name, tensor in named_tensors(module)}


def moving_names(module: nn.Module) -> list[str]:
    """Parameters of the module that a landscape moves: floating weights and biases, tied ones once."""
    names = canonical_names(module)
    return [
        name
        for name, tensor in module.named_parameters()
        if is_moved(name) and (tensor.is_floating_point() or tensor.is_complex()) and names[name] == name
    ]


def names_in_checkpoint(module: nn.Module, state: State, origin: str, prefix: str | None = None) -> dict[str, str]:
    """The canonical name of each tensor of the module's state dict -> its name in the checkpoint.

    The checkpoint may hold the module as a part of a larger one (a network inside a LightningModule): then all of its
    names have one prefix, and all names with that prefix are the module's. Where that is true of several parts, the
    shapes decide. ``origin`` is the checkpoint's path, for the message.

    Raises:
        LandscapeCheckpointError: no part of the checkpoint is this module, or several are.
    """
    names = canonical_names(module)
    groups: dict[str, list[str]] = {}
    shapes: dict[str, torch.Size | None] = {}
    for name, entry in module.state_dict(keep_vars=True).items():
        if isinstance(entry, Tensor):
            groups.setdefault(names.get(name, name), []).append(name.replace(_COMPILED, ""))
            shapes[names.get(name, name)] = None if is_lazy(entry) else entry.shape
    keys = {key.replace(_COMPILED, ""): key for key in state}
    parts = [_Part(one, groups, shapes, keys, state) for one in _prefixes(keys, groups, prefix)]
    matching = [part for part in parts if not part.difference()]
    if len(matching) > 1:
        raise LandscapeCheckpointError(
            f"{origin} has {len(matching)} networks that could be this {type(module).__name__}: "
            f"{', '.join(repr(part.prefix) for part in matching)}; say which one with prefix="
        )
    if not matching and prefix is not None:
        every = [_Part(one, groups, shapes, keys, state) for one in _prefixes(keys, groups, None)]
        others = [repr(part.prefix) for part in every if not part.difference()]
        raise LandscapeCheckpointError(
            f"prefix={prefix!r} does not name a {type(module).__name__} like this one in {origin}: "
            f"{parts[0].difference()}; what does: {', '.join(others) or 'nothing'}"
        )
    if not matching:
        nearest = min(parts, key=lambda part: (len(part.missing), len(part.other_shapes), len(part.extra)))
        raise LandscapeCheckpointError(f"{origin} is not of {type(module).__name__}: {nearest.difference()}")
    return matching[0].found


class _Part:
    """The tensors of a checkpoint whose names have one prefix, compared with those of a network."""

    def __init__(
        self,
        prefix: str,
        groups: Mapping[str, list[str]],
        shapes: Mapping[str, torch.Size | None],
        keys: Mapping[str, str],
        state: State,
    ) -> None:
        self.prefix = prefix
        self._count, self._shapes, self._state = len(groups), shapes, state
        present = {first: [prefix + name for name in group if prefix + name in keys] for first, group in groups.items()}
        self.found = {first: keys[matching[0]] for first, matching in present.items() if matching}
        self.missing = [first for first in groups if first not in self.found]
        own = {prefix + name for group in groups.values() for name in group}
        self.extra = [key for key in keys if key.startswith(prefix) and key not in own]
        self.other_shapes = [
            first for first, key in self.found.items() if shapes[first] not in (None, state[key].shape)
        ]

    def difference(self) -> str:
        """What keeps it from being that network; empty if nothing does."""
        if self.missing:
            return (
                f"it has no {self.prefix + self.missing[0]!r} ({len(self.missing)} of {self._count} tensors are "
                f"missing); it has {', '.join(list(self._state)[:4])}, ... Pass the network that was trained"
            )
        if self.other_shapes:
            first = self.other_shapes[0]
            key = self.found[first]
            return (
                f"{key!r} has shape {tuple(self._state[key].shape)}, the network's has "
                f"{tuple(self._shapes[first] or ())}"
            )
        if self.extra:
            return (
                f"it has {len(self.extra)} tensors more, {self.extra[0]!r} among them, so the network that was trained "
                "is larger. Pass that one, or a part of it that has a name of its own"
            )
        return ""


def _prefixes(keys: Mapping[str, str], groups: Mapping[str, list[str]], prefix: str | None) -> list[str]:
    if prefix is not None:
        return [prefix if not prefix or prefix.endswith(".") else f"{prefix}."]
    aliases = next(iter(groups.values()), [])
    ends = [key.removesuffix(name) for key in keys for name in aliases if key.endswith(f".{name}")]
    return list(dict.fromkeys(["", *ends]))


def _memory(tensor: Tensor) -> object:
    """Equal for tensors that are one: the same object, or the same elements in the same memory."""
    if is_lazy(tensor) or tensor.layout != torch.strided or not tensor.data_ptr():
        return id(tensor)
    return tensor.device, tensor.dtype, tensor.data_ptr(), tuple(tensor.shape), tensor.stride()
