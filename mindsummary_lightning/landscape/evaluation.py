"""Mean loss of a network at points of a plane in weight space: one forward pass per point and batch.

For the time of a computation the network's parameters get the plane's memory, so that whatever refers to them sees the
point; afterwards the network is what it was. `shortcuts` computes less where that is exact and is compared with this
module. Nothing here reads or writes files.
"""

from __future__ import annotations

import copy
import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.func import functional_call, vmap
from torch.nn.parameter import is_lazy
from torch.utils._pytree import tree_map_only

from mindsummary_lightning.landscape.batches import Batch
from mindsummary_lightning.landscape.checkpoint_names import named_tensors
from mindsummary_lightning.landscape.mean_loss import MeanLoss
from mindsummary_lightning.landscape.module_state import RestorableState, reachable_tensors
from mindsummary_lightning.landscape.plane import FlatPlane

Autocast: TypeAlias = Callable[[], AbstractContextManager[Any]]

TRUE_PRECISIONS = {
    "16-true": torch.float16,
    "bf16-true": torch.bfloat16,
    "32-true": torch.float32,
    "64-true": torch.float64,
}


@dataclass(frozen=True, slots=True)
class EvaluationOptions:
    """How losses are computed, as :meth:`SummaryLandscape.generate` says.

    ``seed`` is the random state at the start of every grid point, so that dropout has the same mask everywhere.
    """

    train_mode: bool = False
    seed: int = 0
    precision: str | None = None
    compile: bool = False
    points_at_once: int = 1


