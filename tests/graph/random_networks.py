"""Networks of random shape whose modules, classes and weights have names chosen to offend."""

from __future__ import annotations

import random

import torch
from torch import nn

_WORDS = (
    "optimizer", "dropout", "op", "Conv2d-op3", "op3", "Default", "network-Net", "Gradients",
    "Parameter", "Const",
    "Load", "TupleGetItem", "MakeTuple", "UpdateState", "name_scope", "my_scope", "cst1", "1",
    "17", "input", "x",
    "[:scalar]", "Linear[5]_0", "_orig_mod", "layer@1", "", " ", "/", "a/b", "-", "\ud800",
    "é" * 200,
)  # fmt: skip
_CHARACTERS = 'ab1_-@[]:/<>"{}|\\\n\t\x01 ²٣图é\u200b\U0001f600'


def _name(chance: random.Random) -> str:
    if chance.random() < 0.4:
        return chance.choice(_WORDS)
    return "".join(chance.choice(_CHARACTERS) for _ in range(chance.randint(1, 6)))


def _renamed(kind: type[nn.Module], chance: random.Random) -> type[nn.Module]:
    if chance.random() < 0.5:
        return kind
    name = _name(chance).encode("utf-8", "replace").decode().replace("\x00", "")
    return type(
        name, (kind,), {"__module__": chance.choice(["torch.nn.modules.mine", "somewhere"])}
    )


class _Scaled(nn.Module):
    """Weights of any name, some of them passed to functions of any number."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        for _ in range(chance.randint(1, 7)):
            name = _name(chance).replace(".", "_") or "_"
            if not hasattr(self, name):
                self.register_parameter(name, nn.Parameter(torch.ones(4)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for weight in self._parameters.values():
            x = torch.maximum(x * weight, x - 1.0)  # type: ignore[operator,arg-type]
        return x


class _Tree(nn.Module):
    def __init__(self, chance: random.Random, depth: int) -> None:
        super().__init__()
        for _ in range(chance.randint(1, 6)):
            name = _name(chance).replace(".", "_") or "_"
            if not hasattr(self, name) or name in self._modules:
                self.add_module(name, _part(chance, depth))
        self.branches = chance.random() < 0.15

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for part in self._modules.values():
            x = part(x)  # type: ignore[misc]
        if self.branches and x.sum() > 0:  # torch.export refuses this
            x, _ = torch.split(torch.cat([x, x], -1), 4, -1)
        return x


def _part(chance: random.Random, depth: int) -> nn.Module:
    if depth and chance.random() < 0.4:
        return _renamed(_Tree, chance)(chance, depth - 1)
    if chance.random() < 0.3:
        return _renamed(_Scaled, chance)(chance)
    kind = chance.choice([nn.Linear, nn.LayerNorm, nn.ReLU, nn.Dropout, nn.BatchNorm1d])
    arguments = {nn.Linear: (4, 4), nn.LayerNorm: (4,), nn.BatchNorm1d: (4,)}.get(kind, ())
    return _renamed(kind, chance)(*arguments)


def random_network(chance: random.Random) -> nn.Module:
    """A network that takes and returns a ``(3, 4)`` tensor.

    Args:
        chance: decides everything.
    """
    return _renamed(_Tree, chance)(chance, 3)
