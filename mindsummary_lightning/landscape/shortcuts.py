"""Less work for the same losses: batches joined into larger ones, and a first layer computed once for all points.

Each shortcut is compared with the plain evaluation at the corners of the grid before it is used.

On a fixed input Linear and convolutions are affine in the coordinates: ``W = W0 + x Wx + y Wy`` gives
``layer(input) = Z0 + x Zx + y Zy``, so three passes of the layer serve the whole grid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.parameter import is_lazy

from mindsummary_lightning.landscape.batches import Batch, joined, tensors_in_batch
from mindsummary_lightning.landscape.evaluation import TRUE_PRECISIONS, Autocast, EvaluationOptions, PlaneLoss
from mindsummary_lightning.landscape.grid import LandscapeGrid
from mindsummary_lightning.landscape.mean_loss import MeanLoss
from mindsummary_lightning.landscape.plane import FlatPlane, strided_parts

# The largest tensor a joined batch may make. On a CPU larger ones leave its caches, and beyond 32 MB glibc maps and
# unmaps memory for every tensor, which costs a convolution as much as its arithmetic; an accelerator needs larger
# batches to be busy. A constant, not a measurement: the same call gives the same bits again.
_MAX_BYTES_ON_CPU = 2**21
_MAX_BYTES_ON_DEVICE = 2**28
# What the three stored outputs, their sum and its first half may take together.
_MAX_AFFINE_BYTES = 2**30
# Below this many products per output, reading Z0, Zx and Zy costs as much as the layer itself.
_MIN_FAN_IN = 64
_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
_PROBE = (0.37, -0.61)
_TOLERANCE = 2e-6


def loss_on_plane(
    loss: MeanLoss,
    job: LandscapeGrid,
    batches: tuple[Batch, ...],
    device: torch.device,
    options: EvaluationOptions,
    autocast: Autocast = nullcontext,
    move: Callable[..., Any] | None = None,
) -> tuple[PlaneLoss, PlaneLoss]:
    """The plain evaluation of a landscape, and the fastest one that gives the same losses.

    A shortcut is used only if the mean loss at the corners of the grid and at a point off its axes agrees with the
    plain evaluation to 2e-6. None is tried in training mode, in another precision, with ``compile``, with several
    points at once, or for a step that changes its batches.
    """
    plane = FlatPlane(job.open_plane(), device, TRUE_PRECISIONS.get(options.precision or ""))
    common = (options, autocast, move)
    plain = best = PlaneLoss(loss, plane, batches, *common)
    is_ordinary = not (options.train_mode or options.compile or options.points_at_once > 1)
    is_single = options.precision in (None, "32-true") and plane.own_dtype() == torch.float32
    if not is_ordinary or not is_single or loss.changes_batches or loss.needs_gradients:
        return plain, plain
    corners = [(x, y) for x in job.x[[0, -1]] for y in job.y[[0, -1]]]
    probes = np.array([*corners, (_PROBE[0] * job.x[0], _PROBE[1] * job.y[-1])])
    expected = _one_by_one(plain, probes)

    def agrees(candidate: PlaneLoss) -> bool:
        return np.allclose(_one_by_one(candidate, probes), expected, rtol=_TOLERANCE, atol=0.0, equal_nan=True)

    max_bytes = _MAX_BYTES_ON_CPU if device.type == "cpu" else _MAX_BYTES_ON_DEVICE
    fewer = joined(batches, int(max_bytes / max(_bytes_per_sample(loss, plain, batches[0]), 1.0)))
    if len(fewer) < len(batches) and agrees(candidate := PlaneLoss(loss, plane, fewer, *common)):
        best, batches = candidate, fewer
    layer_and_inputs = find_affine_layer(loss, best, plane)
    if layer_and_inputs is not None:
        affine = AffinePlaneLoss(*layer_and_inputs, loss, plane, batches, *common)
        best = affine if agrees(affine) else best
    return plain, best


class AffinePlaneLoss(PlaneLoss):
    """Mean loss with one layer replaced by the sum of three outputs that are computed once per batch.

    The layer's input of each batch is the same at every point; where it is not, or where the layer is called once more,
    it computes. Its parameters move like all others, so that a network may use them a second time outside the layer.
    """

    def __init__(
        self, layer: nn.Module, inputs: Sequence[Tensor], loss: MeanLoss, plane: FlatPlane, *others: Any
    ) -> None:
        self._layer, self._inputs, self._stored = layer, inputs, -1
        self._y: float | None = None
        self._parts: list[list[Tensor]] = []
        self._rows: list[Tensor] = []
        self._outputs: list[Tensor] = []
        super().__init__(loss, plane, *others)
        names = _names_in_plane(loss, layer)
        states = [
            {name: state[first] for name, first in names.items()} for state in (plane.anchor, plane.first, plane.second)
        ]
        with self.prepared():
            parts = [[functional_call(layer, state, (data,)) for state in states] for data in inputs]
        self._rows, self._outputs = ([torch.empty_like(origin) for origin, _, _ in parts] for _ in range(2))
        self._parts = parts

    def _bind(self, overlapping: set[int]) -> set[int]:
        moved = super()._bind(overlapping)
        if self._parts:
            vars(self._layer)["forward"] = self._forward
        return moved

    def _forward(self, data: Tensor) -> Tensor:
        index, self._stored = self._stored, -1
        if index >= 0 and _is_same(data, self._inputs[index]):
            return self._outputs[index]
        return type(self._layer).forward(self._layer, data)  # type: ignore[no-any-return]

    def _place(self, x: float, y: float) -> None:
        super()._place(x, y)
        for (origin, along_x, along_y), row, output in zip(self._parts, self._rows, self._outputs, strict=True):
            if y != self._y:
                torch.add(origin, along_y, alpha=y, out=row)
            torch.add(row, along_x, alpha=x, out=output)
        self._y = y

    def _batch_loss(self, index: int) -> Tensor:
        self._stored = index
        return super()._batch_loss(index)


def find_affine_layer(loss: MeanLoss, plain: PlaneLoss, plane: FlatPlane) -> tuple[nn.Module, list[Tensor]] | None:
    """The first Linear or convolution of the network and its inputs, if three passes of it can serve every point.

    It must be called once per batch and its input must have the same bits at the origin and at another point. Layers
    with few products per output are skipped, as are those whose outputs would take more than 1 GiB, and those with
    parameters that the plane does not move.
    """
    inputs: list[Tensor] = []
    layer: nn.Module | None = None
    with plain.prepared():
        for index in range(len(plain.batches)):
            (first, here), (other, there) = (_first_call(loss, plain, point, index) for point in ((0.0, 0.0), _PROBE))
            if here is None or there is None or first is not other or layer not in (None, first):
                return None
            if not torch.equal(here, there):
                return None
            layer = first
            inputs.append(here)
        if layer is None or not all(name in plane.first for name in _names_in_plane(loss, layer).values()):
            return None
        needed = 5 * layer(inputs[0]).nbytes * len(inputs)
    return (layer, inputs) if needed <= _MAX_AFFINE_BYTES else None


def _first_call(
    loss: MeanLoss, plain: PlaneLoss, point: tuple[float, float], index: int
) -> tuple[nn.Module | None, Tensor | None]:
    """The first suitable layer that one evaluation calls, and its input; ``None`` if it is called in another way."""
    calls: list[tuple[nn.Module, tuple[Any, ...], dict[str, Any]]] = []
    layers = [layer for layer in loss.module.modules() if _is_suitable(layer)]
    with ExitStack() as hooks:
        for layer in layers:
            hooks.enter_context(layer.register_forward_pre_hook(lambda *call: calls.append(call), with_kwargs=True))
        plain.run(*point, index)
    if not calls:
        return None, None
    layer, args, kwargs = calls[0]
    is_plain = len(args) == 1 and type(args[0]) is Tensor and args[0].layout == torch.strided and not kwargs
    return layer, args[0].detach() if is_plain and sum(call[0] is layer for call in calls) == 1 else None


def _one_by_one(plane_loss: PlaneLoss, points: NDArray[np.float64]) -> NDArray[np.float64]:
    with plane_loss.prepared():
        return np.concatenate([plane_loss.losses(point[None]) for point in points])


def _is_same(one: Tensor, other: Tensor) -> bool:
    if type(one) is not Tensor or one.shape != other.shape or one.dtype != other.dtype:
        return False
    return (one.data_ptr() == other.data_ptr() and one.stride() == other.stride()) or torch.equal(one, other)


def _is_suitable(layer: nn.Module) -> bool:
    # A subclass, a forward of its own, hooks, a compiler or computed weights may make anything of its parameters.
    if type(layer) not in _LAYERS or "forward" in vars(layer) or layer._compiled_call_impl is not None:
        return False
    if any(vars(layer)[hooks] for hooks in ("_forward_hooks", "_forward_pre_hooks")):
        return False
    weight = layer._parameters.get("weight")
    is_single = all(p is None or p.dtype == torch.float32 for p in layer._parameters.values())
    return weight is not None and is_single and not is_lazy(weight) and weight[0].numel() >= _MIN_FAN_IN


def _names_in_plane(loss: MeanLoss, layer: nn.Module) -> dict[str, str]:
    """Names of a layer's parameters in the layer -> in the plane."""
    place = next(name for name, module in loss.module.named_modules() if module is layer)
    names = loss.canonical_names()
    return {name: names[f"{place}.{name}" if place else name] for name, _ in layer.named_parameters()}


def _bytes_per_sample(loss: MeanLoss, plain: PlaneLoss, batch: Batch) -> float:
    """Size of the largest tensor that a module takes or returns, per sample of the first batch."""
    largest = 0

    def note(_: nn.Module, args: Any, output: Any) -> None:
        nonlocal largest
        largest = max(
            largest, *(part.nbytes for tensor in tensors_in_batch([args, output]) for part in strided_parts(tensor))
        )

    with ExitStack() as hooks, plain.prepared():
        for module in loss.modules():
            if not isinstance(module, torch.jit.ScriptModule):  # takes no hooks
                hooks.enter_context(module.register_forward_hook(note))
        plain.run(0.0, 0.0, 0)
    return largest / batch.samples
