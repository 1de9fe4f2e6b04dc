"""Statistics of many tensors at once, in few operations, without waiting for the device or any function of its own.

Tensors of one shape are stacked, and long ones cut into rows, so a reduction along the rows is one operation for all of
them: a deep network has few shapes. What remains, a few numbers a row, is reduced on the CPU, in float64. Ranks
that share tensors exchange the rows of all of them in one collective for sums and one for maxima.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import nn

from mindsummary_lightning.collection.device_histograms import wide_dtype
from mindsummary_lightning.collection.gradients import stored_elements
from mindsummary_lightning.collection.sharding import groups_that_share, is_sharded, largest_shard

_WIDTH, _CHUNK = (512, 4096), (1 << 18, 1 << 24)
"""Elements in a row, and in rows that are reduced together: on the CPU, where they should stay in its cache, and on
an accelerator, where the rows are copied to the CPU."""
_UNCUT = 4  # widths up to which a tensor is one row
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
def row_statistics(tensors: Sequence[torch.Tensor], *, is_whole: bool = True) -> list[RowStatistics]:
    """Reduced rows of tensors that may differ in device and dtype, for each device (and ranks that share) one.

    All ranks that share a sharded tensor must call, with the same tensors in the same order. Of a sparse tensor the
    stored elements count. Without ``is_whole`` neither mean nor zeros are known, which takes half the time.
    """
    alike: dict[tuple[Any, ...], list[int]] = {}  # places by device, groups, shape, dtype and placements
    own: list[Any] = [*tensors]
    for place, tensor in enumerate(own):
        groups, placements = (), None
        if type(tensor) not in (torch.Tensor, nn.Parameter) or tensor.layout is not torch.strided:
            if tensor.layout is not torch.strided:
                tensor = own[place] = stored_elements(tensor)
            elif is_sharded(tensor):
                groups, placements = groups_that_share(tensor), tensor.placements
        key = (tensor.device, groups, tensor.shape, tensor.dtype, placements)
        alike.setdefault(key, []).append(place)
    parts: dict[tuple[Any, ...], RowStatistics] = {}
    tables: dict[tuple[Any, ...], list[torch.Tensor]] = {}
    for (device, groups, *_), places in alike.items():
        part = parts.setdefault((device, groups), RowStatistics())
        first = own[places[0]]
        rows = _number_of_rows(largest_shard(first) if groups else first.numel(), device)
        local = [own[place].to_local() if hasattr(first, "to_local") else own[place] for place in places]
        part.places += places
        part.elements += [first.numel()] * len(places)
        part.rows += [rows] * len(places)
        tables.setdefault((device, groups), []).append(_reduced(local, rows, is_whole))
    for (device, groups), part in parts.items():
        found = tables[device, groups]
        table = torch.cat(found, dim=1) if len(found) > 1 else found[0]
        part.table = _reduced_over(groups, table) if groups else table
    return list(parts.values())


def _number_of_rows(elements: int, device: torch.device) -> int:
    width = _WIDTH[device.type != "cpu"]
    return 1 if elements <= _UNCUT * width else -(-elements // width)


def _reduced(tensors: Sequence[torch.Tensor], rows: int, is_whole: bool) -> torch.Tensor:
    """The table of some tensors of one shape, so many rows for each."""
    device, elements = tensors[0].device, tensors[0].numel()
    chunk, width = _CHUNK[device.type != "cpu"], _WIDTH[device.type != "cpu"] if rows > 1 else max(1, elements)
    tables = []
    many = max(1, chunk // max(1, elements))
    for start in range(0, len(tensors), many):
        some = tensors[start : start + many]
        block = (torch.stack([*some]) if len(some) > 1 else some[0]).reshape(len(some), elements)
        whole, rest = divmod(elements, width)
        parts = []
        if whole:
            cut = block[:, : whole * width].reshape(-1, width)
            step = max(1, chunk // width)
            reduced = [_reduced_rows(cut[at : at + step], is_whole) for at in range(0, len(cut), step)]
            parts.append(torch.cat(reduced, dim=1).view(5, len(some), whole))
        if rest:
            parts.append(_reduced_rows(block[:, whole * width :], is_whole)[:, :, None])
        if missing := rows - whole - bool(rest):  # a rank with a smaller shard than others
            parts.append(torch.zeros(5, len(some), missing, device=device))
        tables.append(torch.cat(parts, dim=2).view(5, -1))
    return torch.cat(tables, dim=1)


def _reduced_rows(elements: torch.Tensor, is_whole: bool) -> torch.Tensor:
    """The table of some rows, of at least one element."""
    if elements.is_complex():
        elements = elements.abs()
    if elements.dtype not in (torch.float32, torch.float64):
        elements = elements.float()
    magnitudes = elements.abs() if is_whole or elements.device.type != "cpu" else elements
    if magnitudes.device.type == "cpu":
        largest, smallest = magnitudes.amax(1), magnitudes.amin(1)
        largest = largest if is_whole else torch.maximum(largest, -smallest)
        of_rows = largest.numpy()
        if of_rows.max() < _HUGE and not ((of_rows < _TINY) & (of_rows > 0)).any():  # NaN is not below
            norms, unknown = torch.linalg.vector_norm(magnitudes, dim=1), torch.zeros_like(largest)
            if not is_whole:
                return torch.stack([largest, unknown, norms, unknown, unknown])
            non_zero = torch.full_like(largest, magnitudes.shape[1])
            if has_zeros := np.flatnonzero(smallest.numpy() == 0).tolist():
                non_zero[has_zeros] = magnitudes[has_zeros].sign().sum(1)
            return torch.stack([largest, magnitudes.sum(1), norms, non_zero, unknown])
        magnitudes = elements.abs()
    wide = wide_dtype(magnitudes.device.type)
    finite = magnitudes.isfinite()
    non_finite = magnitudes.shape[1] - finite.sum(1)
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
