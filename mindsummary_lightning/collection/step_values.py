"""Converts tensors on any device to the values of a collected step.

CPU tensors are converted immediately. Tensors on an accelerator are reduced there, packed into one
buffer, copied without waiting, and turned into values when ``drain`` is called, which should be at
a later hook. Whether a step is collected is not decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from mindsummary_lightning.collection.device_copy import DeviceCopy
from mindsummary_lightning.collection.device_histograms import (
    REDUCIBLE,
    histogram_from_parts,
    histogram_parts,
)
from mindsummary_lightning.collection.sharding import groups_that_share, is_sharded
from mindsummary_lightning.conversion.arrays import refuse_what_holds_no_numbers
from mindsummary_lightning.conversion.histograms import to_histogram
from mindsummary_lightning.conversion.image_batches import batch_to_image
from mindsummary_lightning.conversion.numeric import to_scalar, to_tensor
from mindsummary_lightning.values import SummaryValue

_COPY_UP_TO = 1024
"""Elements up to which a histogram's tensor is copied instead of reduced.

The result of a reduction is not smaller.
"""


@dataclass(slots=True)
class _Pending:
    """A value to be made from tensors that are still on a device.

    The function is called once they are on the CPU.
    """

    parts: Sequence[torch.Tensor]
    build: Callable[[list[torch.Tensor]], SummaryValue]
    copy: DeviceCopy | None = None  # that has the parts, which are then not held here
    place: tuple[int, int] = (0, 0)  # of the parts in the copy


class StepPart(Protocol):
    """The protocol of an object that adds values to some steps.

    They are made when their tensors are on the CPU.
    """

    def move_into(self, values: StepValues) -> None:
        """Move this object's collected tensors into the step's values."""

    def finish(self, pairs: Sequence[tuple[str, Any]]) -> list[tuple[str, SummaryValue]]:
        """Return a step's values after this object has finished its own values."""


def _built(pending: _Pending) -> SummaryValue:
    """Wait until the tensors are copied, and make the value from the copies."""
    assert pending.copy is not None  # since send
    return pending.build(pending.copy.wait()[slice(*pending.place)])


class StepValues:
    """The values of a step, in the order in which they were added.

    Their tensors may be on any device.

    Add, then ``send``, then ``drain`` at a later hook. Adding never waits for a device and keeps no
    reference to memory of the caller: what changes afterwards does not change the value. A value
    that cannot be converted, or for which a device has no memory, is skipped and noted in
    ``problems``; nothing is raised.

    Attributes:
        problems: tag and reason of each value that was skipped.

    >>> values = StepValues()
    >>> values.add_scalar("loss", torch.tensor(0.5))
    >>> values.drain()
    (('loss', 0.5),)
    """

    def __init__(self) -> None:
        self.problems: list[tuple[str, Exception]] = []
        self._values: list[tuple[str, SummaryValue | _Pending]] = []
        self._copies: list[DeviceCopy] | None = None

    def add_scalar(self, tag: str, value: torch.Tensor | float) -> None:
        """Add the number in ``value`` as a scalar."""
        self._add(tag, value, to_scalar, _pending_scalar)

    def add_histogram(self, tag: str, tensor: torch.Tensor) -> None:
        """Add the histogram of a tensor with at least one dimension.

        A sharded ``DTensor`` is reduced over the ranks that share it, so all of them must add it.
        """
        self._add(tag, tensor, to_histogram, _pending_histogram)

    def add_image(self, tag: str, batch: torch.Tensor) -> None:
        """Add a batch of images (NCHW, 1 or 3 channels) as a single image."""
        self._add(tag, batch, batch_to_image, lambda tensor: _pending_whole(tensor, batch_to_image))

    def add_tensor(self, tag: str, tensor: torch.Tensor) -> None:
        """Add all elements of a tensor with at least one dimension."""
        self._add(tag, tensor, to_tensor, lambda tensor: _pending_whole(tensor, to_tensor))

    def add_deferred(
        self, tag: str, parts: Sequence[torch.Tensor], build: Callable[[list[torch.Tensor]], Any]
    ) -> None:
        """Add a value that ``build`` makes from tensors when they are on the CPU.

        The tensors are of the same device, and must not change meanwhile.
        """
        if parts[0].device.type == "cpu":
            self._values.append((tag, build([*parts])))
        else:
            self._values.append((tag, _Pending(parts, build)))

    def extend(self, other: StepValues) -> None:
        """Append the values of another object, on which ``send`` was not called."""
        self._values += other._values
        self.problems += other.problems
        other._values, other.problems = [], []

    def send(self) -> None:
        """Start to copy all tensors to the CPU, with one copy per device.

        A copy runs after the work that its device has already queued.

        Later calls do nothing.
        """
        if self._copies is not None:
            return
        self._copies = []
        by_device: dict[torch.device, list[_Pending]] = {}
        for _, value in self._values:
            if isinstance(value, _Pending):
                by_device.setdefault(value.parts[0].device, []).append(value)
        for pending in by_device.values():
            try:
                copy = DeviceCopy([part for value in pending for part in value.parts])
            except Exception as error:
                self._drop(pending, error)
                continue
            self._copies.append(copy)
            start = 0
            for value in pending:
                value.copy, value.place, value.parts = copy, (start, start + len(value.parts)), ()
                start = value.place[1]

    def is_ready(self) -> bool:
        """Tell whether ``drain`` returns without waiting.

        Before ``send`` it is False if anything must be copied.
        """
        if self._copies is None:
            return not any(isinstance(value, _Pending) for _, value in self._values)
        return all(copy.is_done() for copy in self._copies)

    def drain(self) -> tuple[tuple[str, SummaryValue], ...]:
        """Return the values, in the order in which they were added.

        It waits only for the copies of these values. Call it once.
        """
        self.send()
        finished: list[tuple[str, SummaryValue]] = []
        for tag, value in self._values:
            try:
                built = _built(value) if isinstance(value, _Pending) else value
            except Exception as error:
                self.problems.append((tag, error))
            else:
                finished.append((tag, built))
        self._values = []
        return tuple(finished)

    def _add(
        self,
        tag: str,
        value: Any,
        convert: Callable[[Any], SummaryValue],
        defer: Callable[[torch.Tensor], _Pending],
    ) -> None:
        try:
            deferred = isinstance(value, torch.Tensor) and must_wait(value)
            self._values.append((tag, defer(value.detach()) if deferred else convert(value)))
        except Exception as error:  # recording never stops training; the caller reports it
            self.problems.append((tag, error))

    def _drop(self, lost: Sequence[_Pending], error: Exception) -> None:
        lost_ids = set(map(id, lost))
        self.problems += [(tag, error) for tag, value in self._values if id(value) in lost_ids]
        self._values = [pair for pair in self._values if id(pair[1]) not in lost_ids]


