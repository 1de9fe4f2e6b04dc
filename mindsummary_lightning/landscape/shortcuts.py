"""Compute loss landscapes faster where this gives the same losses.

The shortcuts are joined batches, and a first layer that is computed three times for all points.

Each shortcut is tried first: it is used if its losses equal those of the plain evaluation, and
if it raises no error.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call

from mindsummary_lightning.landscape.batches import Batch, joined
from mindsummary_lightning.landscape.evaluation import Autocast, EvaluationOptions, PlaneLoss
from mindsummary_lightning.landscape.grid import LandscapeGrid
from mindsummary_lightning.landscape.mean_loss import MeanLoss
from mindsummary_lightning.landscape.plane import FlatPlane

_LOG = logging.getLogger(__name__)

# The largest tensor a joined batch may make. On a CPU larger ones leave its caches, and beyond 32
# MB glibc maps and unmaps memory for every tensor, which costs a convolution as much as its
# arithmetic; an accelerator needs larger batches to be busy. A constant, not a measurement: the
# same call gives the same bits again.
_MAX_BYTES_ON_CPU = 2**21
_MAX_BYTES_ON_DEVICE = 2**28
_PROBE = (0.37, -0.61)
_TOLERANCE = 2e-6
_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
# Below this many products per output, reading Z0, Zx and Zy costs as much as the layer itself.
_MIN_FAN_IN = 64
_MAX_KEPT_BYTES = 2**30  # of the inputs, of the outputs, and of those of a point


def loss_on_plane(
    loss: MeanLoss,
    job: LandscapeGrid,
    batches: tuple[Batch, ...],
    device: torch.device,
    options: EvaluationOptions,
    autocast: Autocast = nullcontext,
) -> tuple[PlaneLoss, PlaneLoss]:
    """Return the plain evaluation of a landscape, and the fastest with equal losses.

    A shortcut is used only if the mean loss at two corners of the grid and at a point off its axes
    agrees with the plain evaluation to 2e-6 (relative), and only for a loss that was tried out
    before. No shortcut is tried in training mode, in another precision, with ``compile``, with
    several points at once, or for a step that needs gradients or changes its batches.
    """
    plane = FlatPlane(job.plane(), device, options.dtype)
    plain = PlaneLoss(loss, plane, batches, options, autocast)
    is_ordinary = not (options.train_mode or options.compile or options.points_at_once > 1)
    is_single = options.precision in (None, "32-true") and plane.own_dtype() == torch.float32
    is_known = loss.bytes_per_sample > 0 and not loss.changes_batches
    is_plain_run = is_ordinary and is_single
    is_plain_loss = is_known and not loss.needs_gradients
    if not is_plain_run or not is_plain_loss:
        return plain, plain
    check = _ShortcutCheck(loss, plain, _check_points(job))
    best = plain
    max_bytes = _MAX_BYTES_ON_CPU if device.type == "cpu" else _MAX_BYTES_ON_DEVICE
    fewer = joined(batches, int(max_bytes / loss.bytes_per_sample))
    if len(fewer) < len(batches):
        make = partial(PlaneLoss, loss, plane, fewer, options, autocast)
        best = check.accepted("joining batches", make) or best
    keep = partial(_keeping_first_layer, best)
    return plain, check.accepted("keeping the first layer", keep) or best


def _check_points(job: LandscapeGrid) -> NDArray[np.float64]:
    """Return two corners of the grid and a point off its axes, shape ``(3, 2)``."""
    return np.array(
        [
            (job.x[0], job.y[0]),
            (job.x[-1], job.y[-1]),
            (_PROBE[0] * job.x[0], _PROBE[1] * job.y[-1]),
        ]
    )


class _ShortcutCheck:
    """Comparison of the losses of shortcuts with the plain evaluation's."""

    def __init__(self, loss: MeanLoss, plain: PlaneLoss, points: NDArray[np.float64]) -> None:
        self._loss = loss
        self._plain = plain
        self._points = points
        self._expected: NDArray[np.float64] | None = None

    def accepted(self, name: str, make: Callable[[], PlaneLoss | None]) -> PlaneLoss | None:
        """Return a shortcut if its losses equal the plain evaluation's, else ``None``."""
        try:
            candidate = make()
            if candidate is None:
                return None
            if self._expected is None:
                self._expected = self._plain.losses(self._points)
            found = candidate.losses(self._points)
            if np.allclose(found, self._expected, rtol=_TOLERANCE, atol=0.0, equal_nan=True):
                return candidate
            expected = self._expected[0]
            reason = f"gives {found[0]:.7g} instead of {expected:.7g}"
        except Exception as error:
            reason = f"raises {type(error).__name__}: {error}".splitlines()[0]
        if name not in self._loss.dropped:
            self._loss.dropped.add(name)
            _LOG.info("loss landscape: computed without %s, which %s", name, reason)
        return None


