"""Statistics of many tensors at once, in few operations, without waiting for the device or any function of its own.

The tensors are laid end to end in rows of one width, each from the beginning of a row and filled up with zeros, so a
reduction along the rows is one operation for all of them. What remains, a few numbers a row, is reduced on the CPU,
in float64. Ranks that share tensors exchange the rows of all of them in one collective for sums and one for maxima.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from mindsummary_lightning.collection.device_histograms import wide_dtype
from mindsummary_lightning.collection.gradients import stored_elements
from mindsummary_lightning.collection.sharding import groups_that_share, is_sharded, largest_shard

_WIDTH, _CHUNK = (512, 4096), (1 << 18, 1 << 24)
"""Elements in a row, and in rows that are reduced together: on the CPU, where they should stay in its cache, and on
an accelerator, where the rows are copied to the CPU."""
_TINY, _HUGE = 1e-15, 1e15  # between them no square leaves the range of float32


@dataclass(frozen=True, slots=True, eq=False)
class TensorStatistics:
    """What is known of some tensors, arrays of one element each; magnitudes are those of the finite elements."""

    rms: NDArray[np.float64]
    mean: NDArray[np.float64]
    largest: NDArray[np.float64]
    zeros: NDArray[np.float64]  # share of all elements
    non_finite: NDArray[np.float64]
    elements: NDArray[np.float64]


@dataclass(slots=True, eq=False)
class RowStatistics:
    """Reduced rows of some tensors of one device, and what makes numbers of them once they are on the CPU."""

    places: list[int] = field(default_factory=list)  # of the tensors among those given
    elements: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    tensors: list[torch.Tensor] = field(default_factory=list)  # flat, on this rank; until they are reduced
    table: torch.Tensor = field(default_factory=lambda: torch.empty(0))
    """Largest magnitude, their sum, Euclidean norm, elements that are not zero, and not finite; of each row."""

    def statistics(self, table: torch.Tensor, scale: float = 1.0) -> TensorStatistics:
        """The numbers, of ``table`` on the CPU; the tensors were ``scale`` times what counts."""
        of_rows = table.double().numpy()
        starts = np.cumsum([0, *self.rows[:-1]])
        largest = np.maximum.reduceat(of_rows[0], starts)
        of_rows[2] **= 2
        total, squares, non_zero, non_finite = np.add.reduceat(of_rows[1:], starts, axis=1)
        elements = np.array(self.elements, np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            finite = np.where(elements > non_finite, elements - non_finite, np.nan)
            rms, mean = np.sqrt(squares / finite) / scale, total / finite / scale
            zeros = (elements - non_zero) / elements
        return TensorStatistics(rms, mean, np.where(finite > 0, largest / scale, np.nan), zeros, non_finite, elements)


@torch.no_grad()
def row_statistics(tensors: Sequence[torch.Tensor]) -> list[RowStatistics]:
    """Reduced rows of tensors that may differ in device and dtype, for each device (and ranks that share) one.

    All ranks that share a sharded tensor must call, with the same tensors in the same order. Of a sparse tensor the
    stored elements count.
    """
    parts: dict[tuple[Any, ...], RowStatistics] = {}
    for place, tensor in enumerate(tensors):
        groups: tuple[Any, ...] = ()
        elements = longest = -1
        if tensor.layout is not torch.strided:
            tensor = stored_elements(tensor)
        elif is_sharded(tensor):
            groups, elements, longest = groups_that_share(tensor), tensor.numel(), largest_shard(tensor)
        if hasattr(tensor, "to_local"):
            tensor = tensor.to_local()
        part = parts.setdefault((tensor.device, *groups), RowStatistics())
        part.places.append(place)
        part.elements.append(tensor.numel() if elements < 0 else elements)
        part.rows.append(max(1, -(-(part.elements[-1] if longest < 0 else longest) // _width(tensor.device))))
        part.tensors.append((tensor.abs() if tensor.is_complex() else tensor).reshape(-1))
    for (device, *shared), part in parts.items():
        table = _reduced(part.tensors, part.rows, _width(device), _CHUNK[device.type != "cpu"])
        part.table, part.tensors = _reduced_over(shared, table) if shared else table, []
    return list(parts.values())


def _width(device: torch.device) -> int:
    return _WIDTH[device.type != "cpu"]


def _reduced(tensors: Sequence[torch.Tensor], rows: Sequence[int], width: int, chunk: int) -> torch.Tensor:
    tables: list[torch.Tensor] = []
    pieces: list[torch.Tensor] = []
    fillings: dict[int, torch.Tensor] = {}
    device, size = tensors[0].device, 0
    for tensor, number in zip(tensors, rows, strict=True):
        length, count = number * width, tensor.numel()
        for start in range(0, length, chunk):
            end = min(start + chunk, length)
            pieces.append(tensor if length <= chunk else tensor[start:end])
            missing = end - max(start, min(end, count))
            if missing:
                filling = fillings.get(missing)
                if filling is None:
                    filling = fillings[missing] = torch.zeros(missing, device=device)
                pieces.append(filling)
            size += end - start
            if size >= chunk:
                tables.append(_reduced_rows(torch.cat(pieces).view(-1, width)))
                pieces, size = [], 0
    if pieces:
        tables.append(_reduced_rows(torch.cat(pieces).view(-1, width)))
    return torch.cat(tables, dim=1) if len(tables) > 1 else tables[0]


def _reduced_rows(elements: torch.Tensor) -> torch.Tensor:
    """The table of some rows; they are overwritten."""
    if elements.dtype not in (torch.float32, torch.float64):
        elements = elements.float()
    magnitudes = elements.abs_()
    wide = wide_dtype(elements.device.type)
    if elements.device.type == "cpu":
        largest = magnitudes.amax(1)
        of_rows = largest.numpy()
        if of_rows.max() < _HUGE and not ((of_rows < _TINY) & (of_rows > 0)).any():  # NaN is not below
            norms = torch.linalg.vector_norm(magnitudes, dim=1)
            non_zero = magnitudes.sign().sum(1)
            return torch.stack([largest, magnitudes.sum(1), norms, non_zero, torch.zeros_like(largest)])
    finite = magnitudes.isfinite()
    non_finite = elements.shape[1] - finite.sum(1)
    magnitudes = torch.where(finite, magnitudes, 0)
    largest = magnitudes.amax(1)
    # In units of the row's largest: neither the squares nor the sum leave the range of the dtype.
    scaled = magnitudes / largest.clamp_min(torch.finfo(largest.dtype).tiny)[:, None]
    total, norms = scaled.sum(1).to(wide) * largest, torch.linalg.vector_norm(scaled, dim=1).to(wide) * largest
    non_zero = magnitudes.sign().sum(1) + non_finite
    return torch.stack([largest.to(wide), total, norms, non_zero.to(wide), non_finite.to(wide)])


def _reduced_over(groups: Sequence[Any], table: torch.Tensor) -> torch.Tensor:
    """The table of the ranks that share the tensors."""
    table = table.to(wide_dtype(table.device.type))  # that of a rank's own numbers may differ from another's
    largest, sums = table[:1].clone(), table[1:].clone()
    sums[1] = sums[1].square()
    for group in groups:
        dist.all_reduce(largest, dist.ReduceOp.MAX, group)
        dist.all_reduce(sums, dist.ReduceOp.SUM, group)
    sums[1] = sums[1].sqrt()
    return torch.cat([largest, sums])
