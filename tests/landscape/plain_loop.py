"""The loop anyone would write: copy the network, set its parameters at each point, run it batch by
batch.
"""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import nn

from mindsummary_lightning.landscape.batches import Batch, take_batches
from mindsummary_lightning.landscape.checkpoint_names import moving_names
from mindsummary_lightning.landscape.evaluation import EvaluationOptions, PlaneLoss, first_loss
from mindsummary_lightning.landscape.grid import LandscapeGrid
from mindsummary_lightning.landscape.mean_loss import MeanLoss
from mindsummary_lightning.landscape.plane import FlatPlane, FlatState, Plane
from mindsummary_lightning.landscape.shortcuts import loss_on_plane
from tests.landscape import nets

CPU = torch.device("cpu")
POINTS = np.array([[x, y] for y in (-0.9, 0.0, 0.3) for x in (-1.0, 0.0, 0.2, 0.8)])


def plane_of(net: nn.Module, names: list[str] | None = None) -> Plane:
    torch.manual_seed(5)
    names = moving_names(net) if names is None else names
    tensors = dict(net.named_parameters()) | dict(net.named_buffers())
    anchor = {name: tensor.detach().clone() for name, tensor in tensors.items()}
    return Plane(
        anchor,
        *(flat({name: 0.3 * torch.randn_like(anchor[name]) for name in names}) for _ in range(2)),
    )


def flat(parts: dict[str, torch.Tensor]) -> FlatState:
    """A direction of these parts."""
    direction = FlatState(
        {name: part.shape for name, part in parts.items()}, next(iter(parts.values())).dtype
    )
    for name, part in parts.items():
        direction[name].copy_(part)
    return direction


def plain_loop(
    net: nn.Module, plane: Plane, loader: object, loss_fn: object = nets.LOSS
) -> np.ndarray:
    net = copy.deepcopy(net).eval()
    losses = []
    for x, y in POINTS:
        with torch.no_grad():
            for name, tensor in [*net.named_parameters(), *net.named_buffers()]:
                moved = x * plane.first[name] + y * plane.second[name] if name in plane.first else 0
                tensor.copy_(plane.anchor[name] + moved)
            losses.append(
                np.mean([loss_fn(net(inputs), target).item() for inputs, target in loader])
            )
    return np.array(losses)


def job_of(plane: Plane) -> LandscapeGrid:
    return LandscapeGrid((1,), lambda: plane, np.linspace(-1, 1, 5), np.linspace(-0.9, 0.9, 5))


def without_shortcuts(
    net: nn.Module, plane: Plane, batches: tuple[Batch, ...] | None = None
) -> PlaneLoss:
    own = take_batches(nets.loader(net), 96, 0) if batches is None else batches
    return PlaneLoss(MeanLoss(net, nets.LOSS), FlatPlane(plane, CPU), own, EvaluationOptions())


def evaluation(
    net: nn.Module, plane: Plane, loss_fn: object = nets.LOSS, **options: object
) -> PlaneLoss:
    batches = take_batches(nets.loader(net), 96, 0)
    loss = MeanLoss(net, loss_fn)
    first_loss(loss, plane.anchor, batches, CPU, EvaluationOptions())
    return loss_on_plane(loss, job_of(plane), batches, CPU, EvaluationOptions(**options))[1]