class PlaneLoss:
    """Mean loss over batches at points of a plane, everything on one device; ``loss.module`` is the plane's network."""

    def __init__(
        self,
        loss: MeanLoss,
        plane: FlatPlane,
        batches: Sequence[Batch],
        options: EvaluationOptions,
        autocast: Autocast = nullcontext,
        move: Callable[..., Any] | None = None,
    ) -> None:
        self._loss = loss
        self._plane = plane
        self._options = options
        self._autocast = autocast
        samples = torch.tensor([batch.samples for batch in batches], dtype=torch.float64)
        self._weights = samples / samples.sum()
        # Not a method of its own: a cycle would keep the plane's memory until the garbage collector comes by.
        self._call: Callable[[Any, int], Tensor] = torch.compile(loss) if options.compile else loss
        own_dtype = plane.own_dtype()
        self._batch_dtype = None if own_dtype == torch.float32 else own_dtype
        self._start: RestorableState | None = None
        self._copied: list[tuple[Tensor, Tensor]] = []
        self._complex: set[str] = set()
        loss.canonical_names()
        with self.prepared():
            self._place(0.0, 0.0)
            self.batches = [
                loss.on_device(batch.data, plane.device, self._batch_dtype, move or _move) for batch in batches
            ]

    def losses(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """The mean loss at each of ``points``, shape ``(n, 2)``; the result has shape ``(n,)`` and may hold NaN or inf.

        The network and all random states are as before when this returns.
        """
        with self.prepared() as start:
            compute = self._many if self._options.points_at_once > 1 else self._one_by_one
            if start.is_new and len(points) > 1:
                compute(points[:1])
                start.learn_volatile()
            losses = compute(points)
            while start.learn_volatile():  # something changed that no earlier point has changed
                start.restore()
                losses = compute(points)
            return (losses.cpu().double() @ self._weights).numpy()

    def run(self, x: float, y: float, index: int) -> Tensor:
        """The loss of one batch at one point; inside :meth:`prepared` only."""
        self._place(x, y)
        return self._batch_loss(index)

    @contextmanager
    def prepared(self) -> Iterator[RestorableState]:
        """The network at the plane's point, on the device and in the wanted mode; all of it is undone afterwards.

        Inside another :meth:`prepared` nothing is done.
        """
        if self._start is not None:
            yield self._start
            return
        loss, options = self._loss, self._options
        bound = {id(tensor) for _, tensor in named_tensors(loss.module)}
        overlapping = _overlapping(loss)
        outside = RestorableState(loss, unwritten=bound - overlapping)
        try:
            if any(tensor.device != self._plane.device for _, tensor in named_tensors(loss)):
                for part in loss.children():  # each by itself, so that a LightningModule knows its device
                    part.to(self._plane.device)
                overlapping = _overlapping(loss)
            moved = self._bind(overlapping)
            if self._batch_dtype is not None:
                loss.module.to(self._batch_dtype)
            loss.train(options.train_mode)
            loss.attach()
            with ExitStack() as contexts:
                contexts.enter_context(torch.set_grad_enabled(loss.needs_gradients))
                contexts.enter_context(_forked_rng(self._plane.device))
                contexts.enter_context(_default_dtype(self._batch_dtype))
                contexts.enter_context(self._autocast())
                contexts.enter_context(warnings.catch_warnings())
                warnings.filterwarnings("ignore", message=".*self.log.*")
                random.seed(options.seed)
                np.random.seed(options.seed % 2**32)  # noqa: NPY002 - the generator that a user's code may use
                self._start = RestorableState(loss, unrecorded=moved)
                yield self._start
        finally:
            self._start, self._copied = None, []
            outside.restore()

    def _bind(self, overlapping: set[int]) -> set[int]:
        """Give every parameter and buffer of the plane the plane's memory; returns which of them move.

        Those that are ``overlapping`` keep their own, and get the values of each point.
        """
        names = self._loss.canonical_names()
        moved = set()
        done: set[int] = set()
        for name, tensor in named_tensors(self._loss.module):
            first = names[name]
            if id(tensor) in done:
                continue
            done.add(id(tensor))
            if first in self._plane.tensors:
                value = self._plane.tensors[first]
                moved.add(id(tensor))
            elif first in self._plane.fixed:
                value = self._plane.fixed[first].clone()
            else:
                continue
            if tensor.is_complex() and value.ndim > tensor.ndim:
                value = torch.view_as_complex(value)
                self._complex.add(first)
            if is_lazy(tensor):
                tensor.materialize(value.shape, value.device, value.dtype)
            if id(tensor) in overlapping and (tensor.dtype, tensor.device) == (value.dtype, value.device):
                self._copied.append((tensor.data, value))
            else:
                tensor.data = value
        return moved

    def _one_by_one(self, points: NDArray[np.float64]) -> Tensor:
        losses = []
        for x, y in points.tolist():
            self._place(x, y)
            losses += [self._batch_loss(index).float() for index in range(len(self.batches))]
        return torch.stack(losses).view(len(points), len(self.batches))

    def _many(self, points: NDArray[np.float64]) -> Tensor:
        slots = _slots(self._loss, self._plane.tensors)
        losses = []
        for chunk in torch.split(torch.from_numpy(points), self._options.points_at_once):
            self._place(0.0, 0.0)
            stacked = self._plane.stacked(chunk)

            def one_point(moving: Mapping[str, Tensor], index: int) -> Tensor:
                tensors = {
                    slot: torch.view_as_complex(moving[name]) if name in self._complex else moving[name]
                    for slot, name in slots.items()
                }
                data = (self._batch(index), index)
                answer: Tensor = functional_call(self._loss, tensors, data, tie_weights=False)
                return answer

            columns = [
                vmap(lambda moving, index=index: one_point(moving, index), randomness="same")(stacked)
                for index in range(len(self.batches))
            ]
            losses.append(torch.stack(columns, 1).float())
        return torch.cat(losses)

    def _place(self, x: float, y: float) -> None:
        # torch.manual_seed formats a traceback for devices it has not met yet: 0.5 ms, as long as a small network.
        torch.default_generator.manual_seed(self._options.seed)
        if self._plane.device.type != "cpu":
            torch.get_device_module(self._plane.device).manual_seed(self._options.seed)
        torch.clear_autocast_cache()  # it knows a parameter's cast by the parameter, not by its values
        if self._start is not None:
            self._start.restore_volatile()
        self._plane.place(x, y)
        for own, value in self._copied:
            own.copy_(value)

    def _batch_loss(self, index: int) -> Tensor:
        return self._call(self._batch(index), index).detach()

    def _batch(self, index: int) -> Any:
        batch = self.batches[index]
        return copy.deepcopy(batch) if self._loss.changes_batches else batch


def first_loss(make: Callable[[], PlaneLoss], loss: MeanLoss) -> float:
    """The loss at the origin of a plane, which fails early if it cannot be computed, and tells ``loss`` what it needs.

    ``make`` gives an evaluation of few samples.
    """
    while True:
        try:
            plane_loss = make()
            batches = RestorableState(plane_loss.batches)
            value = float(plane_loss.losses(np.zeros((1, 2)))[0])
            loss.changes_batches = batches.learn_volatile()
            batches.restore()
            return value
        except Exception as error:
            if not loss.adapt(error):
                explained = loss.explained(error)
                if explained is error:
                    raise
                raise explained from error


def _overlapping(loss: MeanLoss) -> set[int]:
    """Tensors that share memory with a view of a weight, a flat buffer or something else that is not one of them."""
    named = {id(tensor) for _, tensor in named_tensors(loss.module)}
    by_memory: dict[int, list[Tensor]] = {}
    for tensor in reachable_tensors(loss):
        if not is_lazy(tensor) and tensor.layout == torch.strided and tensor.untyped_storage().nbytes():
            by_memory.setdefault(tensor.untyped_storage().data_ptr(), []).append(tensor)
    return {
        id(tensor)
        for tensors in by_memory.values()
        if len({(one.data_ptr(), one.shape, one.stride(), id(one) in named) for one in tensors}) > 1
        for tensor in tensors
    }


def _slots(loss: MeanLoss, moving: Mapping[str, Tensor]) -> dict[str, str]:
    """One name of every place that holds a moving parameter -> the name of that parameter.

    A submodule with two names is one place: functional_call would put a tensor there twice, and restore the first.
    """
    names = loss.canonical_names()
    return {
        f"module.{prefix}{'.' if prefix else ''}{key}": first
        for prefix, part in loss.module.named_modules()
        for key in part._parameters
        if (first := names.get(f"{prefix}.{key}" if prefix else key, "")) in moving
    }


def _move(batch: Any, device: torch.device) -> Any:
    return tree_map_only(Tensor, lambda tensor: tensor.to(device), batch)


@contextmanager
def _default_dtype(dtype: torch.dtype | None) -> Iterator[None]:
    before = torch.get_default_dtype()
    if dtype is not None:
        torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _forked_rng(device: torch.device) -> AbstractContextManager[Any]:
    if device.type == "cpu":
        return torch.random.fork_rng(devices=[])
    return torch.random.fork_rng(devices=[device], device_type=device.type)
