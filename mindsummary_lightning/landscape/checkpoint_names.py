"""Match the parameters and buffers of a network with the names in a checkpoint.

Tensors are not changed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from mindsummary_lightning.landscape.checkpoints import LandscapeCheckpointError
from mindsummary_lightning.landscape.directions import State, is_moved
from mindsummary_lightning.landscape.plane import memory_of

_COMPILED = "_orig_mod."  # torch.compile puts it into the names of a network's tensors


def named_tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield every parameter and buffer of a module with its name.

    A submodule with two names, or a tied weight, is yielded under all its names.
    """
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


def canonical_names(module: nn.Module) -> dict[str, str]:
    """Map every name of a parameter or buffer to the first name of the same tensor.

    Tensors that are views of the same elements in memory count as the same tensor.
    """
    first: dict[object, str] = {}
    names = {}
    for name, tensor in named_tensors(module):
        names[name] = first.setdefault(memory_of(tensor), name)
    return names


def moving_names(module: nn.Module) -> list[str]:
    """List the weights and biases that a landscape moves; tied names appear once.

    They are floating-point or complex parameters.
    """
    names = canonical_names(module)
    moving = []
    for name, tensor in module.named_parameters():
        has_direction = tensor.is_floating_point() or tensor.is_complex()
        if is_moved(name) and has_direction and names[name] == name:
            moving.append(name)
    return moving


def names_in_checkpoint(
    module: nn.Module, state: State, origin: str, prefix: str | None = None
) -> dict[str, str]:
    """Map the names of a network's tensors to their names in a checkpoint.

    The checkpoint may hold the module as a part of a larger module (a network inside a
    LightningModule). Then all of its names have the same prefix, and all names with that prefix are
    the module's. If this is true of several parts, the shapes decide. ``origin`` is the
    checkpoint's path, for messages. ``prefix`` selects a part.

    Raises:
        LandscapeCheckpointError: no part of the checkpoint is this module, or several are.
    """
    network = _network_tensors(module)
    checkpoint = _Checkpoint({key.replace(_COMPILED, ""): key for key in state}, state)
    kind = type(module).__name__
    if prefix is not None:
        dotted = prefix if not prefix or prefix.endswith(".") else f"{prefix}."
        part = _compared(dotted, network, checkpoint)
        if part.difference:
            fitting = [other for other in _parts(network, checkpoint) if not other.difference]
            raise LandscapeCheckpointError(
                f"prefix={prefix!r} does not select a {kind} like the module in {origin}: "
                f"{part.difference}. Prefixes that fit: {_prefixes(fitting) or 'none'}"
            )
        return part.found
    parts = _parts(network, checkpoint)
    matching = [part for part in parts if not part.difference]
    if len(matching) == 1:
        return matching[0].found
    if matching:
        raise LandscapeCheckpointError(
            f"{origin} has {len(matching)} networks that fit this {kind}. "
            f"Choose one with prefix=: {_prefixes(matching)}"
        )
    nearest = min(parts, key=lambda part: part.distance)
    raise LandscapeCheckpointError(f"{origin} is not a checkpoint of {kind}: {nearest.difference}")


def _prefixes(parts: Sequence[_Part]) -> str:
    return ", ".join(repr(part.prefix) for part in parts)


@dataclass(frozen=True)
class _Network:
    """Names and shapes of the tensors of a network.

    Attributes:
        aliases: all names of a tensor in the network's state dict, by its canonical name.
        shapes: shapes by canonical name; ``None`` for a lazy tensor.
    """

    aliases: Mapping[str, list[str]]
    shapes: Mapping[str, torch.Size | None]

    def names(self, prefix: str) -> set[str]:
        """Return all names of the network's tensors with ``prefix`` before every name."""
        names: set[str] = set()
        for aliases in self.aliases.values():
            names.update(prefix + name for name in aliases)
        return names


@dataclass(frozen=True)
class _Checkpoint:
    """The tensors of a checkpoint, and their names without ``_orig_mod.``.

    ``torch.compile`` puts ``_orig_mod.`` into names.
    """

    keys: Mapping[str, str]
    state: State


def _network_tensors(module: nn.Module) -> _Network:
    names = canonical_names(module)
    aliases: dict[str, list[str]] = {}
    shapes: dict[str, torch.Size | None] = {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        if isinstance(tensor, Tensor):
            first = names.get(name, name)
            aliases.setdefault(first, []).append(name.replace(_COMPILED, ""))
            shapes[first] = None if is_lazy(tensor) else tensor.shape
    return _Network(aliases, shapes)


def _parts(network: _Network, checkpoint: _Checkpoint) -> list[_Part]:
    """Compare the network with the checkpoint, and with each part of it that may fit."""
    names = next(iter(network.aliases.values()), [])
    prefixes = {"": None}
    for key in checkpoint.keys:
        for name in names:
            if key.endswith(f".{name}"):
                prefixes[key.removesuffix(name)] = None
    return [_compared(prefix, network, checkpoint) for prefix in prefixes]


class _Part(NamedTuple):
    """Tensors of a checkpoint that share a prefix, as compared with a network.

    ``found`` has the names in the checkpoint by canonical name. ``difference`` tells why the
    tensors are not the network's; it is empty if they are. A larger ``distance`` is a larger
    difference.
    """

    prefix: str
    found: dict[str, str]
    difference: str = ""
    distance: tuple[int, int] = (0, 0)


def _compared(prefix: str, network: _Network, checkpoint: _Checkpoint) -> _Part:
    keys, state = checkpoint.keys, checkpoint.state
    found = {}
    missing = []
    for first, names in network.aliases.items():
        present = [prefix + name for name in names if prefix + name in keys]
        if present:
            found[first] = keys[present[0]]
        else:
            missing.append(first)
    if missing:
        lack = f"{len(missing)} of {len(network.aliases)} tensors are missing"
        has = ", ".join(list(state)[:4])
        text = (
            f"it has no {prefix + missing[0]!r} ({lack}); its tensors are {has}, ... "
            "Pass the network that was trained"
        )
        return _Part(prefix, found, text, (2, len(missing)))
    reshaped = _reshaped(found, network, state)
    if reshaped:
        first = reshaped[0]
        key = found[first]
        shape = tuple(network.shapes[first] or ())
        text = f"{key!r} has shape {tuple(state[key].shape)}, but the network's tensor has {shape}"
        return _Part(prefix, found, text, (1, len(reshaped)))
    own = network.names(prefix)
    extra = [key for key in keys if key.startswith(prefix) and key not in own]
    if extra:
        text = (
            f"it has {len(extra)} more tensors, such as {extra[0]!r}: the trained network is "
            "larger. Pass the trained network, or a submodule that is an attribute of it"
        )
        return _Part(prefix, found, text)
    return _Part(prefix, found)


def _reshaped(found: Mapping[str, str], network: _Network, state: State) -> list[str]:
    """List the canonical names of tensors whose shapes differ in the checkpoint."""
    names = []
    for first, key in found.items():
        if network.shapes[first] not in (None, state[key].shape):
            names.append(first)
    return names