class KeptLayerLoss(PlaneLoss):
    """Mean loss that interpolates the outputs of a layer over the plane.

    Linear layers and convolutions are affine in the coordinates: ``W = W0 + x Wx + y Wy`` gives
    ``Z0 + x Zx + y Zy``. This is done for known inputs. For any other input, and for an input that
    comes a second time at a point, the layer computes.
    """

    def __init__(self, plain: PlaneLoss, name: str, inputs: list[Tensor]) -> None:
        vars(self).update(vars(plain))
        layer = self._loss.module.get_submodule(name)
        names = self._loss.canonical_names()
        parameters = {}
        for key, _ in layer.named_parameters():
            parameters[key] = names[f"{name}.{key}" if name else key]
        corners = []
        for state in (self._plane.anchor, self._plane.first, self._plane.second):
            corners.append({key: state[first] for key, first in parameters.items()})
        self.parts: list[list[Tensor]] = []
        with self.prepared():
            for data in inputs:
                self.parts.append([functional_call(layer, corner, (data,)) for corner in corners])
        self._name = name
        self._inputs = inputs

    def network_at(self, x: float, y: float) -> Any:
        """Return a copy of the network with the parameters at a point of the plane."""
        network = super().network_at(x, y)
        layer = network.module.get_submodule(self._name)
        left = list(zip(self._inputs, self.parts, strict=True))

        def forward(data: Tensor) -> Tensor:
            for number, (known, (origin, along_x, along_y)) in enumerate(left):
                if _is_same(data, known):
                    del left[number]
                    return torch.add(origin, along_y, alpha=y).add_(along_x, alpha=x)
            return type(layer).forward(layer, data)  # type: ignore[no-any-return]

        layer.forward = forward
        return network


def _keeping_first_layer(plain: PlaneLoss) -> PlaneLoss | None:
    """Make an evaluation that keeps the outputs of the layer that is called first.

    It is ``None`` if that layer or its input is of an unsupported kind, or its outputs are too
    large.
    """
    first: list[tuple[str, Any]] = []
    with plain.prepared():
        network = plain.network_at(0.0, 0.0)
        for name, layer in network.module.named_modules():
            weight = layer._parameters.get("weight")
            if type(layer) in _LAYERS and weight is not None and weight[0].numel() >= _MIN_FAN_IN:
                layer.register_forward_pre_hook(
                    lambda _, args, name=name: called.append((name, args))
                )
        for index, batch in enumerate(plain.batches):
            called: list[tuple[str, Any]] = []
            network(batch, index)
            first += called[:1]
    inputs = [args[0].detach() for _, args in first if len(args) == 1 and type(args[0]) is Tensor]
    if len(inputs) < len(plain.batches) or len({name for name, _ in first}) > 1:
        return None
    kept = KeptLayerLoss(plain, first[0][0], inputs)
    size = 5 * sum(parts[0].nbytes for parts in kept.parts)
    return kept if size <= _MAX_KEPT_BYTES else None


def _is_same(one: Tensor, other: Tensor) -> bool:
    if type(one) is not Tensor:
        return False
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.data_ptr() == other.data_ptr() and one.stride() == other.stride():
        return True
    return torch.equal(one, other)
