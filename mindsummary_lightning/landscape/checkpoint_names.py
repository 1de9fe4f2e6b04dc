"""A network's tensors by the names they have in a checkpoint. Nothing here changes a tensor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from mindsummary_lightning.landscape.checkpoints import LandscapeCheckpointError
from mindsummary_lightning.landscape.directions import State, is_moved
from mindsummary_lightning.landscape.plane import memory_of

_COMPILED = "_orig_mod."  # torch.compile puts it into the names of a network's tensors


def named_tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Every name of every parameter and buffer: a submodule with two names, or a tied weight, gives several."""
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


def canonical_names(module: nn.Module) -> dict[str, str]:
    """Every name of every parameter and buffer -> the first name of that tensor, or of one in the same memory."""
    first: dict[object, str] = {}
    return {
        name: first.setdefault(memory_of(tensor), name) for name, tensor in named_tensors(module)
    }


def moving_names(module: nn.Module) -> list[str]:
    """Parameters of the module that a landscape moves: floating weights and biases, tied ones once."""
    names = canonical_names(module)
    return [
        name
        for name, tensor in module.named_parameters()
        if is_moved(name)
        and (tensor.is_floating_point() or tensor.is_complex())
        and names[name] == name
    ]


def names_in_checkpoint(
    module: nn.Module, state: State, origin: str, prefix: str | None = None
) -> dict[str, str]:
    """The canonical name of each tensor of the module's state dict -> its name in the checkpoint.

    The checkpoint may hold the module as a part of a larger one (a network inside a
    LightningModule): then all of its names have one prefix, and all names with that prefix are the
    module's. Where that is true of several parts, the shapes decide. ``origin`` is the checkpoint's
    path, for the message.

    Raises:
        LandscapeCheckpointError: no part of the checkpoint is this module, or several are.
    """
    names = canonical_names(module)
    tensors = {
        name: tensor
        for name, tensor in module.state_dict(keep_vars=True).items()
        if isinstance(tensor, Tensor)
    }
    aliases: dict[str, list[str]] = {}
    for name in tensors:
        aliases.setdefault(names.get(name, name), []).append(name.replace(_COMPILED, ""))
    shapes = {
        names.get(name, name): None if is_lazy(tensor) else tensor.shape
        for name, tensor in tensors.items()
    }
    keys = {key.replace(_COMPILED, ""): key for key in state}

    def parts(prefixes: Iterable[str]) -> list[_Part]:
        return [_compared(each, aliases, shapes, keys, state) for each in prefixes]

    first = next(iter(aliases.values()), [])
    ends = [key.removesuffix(name) for key in keys for name in first if key.endswith(f".{name}")]
    every = dict.fromkeys(["", *ends])
    compared = parts(
        every
        if prefix is None
        else [prefix if not prefix or prefix.endswith(".") else f"{prefix}."]
    )
    matching = [part for part in compared if not part.difference]
    if len(matching) == 1:
        return matching[0].found
    kind = type(module).__name__
    if matching:
        raise LandscapeCheckpointError(
            f"{origin} has {len(matching)} networks that could be this {kind}: "
            f"{', '.join(repr(part.prefix) for part in matching)}; say which one with prefix="
        )
    if prefix is None:
        nearest = min(compared, key=lambda part: part.distance)
        raise LandscapeCheckpointError(f"{origin} is not of {kind}: {nearest.difference}")
    others = ", ".join(repr(part.prefix) for part in parts(every) if not part.difference)
    raise LandscapeCheckpointError(
        f"prefix={prefix!r} does not name a {kind} like this one in {origin}: {compared[0].difference}; what does: "
        f"{others or 'nothing'}"
    )


class _Part(NamedTuple):
    """The tensors of a checkpoint whose names have one prefix, and what keeps them from being those of a network."""

    prefix: str
    found: dict[str, str]
    difference: str = ""
    distance: tuple[int, int] = (0, 0)


def _compared(
    prefix: str,
    aliases: Mapping[str, list[str]],
    shapes: Mapping[str, torch.Size | None],
    keys: Mapping[str, str],
    state: State,
) -> _Part:
    present = {
        first: [prefix + name for name in names if prefix + name in keys]
        for first, names in aliases.items()
    }
    found = {first: keys[names[0]] for first, names in present.items() if names}
    if missing := [first for first in aliases if first not in found]:
        text = (
            f"it has no {prefix + missing[0]!r} ({len(missing)} of {len(aliases)} tensors are missing); it has "
            f"{', '.join(list(state)[:4])}, ... Pass the network that was trained"
        )
        return _Part(prefix, found, text, (2, len(missing)))
    if other := [
        (first, key)
        for first, key in found.items()
        if shapes[first] not in (None, state[key].shape)
    ]:
        first, key = other[0]
        text = f"{key!r} has shape {tuple(state[key].shape)}, the network's has {tuple(shapes[first] or ())}"
        return _Part(prefix, found, text, (1, len(other)))
    own = {prefix + name for names in aliases.values() for name in names}
    if extra := [key for key in keys if key.startswith(prefix) and key not in own]:
        text = (
            f"it has {len(extra)} tensors more, {extra[0]!r} among them, so the network that was trained is larger. "
            "Pass that one, or a part of it that has a name of its own"
        )
        return _Part(prefix, found, text)
    return _Part(prefix, found)
