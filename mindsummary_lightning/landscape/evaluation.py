"""Compute the mean loss of a network at points of a plane in weight space.

A point costs a forward pass per batch.

Each point runs a copy of the network as it was at the start (`network_copies`), whose parameters
have the plane's memory. `shortcuts` computes less where the losses stay exact, and compares its
results with this module. This module reads and writes no files.
"""

from __future__ import annotations

import copy
import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.parameter import is_lazy

from mindsummary_lightning.landscape.batches import Batch, digest, tensors_in_batch
from mindsummary_lightning.landscape.checkpoint_names import named_tensors
from mindsummary_lightning.landscape.directions import State
from mindsummary_lightning.landscape.mean_loss import MeanLoss
from mindsummary_lightning.landscape.plane import (
    PROCESS_STATE,
    FlatPlane,
    FlatState,
    Plane,
    strided_parts,
)

Autocast: TypeAlias = Callable[[], AbstractContextManager[Any]]

TRUE_PRECISIONS = {
    "16-true": torch.float16,
    "bf16-true": torch.bfloat16,
    "32-true": torch.float32,
    "64-true": torch.float64,
}


@dataclass(frozen=True, slots=True)
class EvaluationOptions:
    """Options for the losses of a landscape: mode, seed, precision, compilation.

    :meth:`SummaryLandscape.generate` explains them. ``seed`` is the random state at the start of
    every grid point, so that dropout has the same mask everywhere.
    """

    train_mode: bool = False
    seed: int = 0
    precision: str | None = None
    compile: bool = False
    points_at_once: int = 1

    @property
    def dtype(self) -> torch.dtype | None:
        """Type of all floating-point tensors for a precision such as ``"bf16-true"``.

        It is ``None`` if the checkpoints' types are used.
        """
        return TRUE_PRECISIONS.get(self.precision or "")


