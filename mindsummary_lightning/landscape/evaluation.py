"""The mean loss of a network at points of a plane in weight space.

Parameters are never copied into the module: the moved ones are swapped in for each call. What can be computed less
often is (joined batches, the first layer), but only after one point was compared with the plain way. No files.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, vmap

from mindsummary_lightning.landscape.batches import Batch, joined, tensors_in_batch
from mindsummary_lightning.landscape.few_classes import FewClasses
from mindsummary_lightning.landscape.first_layer import AffineFirstLayer, FixedInput, find_fixed_input
from mindsummary_lightning.landscape.mean_loss import MeanLoss, aliases
from mindsummary_lightning.landscape.plane import FlatPlane, Plane

__all__ = ["Autocast", "EvaluationOptions", "PlaneLoss", "loss_on_plane"]

Autocast: TypeAlias = Callable[[], AbstractContextManager[Any]]

# The largest tensor a joined batch may make. Beyond 32 MB glibc maps and unmaps memory for every tensor, which costs a
# CPU convolution as much as its arithmetic; a GPU wants more at once.
_MAX_BYTES_ON_CPU = 2**24
_MAX_BYTES_ON_DEVICE = 2**28
_SAME_LOSS = 1e-5
_PROBE = (0.37, -0.61)


@dataclass(frozen=True, slots=True)
class EvaluationOptions:
    """How losses are computed.

    Attributes:
        train_mode: run the network in training mode (MindSpore's way: dropout on, batch statistics); the default is
            eval mode with the statistics of the last checkpoint.
        seed: torch's random state at the start of every grid point, so that dropout has the same mask everywhere.
        precision: a mixed precision of Fabric (``"bf16-mixed"``), or ``"32-true"``.
        compile: run through ``torch.compile``.
        points_at_once: grid points in one ``vmap``; above 1 pays for tiny networks only.
        use_structure: join batches, use the first layer's linearity and reorder the loss of few classes where exact.
    """

    train_mode: bool = False
    seed: int = 0
    precision: str = "32-true"
    compile: bool = False
    points_at_once: int = 1
    use_structure: bool = True


class PlaneLoss:
    """Mean loss over batches at points of a plane, everything on one device.

    Args:
        loss: the module whose tensors are swapped; its ``module`` is what the plane is about.
        plane: origin and axes.
        batches: samples, on ``device``.
        device: where it runs.
        options: how it runs.
        autocast: makes the context that each call of :meth:`losses` runs in.
        fixed: a first layer to be replaced by its three outputs; ``None`` runs every layer.
        few_classes: computes the cross-entropies of few classes; ``None`` leaves that to torch.
    """

    def __init__(
        self,
        loss: MeanLoss,
        plane: Plane,
        batches: Sequence[Batch],
        device: torch.device,
        options: EvaluationOptions,
        autocast: Autocast = nullcontext,
        fixed: FixedInput | None = None,
        few_classes: FewClasses | None = None,
    ) -> None:
        self._loss = loss
        self._plane = plane
        self._device = device
        self._options = options
        self._autocast = autocast
        self._few_classes = few_classes
        self._batches = batches
        samples = torch.tensor([batch.samples for batch in batches], dtype=torch.float64)
        self._weights = samples / samples.sum()
        self._call = self._plain_call
        if options.compile:
            self._call = torch.compile(self._plain_call)
        self._names = aliases(loss.module)
        served = self._tensors_of(fixed) if fixed is not None else {}
        self._affine = self._affine_layer(fixed, served) if fixed is not None else None
        self._moving = FlatPlane(plane, [name for name in plane.first if name not in served.values()], device)
        self._fixed = {
            name: tensor.to(device, copy=options.train_mode)
            for name, tensor in plane.anchor.items()
            if name not in self._moving.tensors
        }

    def losses(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """The mean loss at each of ``points``, shape ``(n, 2)``; the result has shape ``(n,)`` and may hold NaN or inf.

        The module's parameters, buffers, modes and torch's random state are as before when this returns.
        """
        with self._quiet():
            found = self._many(points) if self._options.points_at_once > 1 else self._one_by_one(points)
            return (found.cpu().double() @ self._weights).numpy()

    def find_fixed_input(self) -> FixedInput | None:
        """The first layer of the network, if its three outputs can stand in for it at every point."""

        def run(point: tuple[float, float], index: int) -> Tensor:
            self._seed()
            self._moving.place(*point)
            return self._call(self._tensors(self._moving.tensors), self._batches[index].data, index)

        with self._quiet():
            fixed = find_fixed_input(self._loss, run, len(self._batches), _PROBE)
            if fixed is None or not fixed.name.startswith("module") or not AffineFirstLayer.fits(fixed):
                return None
            return fixed if all(name in self._plane.first for name in self._tensors_of(fixed).values()) else None

    def bytes_per_sample(self) -> float:
        """Size of the largest tensor that a module takes or gives, for one sample of the first batch."""
        largest = 0

        def note(_: nn.Module, args: Any, output: Any) -> None:
            nonlocal largest
            largest = max(largest, *(tensor.nbytes for tensor in tensors_in_batch([args, output])))

        handles = [module.register_forward_hook(note) for module in self._loss.modules()]
        try:
            with self._quiet():
                self._moving.place(0.0, 0.0)
                self._call(self._tensors(self._moving.tensors), self._batches[0].data, 0)
        finally:
            for handle in handles:
                handle.remove()
        return largest / self._batches[0].samples

    def _tensors_of(self, fixed: FixedInput) -> dict[str, str]:
        """Names of the layer's tensors in the layer -> in the plane."""
        place = fixed.name.removeprefix("module").removeprefix(".")
        parameters = [name for name, _ in fixed.layer.named_parameters()]
        return {name: self._names[f"{place}.{name}" if place else name] for name in parameters}

    def _affine_layer(self, fixed: FixedInput, served: Mapping[str, str]) -> AffineFirstLayer:
        states = [
            {name: state[place].to(self._device) for name, place in served.items()}
            for state in (self._plane.anchor, self._plane.first, self._plane.second)
        ]
        with self._quiet():
            return AffineFirstLayer(fixed, *states)

    def _one_by_one(self, points: NDArray[np.float64]) -> Tensor:
        found = []
        with self._affine.installed() if self._affine else nullcontext(), self._few_classes or nullcontext():
            for x, y in points.tolist():
                found += self._at(x, y)
        return torch.stack(found).view(len(points), len(self._batches))

    def _at(self, x: float, y: float) -> list[Tensor]:
        self._seed()
        self._moving.place(x, y)
        if self._affine:
            self._affine.place(x, y)
        tensors = self._tensors(self._moving.tensors)
        found = []
        for index, batch in enumerate(self._batches):
            if self._affine:
                self._affine.select(index)
            found.append(self._call(tensors, batch.data, index).float())
        return found

    def _many(self, points: NDArray[np.float64]) -> Tensor:
        found = []
        for chunk in torch.split(torch.from_numpy(points), self._options.points_at_once):
            stacked = self._moving.stacked(chunk)
            self._seed()
            columns = [
                vmap(
                    lambda moving, data=batch.data, index=index: self._call(self._tensors(moving), data, index),
                    randomness="same",
                )(stacked)
                for index, batch in enumerate(self._batches)
            ]
            found.append(torch.stack(columns, 1).float())
        return torch.cat(found)

    def _seed(self) -> None:
        # torch.manual_seed formats a traceback for devices it has not met yet: 0.5 ms, as long as a small network.
        torch.default_generator.manual_seed(self._options.seed)
        if self._device.type == "cuda":
            torch.cuda.manual_seed(self._options.seed)

    def _tensors(self, moving: Mapping[str, Tensor]) -> dict[str, Tensor]:
        # Training mode writes batch statistics into the buffers, so each point gets its own.
        fixed = {name: t.clone() for name, t in self._fixed.items()} if self._options.train_mode else self._fixed
        both = {**fixed, **moving}
        return {f"module.{name}": both[first] for name, first in self._names.items() if first in both}

    def _plain_call(self, tensors: dict[str, Tensor], data: Any, index: int) -> Tensor:
        answer: Tensor = functional_call(self._loss, tensors, (data, index), tie_weights=False)
        return answer

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        """No gradients, the wanted mode, everything put back afterwards, Lightning's self.log without a word."""
        modes = {module: module.training for module in self._loss.modules()}
        home = next((tensor.device for tensor in self._loss.parameters()), self._device)
        devices = [self._device] if self._device.type == "cuda" else []
        self._loss.train(self._options.train_mode)
        if home != self._device:
            self._loss.to(self._device)
        try:
            with torch.no_grad(), torch.random.fork_rng(devices), self._autocast(), warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=".*self.log.*")
                yield
        finally:
            if home != self._device:
                self._loss.to(home)
            for module, training in modes.items():
                module.training = training