def must_wait(tensor: torch.Tensor) -> bool:
    """Tell whether reading a tensor would wait for a device or for other ranks."""
    return tensor.device.type not in ("cpu", "meta") or is_sharded(tensor)


def _plain(tensor: Any) -> torch.Tensor:
    """Convert a tensor to a dense tensor of this process, with the same elements.

    Raises:
        TypeError: it is sharded (gathering it would take all ranks) or has no numbers that can be
            shown.
    """
    if is_sharded(tensor):
        raise TypeError(
            f"expected a whole tensor, found a DTensor with placements {tensor.placements}"
        )
    if hasattr(tensor, "to_local"):
        tensor = tensor.to_local()
    refuse_what_holds_no_numbers(tensor)
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    plain: torch.Tensor = tensor
    return plain


def _pending_scalar(tensor: torch.Tensor) -> _Pending:
    tensor = _plain(tensor)
    if tensor.numel() != 1:
        shape = tuple(tensor.shape)
        raise ValueError(
            f"a scalar needs exactly one element, found {tensor.numel()} in shape {shape}"
        )
    return _Pending([tensor.reshape(1).clone()], lambda parts: to_scalar(parts[0]))


def _pending_whole(tensor: torch.Tensor, convert: Callable[[Any], SummaryValue]) -> _Pending:
    tensor = _plain(tensor)
    # Contiguous, because a copy keeps the strides and a view of a large tensor would bring all of
    # it along.
    return _Pending(
        [tensor.clone(memory_format=torch.contiguous_format)], lambda parts: convert(parts[0])
    )


def _pending_histogram(tensor: torch.Tensor) -> _Pending:
    if tensor.dim() == 0:
        raise ValueError(
            "a histogram needs at least one dimension, found a single number: record it as a scalar"
        )
    groups: tuple[Any, ...] = ()
    if is_sharded(tensor):
        if tensor.dtype not in REDUCIBLE:
            raise TypeError(
                f"expected a DTensor of dtype float32, float16 or bfloat16, found {tensor.dtype}"
            )
        groups = groups_that_share(tensor)
        tensor = tensor.to_local()  # type: ignore[attr-defined]  # only a DTensor is sharded
    else:
        tensor = _plain(tensor)
    if tensor.dtype not in REDUCIBLE or (not groups and tensor.numel() <= _COPY_UP_TO):
        return _pending_whole(tensor, to_histogram)
    return _Pending(histogram_parts(tensor, groups), histogram_from_parts)
