"""Mean loss of a network at points of a plane in weight space: one forward pass per point and batch.

Parameters are never copied into the module; the moved ones are swapped in for each call. `shortcuts` computes less
where that is exact and is compared with this module. Nothing here reads or writes files.
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
from torch import Tensor
from torch.func import functional_call, vmap

from mindsummary_lightning.landscape.batches import Batch
from mindsummary_lightning.landscape.mean_loss import MeanLoss, canonical_names
from mindsummary_lightning.landscape.plane import FlatPlane, Plane

Autocast: TypeAlias = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True, slots=True)
class EvaluationOptions:
    """How losses are computed, as :meth:`SummaryLandscape.generate` says.

    ``seed`` is torch's random state at the start of every grid point, so that dropout has the same mask everywhere.
    """

    train_mode: bool = False
    seed: int = 0
    precision: str = "32-true"
    compile: bool = False
    points_at_once: int = 1


class PlaneLoss:
    """Mean loss over batches at points of a plane, everything on one device; ``loss.module`` is the plane's network."""

    def __init__(
        self,
        loss: MeanLoss,
        plane: Plane,
        batches: Sequence[Batch],
        device: torch.device,
        options: EvaluationOptions,
        autocast: Autocast = nullcontext,
    ) -> None:
        self._loss = loss
        self._batches = batches
        self._device = device
        self._options = options
        self._autocast = autocast
        samples = torch.tensor([batch.samples for batch in batches], dtype=torch.float64)
        self._weights = samples / samples.sum()
        self._call = torch.compile(self._plain_call) if options.compile else self._plain_call
        self._names = canonical_names(loss.module)
        self._moving = FlatPlane(plane, device)
        self._fixed = {
            name: tensor.to(device, copy=options.train_mode)
            for name, tensor in plane.anchor.items()
            if name not in plane.first
        }

    def losses(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """The mean loss at each of ``points``, shape ``(n, 2)``; the result has shape ``(n,)`` and may hold NaN or inf.

        The module's parameters, buffers, modes and torch's random state are as before when this returns.
        """
        with self.prepared():
            losses = self._many(points) if self._options.points_at_once > 1 else self._one_by_one(points)
            return (losses.cpu().double() @ self._weights).numpy()

    def run(self, x: float, y: float, index: int) -> Tensor:
        """The loss of one batch at one point; inside :meth:`prepared` only."""
        self._place(x, y)
        return self._batch_loss(self._tensors(self._moving.tensors), index)

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """The network on its device, in the wanted mode, without gradients; all of it is undone afterwards."""
        modes = {module: module.training for module in self._loss.modules()}
        home = next((tensor.device for tensor in self._loss.parameters()), self._device)
        self._loss.train(self._options.train_mode)
        if home != self._device:
            self._loss.to(self._device)
        try:
            with torch.no_grad(), _forked_rng(self._device), self._autocast(), warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=".*self.log.*")
                yield
        finally:
            if home != self._device:
                self._loss.to(home)
            for module, training in modes.items():
                module.training = training

    def _one_by_one(self, points: NDArray[np.float64]) -> Tensor:
        losses = []
        for x, y in points.tolist():
            self._place(x, y)
            tensors = self._tensors(self._moving.tensors)
            losses += [self._batch_loss(tensors, index).float() for index in range(len(self._batches))]
        return torch.stack(losses).view(len(points), len(self._batches))

    def _many(self, points: NDArray[np.float64]) -> Tensor:
        losses = []
        for chunk in torch.split(torch.from_numpy(points), self._options.points_at_once):
            stacked = self._moving.stacked(chunk)
            self._seed()
            columns = [
                vmap(lambda moving, index=index: self._batch_loss(self._tensors(moving), index), randomness="same")(
                    stacked
                )
                for index in range(len(self._batches))
            ]
            losses.append(torch.stack(columns, 1).float())
        return torch.cat(losses)

    def _place(self, x: float, y: float) -> None:
        self._seed()
        self._moving.place(x, y)

    def _batch_loss(self, tensors: dict[str, Tensor], index: int) -> Tensor:
        return self._call(tensors, self._batches[index].data, index)

    def _seed(self) -> None:
        # torch.manual_seed formats a traceback for devices it has not met yet: 0.5 ms, as long as a small network.
        torch.default_generator.manual_seed(self._options.seed)
        if self._device.type != "cpu":
            torch.get_device_module(self._device).manual_seed(self._options.seed)

    def _tensors(self, moving: Mapping[str, Tensor]) -> dict[str, Tensor]:
        # Training mode writes batch statistics into the buffers, so each point gets its own.
        fixed = {name: t.clone() for name, t in self._fixed.items()} if self._options.train_mode else self._fixed
        both = {**fixed, **moving}
        return {f"module.{name}": both[first] for name, first in self._names.items() if first in both}

    def _plain_call(self, tensors: dict[str, Tensor], data: Any, index: int) -> Tensor:
        answer: Tensor = functional_call(self._loss, tensors, (data, index), tie_weights=False)
        return answer


def _forked_rng(device: torch.device) -> AbstractContextManager[Any]:
    if device.type == "cpu":
        return torch.random.fork_rng(devices=[])
    return torch.random.fork_rng(devices=[device], device_type=device.type)