def loss_on_plane(
    loss: MeanLoss,
    plane: Plane,
    batches: tuple[Batch, ...],
    device: torch.device,
    options: EvaluationOptions,
    autocast: Autocast = nullcontext,
) -> PlaneLoss:
    """The quickest evaluation that gives the plain one's losses.

    Joined batches, a loss of few classes in another order and a first layer served by three passes are taken only if
    the mean loss at one point off the axes agrees with the plain evaluation to 1e-5; they are not looked for in
    training mode, in mixed precision, with ``compile`` or with several points at once.

    Args:
        loss: the network with its loss.
        plane: origin and axes.
        batches: samples, already on ``device``.
        device: where it runs.
        options: how it runs.
        autocast: makes the context of a mixed precision.
    """

    def over(
        batches: Sequence[Batch], few_classes: FewClasses | None = None, fixed: FixedInput | None = None
    ) -> PlaneLoss:
        return PlaneLoss(loss, plane, batches, device, options, autocast, fixed, few_classes)

    best = over(batches)
    exact = not (options.train_mode or options.compile or options.points_at_once > 1) and options.precision == "32-true"
    if not (options.use_structure and exact):
        return best
    probe = np.array([_PROBE])
    expected = best.losses(probe)

    def is_right(candidate: PlaneLoss) -> bool:
        return bool(np.allclose(candidate.losses(probe), expected, rtol=_SAME_LOSS, atol=0.0, equal_nan=True))

    most_bytes = _MAX_BYTES_ON_CPU if device.type == "cpu" else _MAX_BYTES_ON_DEVICE
    together = joined(batches, int(most_bytes / max(best.bytes_per_sample(), 1.0)))
    if len(together) < len(batches) and is_right(candidate := over(together)):
        best, batches = candidate, together
    found = FewClasses()
    few_classes = found if is_right(candidate := over(batches, found)) and found.is_used else None
    if few_classes:
        best = candidate
    fixed = best.find_fixed_input()
    if fixed is not None and is_right(candidate := over(batches, few_classes, fixed)):
        best = candidate
    return best
