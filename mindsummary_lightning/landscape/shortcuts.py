"""Less work for the same losses: batches joined into larger ones, and a first layer computed once for all points.

Each shortcut is compared with the plain evaluation at one point off the axes before it is used.

On a fixed input Linear and convolutions are affine in the coordinates: ``W = W0 + x Wx + y Wy`` gives
``layer(input) = Z0 + x Zx + y Zy``, so three passes of the layer serve the whole grid.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from mindsummary_lightning.landscape.batches import Batch, joined, tensors_in_batch
from mindsummary_lightning.landscape.evaluation import Autocast, EvaluationOptions, PlaneLoss
from mindsummary_lightning.landscape.mean_loss import MeanLoss, canonical_names
from mindsummary_lightning.landscape.plane import Plane

# The largest tensor a joined batch may make. Beyond 32 MB glibc maps and unmaps memory for every tensor, which costs a
# CPU convolution as much as its arithmetic; an accelerator needs larger batches to be busy.
_MAX_BYTES_ON_CPU = 2**24
_MAX_BYTES_ON_DEVICE = 2**28
# What the three stored outputs, their sum and its first half may take together.
_MAX_AFFINE_BYTES = 2**30
# Below this many products per output, reading Z0, Zx and Zy costs as much as the layer itself.
_MIN_FAN_IN = 64
_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
_PROBE = (0.37, -0.61)
_TOLERANCE = 1e-5


def loss_on_plane(
    loss: MeanLoss,
    plane: Plane,
    batches: tuple[Batch, ...],
    device: torch.device,
    options: EvaluationOptions,
    autocast: Autocast = nullcontext,
) -> PlaneLoss:
    """The fastest evaluation that gives the losses of the plain one.

    A shortcut is used only if the mean loss at one point off the axes agrees with the plain evaluation to 1e-5. None is
    tried in training mode, in mixed precision, with ``compile`` or with several points at once.
    """
    best = PlaneLoss(loss, plane, batches, device, options, autocast)
    if options.train_mode or options.compile or options.points_at_once > 1 or options.precision != "32-true":
        return best
    probe = np.array([_PROBE])
    expected = best.losses(probe)

    def agrees(candidate: PlaneLoss) -> bool:
        return bool(np.allclose(candidate.losses(probe), expected, rtol=_TOLERANCE, atol=0.0, equal_nan=True))

    max_bytes = _MAX_BYTES_ON_CPU if device.type == "cpu" else _MAX_BYTES_ON_DEVICE
    fewer = joined(batches, int(max_bytes / max(_bytes_per_sample(loss, best, batches[0]), 1.0)))
    if len(fewer) < len(batches) and agrees(candidate := PlaneLoss(loss, plane, fewer, device, options, autocast)):
        best, batches = candidate, fewer
    layer_and_inputs = find_affine_layer(loss, best, len(batches), plane)
    if layer_and_inputs is not None:
        affine = AffinePlaneLoss(*layer_and_inputs, loss, plane, batches, device, options, autocast)
        best = affine if agrees(affine) else best
    return best


class AffinePlaneLoss(PlaneLoss):
    """Mean loss with one layer replaced by the sum of three outputs that are computed once per batch.

    The layer's input of each batch is the same at every point. Its parameters move like all others, so that a network
    may use them a second time outside the layer.
    """

    def __init__(self, layer: nn.Module, inputs: Sequence[Tensor], loss: MeanLoss, plane: Plane, *others: Any) -> None:
        super().__init__(loss, plane, *others)
        self._layer = layer
        self._index = 0
        self._y: float | None = None
        names = _names_in_plane(loss, layer)
        states = [
            {name: state[first].to(self._device) for name, first in names.items()}
            for state in (plane.anchor, plane.first, plane.second)
        ]
        with super().prepared():
            self._parts = [[functional_call(layer, state, (data,)) for state in states] for data in inputs]
            self._rows = [torch.empty_like(parts[0]) for parts in self._parts]
            self._outputs = [torch.empty_like(parts[0]) for parts in self._parts]

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """As of the plain evaluation, and the layer gives its stored outputs."""
        with super().prepared():
            self._layer.forward = lambda _: self._outputs[self._index]
            try:
                yield
            finally:
                del self._layer.forward

    def _place(self, x: float, y: float) -> None:
        super()._place(x, y)
        for (origin, along_x, along_y), row, output in zip(self._parts, self._rows, self._outputs, strict=True):
            if y != self._y:
                torch.add(origin, along_y, alpha=y, out=row)
            torch.add(row, along_x, alpha=x, out=output)
        self._y = y

    def _batch_loss(self, tensors: dict[str, Tensor], index: int) -> Tensor:
        self._index = index
        return super()._batch_loss(tensors, index)


def find_affine_layer(
    loss: MeanLoss, plain: PlaneLoss, batches: int, plane: Plane
) -> tuple[nn.Module, list[Tensor]] | None:
    """The first Linear or convolution of the network and its inputs, if three passes of it can serve every point.

    It must be called once per batch and its input must have the same bits at the origin and at another point. Layers
    with few products per output are skipped, as are those whose outputs would take more than 1 GiB, and those with
    parameters that the plane does not move.
    """
    inputs: list[Tensor] = []
    layer: nn.Module | None = None
    with plain.prepared():
        for index in range(batches):
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
    is_plain = len(args) == 1 and type(args[0]) is Tensor and not kwargs and sum(c[0] is layer for c in calls) == 1
    return layer, args[0].detach() if is_plain else None


def _is_suitable(layer: nn.Module) -> bool:
    # A subclass, or a forward of its own, may compute anything.
    return type(layer) in _LAYERS and "forward" not in vars(layer) and layer.weight[0].numel() >= _MIN_FAN_IN  # type: ignore[index]


def _names_in_plane(loss: MeanLoss, layer: nn.Module) -> dict[str, str]:
    """Names of a layer's parameters in the layer -> in the plane."""
    place = next(name for name, module in loss.module.named_modules() if module is layer)
    names = canonical_names(loss.module)
    return {name: names[f"{place}.{name}" if place else name] for name, _ in layer.named_parameters()}


def _bytes_per_sample(loss: MeanLoss, plain: PlaneLoss, batch: Batch) -> float:
    """Size of the largest tensor that a module takes or returns, per sample of the first batch."""
    largest = 0

    def note(_: nn.Module, args: Any, output: Any) -> None:
        nonlocal largest
        largest = max(largest, *(tensor.nbytes for tensor in tensors_in_batch([args, output])))

    with ExitStack() as hooks, plain.prepared():
        for module in loss.modules():
            hooks.enter_context(module.register_forward_hook(note))
        plain.run(0.0, 0.0, 0)
    return largest / batch.samples
