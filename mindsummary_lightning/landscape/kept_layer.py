"""A first layer on fixed inputs, computed three times for all points of a plane.

Linear and convolutions are affine in the coordinates: ``W = W0 + x Wx + y Wy`` gives ``Z0 + x Zx + y Zy``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from mindsummary_lightning.landscape.evaluation import PlaneLoss
from mindsummary_lightning.landscape.mean_loss import MeanLoss
from mindsummary_lightning.landscape.plane import FlatPlane

_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
# Below this many products per output, reading Z0, Zx and Zy costs as much as the layer itself.
_MIN_FAN_IN = 64
_MAX_BYTES = 2**30  # of the inputs, of the outputs, and of those of a point


class KeptLayerLoss(PlaneLoss):
    """Mean loss with the outputs of one layer for known inputs put together from three that are there.

    For any other input, and for one that comes a second time at a point, the layer computes.
    """

    def __init__(self, name: str, inputs: list[Tensor], loss: MeanLoss, plane: FlatPlane, *others: Any) -> None:
        super().__init__(loss, plane, *others)
        layer = loss.module.get_submodule(name)
        names = loss.canonical_names()
        parameters = {key: names[f"{name}.{key}" if name else key] for key, _ in layer.named_parameters()}
        states = [
            {key: state[first] for key, first in parameters.items()}
            for state in (plane.anchor, plane.first, plane.second)
        ]
        with self.prepared():
            self._parts = [[functional_call(layer, state, (data,)) for state in states] for data in inputs]
        self._name, self._inputs = name, inputs

    @classmethod
    def of(cls, plain: PlaneLoss, loss: MeanLoss, *others: Any) -> PlaneLoss | None:
        """One that keeps the layer which is called first, unless that or its input is of another kind or too large."""
        first: list[tuple[str, Any]] = []
        with plain.prepared():
            network = plain.network_at(0.0, 0.0)
            for name, layer in network.module.named_modules():
                weight = layer._parameters.get("weight")
                if type(layer) in _LAYERS and weight is not None and weight[0].numel() >= _MIN_FAN_IN:
                    layer.register_forward_pre_hook(lambda _, args, name=name: called.append((name, args)))
            for index in range(len(plain.batches)):
                called: list[tuple[str, Any]] = []
                network(plain.batches[index], index)
                first += called[:1]
        inputs = [args[0].detach() for _, args in first if len(args) == 1 and type(args[0]) is Tensor]
        if len(inputs) < len(plain.batches) or len({name for name, _ in first}) > 1:
            return None
        kept = cls(first[0][0], inputs, loss, *others)
        return kept if 5 * sum(parts[0].nbytes for parts in kept._parts) <= _MAX_BYTES else None

    def network_at(self, x: float, y: float) -> Any:
        """A copy of the network at a point."""
        network = super().network_at(x, y)
        layer = network.module.get_submodule(self._name)
        left = list(zip(self._inputs, self._parts, strict=True))

        def forward(data: Tensor) -> Tensor:
            for number, (known, (origin, along_x, along_y)) in enumerate(left):
                if _is_same(data, known):
                    del left[number]
                    return torch.add(origin, along_y, alpha=y).add_(along_x, alpha=x)
            return type(layer).forward(layer, data)  # type: ignore[no-any-return]

        layer.forward = forward
        return network


def _is_same(one: Tensor, other: Tensor) -> bool:
    if type(one) is not Tensor or one.shape != other.shape or one.dtype != other.dtype:
        return False
    return (one.data_ptr() == other.data_ptr() and one.stride() == other.stride()) or torch.equal(one, other)
