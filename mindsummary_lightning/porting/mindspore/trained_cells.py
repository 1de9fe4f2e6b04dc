"""``trained_cells``: finds the network and the optimizer of a ``Model``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mindspore

# Any, in this module: MindSpore's cells, and the arguments of a Model's callbacks.


@dataclass(frozen=True)
class TrainedCells:
    """The network, the optimizer and the loss scale that a ``Model`` trains with.

    Attributes:
        network: the ``Cell``, without its loss where ``Model`` added that.
        optimizer: the ``Cell`` that is called with the gradients; ``None`` if it is not known.
        loss_scale: factor of the gradients in the backward pass.
    """

    network: Any
    optimizer: Any
    loss_scale: float


def trained_cells(arguments: Any) -> TrainedCells:
    """Find the network, the optimizer and the loss scale that a ``Model`` trains with.

    They come from ``run_context.original_args()``.
    """
    network, optimizer, scale = arguments.network, arguments.optimizer, None
    while isinstance(network, (mindspore.nn.TrainOneStepCell, mindspore.nn.WithLossCell)):
        optimizer = getattr(network, "optimizer", optimizer)
        scale = getattr(network, "scale_sense", scale)
        if isinstance(network, mindspore.nn.WithLossCell):
            network = network.backbone_network
        else:
            network = network.network
    if optimizer is None:
        optimizer = next(
            (cell for cell in network.cells() if isinstance(cell, mindspore.nn.Optimizer)), None
        )
    return TrainedCells(
        network, optimizer, loss_scale_of(optimizer) if scale is None else float(scale.asnumpy())
    )


def loss_scale_of(optimizer: Any) -> float:
    """Return the factor by which an optimizer divides its input gradients."""
    return float(getattr(optimizer, "loss_scale", None) or 1.0)