class PlaneLoss:
    """Mean loss over batches at points of a plane, computed on the plane's device.

    The parameters of ``loss`` get the plane's memory. Each point is computed by a copy of ``loss``
    with these parameters.
    """

    def __init__(
        self,
        loss: MeanLoss,
        plane: FlatPlane,
        batches: Sequence[Batch],
        options: EvaluationOptions,
        autocast: Autocast = nullcontext,
    ) -> None:
        self._loss = loss
        self._plane = plane
        self._options = options
        self._autocast = autocast
        self._samples = torch.tensor([batch.samples for batch in batches], dtype=torch.float64)
        own_dtype = plane.own_dtype()
        self._batch_dtype = None if own_dtype == torch.float32 else own_dtype
        self._is_prepared = False
        self._written: list[tuple[Tensor, Tensor]] = []
        self._bound: list[Tensor] = []
        self._complex: set[str] = set()
        moving = self._bind()
        self._copy = loss.copies(moving)
        with self.prepared():
            self._place(0.0, 0.0)
            network = self._copy()
            self.batches: list[Any] = [
                network.on_device(batch.data, plane.device, self._batch_dtype) for batch in batches
            ]
            if options.compile:
                network = self._copy()
                self._compiled = torch.compile(network)
                self._buffers = list(zip(network.buffers(), loss.buffers(), strict=True))

    def losses(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute the mean losses at points of the plane.

        All random states are restored when this returns.

        Args:
            points: coordinates, float64, shape ``(n, 2)``.

        Returns:
            Losses, float64, shape ``(n,)``; they may be NaN or infinite.
        """
        with self.prepared():
            compute = self._many if self._options.points_at_once > 1 else self._one_by_one
            losses = compute(points)
            return (losses.cpu().double() @ self._samples / self._samples.sum()).numpy()

    def release(self) -> None:
        """Release the plane's memory and the device.

        Afterwards no losses can be computed, and the loss can be pickled for another process.
        """
        for tensor in self._bound:
            tensor.data = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        for part in self._loss.children():
            part.to("cpu")

    def try_out(self) -> float:
        """Compute the loss of the first batch at the origin of the plane.

        It also notes in the ``MeanLoss`` whether the step changes the batch, and the size of its
        tensors.
        """
        with self.prepared():
            self._place(0.0, 0.0)
            # Its parameters are not copied: it runs once, at a plane that has nothing but an
            # origin.
            network = self._loss.copies(self._bound)()
            batch = copy.deepcopy(self.batches[0])
            largest = 0

            def note(_: nn.Module, args: Any, output: Any) -> None:
                nonlocal largest
                for tensor in tensors_in_batch([args, output]):
                    for part in strided_parts(tensor):
                        largest = max(largest, part.nbytes)

            for module in network.modules():
                if not isinstance(module, torch.jit.ScriptModule):  # takes no hooks
                    module.register_forward_hook(note)
            before = digest([batch])
            value = float(network(batch, 0).detach())
            self._loss.changes_batches = digest([batch]) != before
            self._loss.bytes_per_sample = largest / float(self._samples[0])
            return value

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """Set gradients, precision and random states for the network in a ``with`` block.

        All are restored afterwards. Inside another :meth:`prepared`, nothing is done.
        """
        if self._is_prepared:
            yield
            return
        with PROCESS_STATE:
            yield from self._prepare()

    def _prepare(self) -> Iterator[None]:
        device = self._plane.device
        seed = self._options.seed
        default = torch.get_default_dtype()
        forked: Any = {"devices": []}
        if device.type != "cpu":
            forked = {"devices": [device], "device_type": device.type}
        before = _random_states()
        has_gradients = self._loss.needs_gradients
        self._is_prepared = True
        try:
            with (
                torch.set_grad_enabled(has_gradients),
                torch.random.fork_rng(**forked),
                self._autocast(),
                warnings.catch_warnings(),
            ):
                warnings.filterwarnings("ignore", message=".*self.log.*")
                torch.set_default_dtype(self._batch_dtype or default)
                random.seed(seed)
                np.random.seed(seed % 2**32)  # noqa: NPY002 - a user may use it
                self._random = _random_states()
                yield
        finally:
            self._is_prepared = False
            torch.set_default_dtype(default)
            _set_random(before)

    def _bind(self) -> list[Tensor]:
        """Let parameters and buffers use the plane's memory; return the moving tensors.

        A tensor whose memory is also used by something else keeps its memory, and the values of
        each point are copied to it.
        """
        loss, plane = self._loss, self._plane
        if any(tensor.device != plane.device for _, tensor in named_tensors(loss)):
            # each by itself, so that a LightningModule knows its device
            for part in loss.children():
                part.to(plane.device)
        names = loss.canonical_names()
        moving = {}
        for name, tensor in named_tensors(loss.module):
            first = names[name]
            value = plane.tensors.get(first, plane.fixed.get(first))
            if value is None:
                continue
            if tensor.is_complex() and value.ndim > tensor.ndim:
                value = torch.view_as_complex(value)
                self._complex.add(first)
            self._bind_tensor(name, tensor, value)
            if first in plane.tensors:
                moving[id(tensor)] = tensor
        if self._batch_dtype is not None:
            loss.module.to(self._batch_dtype)
        loss.train(self._options.train_mode)
        return list(moving.values())

    def _bind_tensor(self, name: str, tensor: Tensor, value: Tensor) -> None:
        if is_lazy(tensor):
            tensor.materialize(value.shape, value.device, value.dtype)
        is_alike = tensor.dtype == value.dtype and tensor.device == value.device
        if name in self._loss.overlapping and is_alike:
            self._written.append((tensor.data, value))
            return
        tensor.data = value
        if value.layout == torch.strided:
            self._bound.append(tensor)

    def _one_by_one(self, points: NDArray[np.float64]) -> Tensor:
        losses = []
        for x, y in points.tolist():
            network = self.network_at(x, y)
            for index in range(len(self.batches)):
                losses.append(network(self._batch(index), index).detach().float())
        return torch.stack(losses).view(len(points), len(self.batches))

    def network_at(self, x: float, y: float) -> Any:
        """Return a copy of the network with the parameters at a point of the plane.

        A compiled network is not copied: its buffers are reset to their values at the start.
        """
        self._place(x, y)
        if not self._options.compile:
            return self._copy()
        for own, start in self._buffers:
            own.copy_(start)
        return self._compiled

    def _many(self, points: NDArray[np.float64]) -> Tensor:
        names = self._loss.canonical_names()
        slots = {}
        for name, first in names.items():
            if first in self._plane.tensors:
                slots[f"module.{name}"] = first

        def loss_at(moving: Mapping[str, Tensor], network: MeanLoss, index: int) -> Tensor:
            values = {name: torch.view_as_complex(moving[name]) for name in self._complex}
            # Of a module with two names this does not restore what it replaces, but the next batch
            # replaces it again.
            tensors = {slot: values.get(first, moving[first]) for slot, first in slots.items()}
            data = (self._batch(index), index)
            output: torch.Tensor = functional_call(network, tensors, data, tie_weights=False)
            return output

        losses = []
        for chunk in torch.split(torch.from_numpy(points), self._options.points_at_once):
            self._place(0.0, 0.0)
            network = self._copy()
            stacked = self._plane.stacked(chunk)
            of_batches = []
            for index in range(len(self.batches)):
                loss = partial(loss_at, network=network, index=index)
                of_batches.append(vmap(loss, randomness="same")(stacked))
            losses.append(torch.stack(of_batches, 1).float())
        return torch.cat(losses)

    def _place(self, x: float, y: float) -> None:
        # torch.manual_seed formats a traceback for devices it has not met yet: 0.5 ms, as long as a
        # small network.
        torch.default_generator.manual_seed(self._options.seed)
        if self._plane.device.type != "cpu":
            torch.get_device_module(self._plane.device).manual_seed(self._options.seed)
        # it knows a parameter's cast by the parameter, not by its values
        torch.clear_autocast_cache()
        _set_random(self._random)
        self._plane.place(x, y)
        for own, value in self._written:
            own.copy_(value)

    def _batch(self, index: int) -> Any:
        batch = self.batches[index]
        if self._loss.changes_batches:
            return copy.deepcopy(batch)
        return batch


def first_loss(
    loss: MeanLoss,
    anchor: State,
    batches: Sequence[Batch],
    device: torch.device,
    options: EvaluationOptions,
) -> float:
    """Compute the loss of the first batch at a checkpoint, to find errors early.

    It lets ``loss`` find out what the training step needs, for example gradients or a Trainer.
    """
    plane = FlatPlane(Plane(anchor, FlatState({}), FlatState({})), device, options.dtype)
    once = replace(options, compile=False, points_at_once=1)
    while True:
        try:
            plane_loss = PlaneLoss(loss, plane, batches[:1], once)
            value = plane_loss.try_out()
            plane_loss.release()
            return value
        except Exception as error:
            if not loss.adapt(error):
                explained = loss.explained(error)
                if explained is error:
                    raise
                raise explained from error


def _random_states() -> tuple[Any, Any]:
    return random.getstate(), np.random.get_state()  # noqa: NPY002


def _set_random(states: tuple[Any, Any]) -> None:
    random.setstate(states[0])
    np.random.set_state(states[1])  # noqa: NPY002
