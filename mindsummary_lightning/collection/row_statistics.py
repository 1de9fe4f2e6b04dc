"""Computes the statistics of many tensors together, in few operations.

They do not wait for the device, and need no function of the tensors' own.

Tensors of one shape are stacked, and long ones cut into rows, so a reduction along the rows is one
operation for all of them: a deep network has few shapes. What remains, a few numbers a row, is
reduced on the CPU, in float64. Ranks that share tensors exchange the rows of all of them in one
collective for sums and one for maxima.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import nn

from mindsummary_lightning.collection.device_histograms import wide_dtype
from mindsummary_lightning.collection.gradients import as_exact, stored_elements
from mindsummary_lightning.collection.sharding import groups_that_share, is_sharded, largest_shard

_WIDTH, CHUNK = (512, 4096), (1 << 18, 1 << 24)
"""Elements in a row, and in rows that are reduced together: on the CPU, and on an accelerator.

On the CPU they should stay in its cache; from an accelerator the rows are copied to the CPU.
"""
_UNCUT = 4  # widths up to which a tensor is one row
EVERY = frozenset({"rms", "mean", "largest", "zeros", "non_finite"})
_TINY, _HUGE = 1e-15, 1e15  # between them no square leaves the range of float32


@dataclass(frozen=True, slots=True, eq=False)
class TensorStatistics:
    """Statistics of several tensors: arrays with one element per tensor.

    Magnitudes are those of the finite elements.
    """

    rms: NDArray[np.float64]
    mean: NDArray[np.float64]
    largest: NDArray[np.float64]
    zeros: NDArray[np.float64]  # share of all elements
    non_finite: NDArray[np.float64]
    elements: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class RowStatistics:
    """Intermediate results for the statistics of some tensors on one device.

    On the CPU they become numbers.
    """

    places: NDArray[np.intp]
    """Of the tensors among those given."""
    elements: NDArray[np.float64]
    starts: NDArray[np.intp]
    """Each tensor's first row."""
    table: torch.Tensor
    """Largest magnitude, their sum, Euclidean norm, non-zero and non-finite elements, by row."""

    def statistics(self, table: torch.Tensor, scale: float = 1.0) -> TensorStatistics:
        """Compute the tensors' statistics from ``table``, copied to the CPU.

        The tensors were ``scale`` times the numbers that count.
        """
        of_rows = table.double().numpy()
        largest = np.maximum.reduceat(of_rows[0], self.starts)
        # In units of the tensor's largest norm, whose square may leave the range of float64.
        unit = np.maximum.reduceat(of_rows[2], self.starts)
        unit[unit == 0] = 1
        of_rows[2] /= np.repeat(unit, np.diff([*self.starts, of_rows.shape[1]]))
        of_rows[2] **= 2
        total, squares, non_zero, non_finite = np.add.reduceat(of_rows[1:], self.starts, axis=1)
        elements = self.elements
        with np.errstate(invalid="ignore", divide="ignore"):
            finite = np.where(elements > non_finite, elements - non_finite, np.nan)
            rms, mean = np.sqrt(squares / finite) * unit / scale, total / finite / scale
            zeros = (elements - non_zero) / elements
        return TensorStatistics(
            rms, mean, np.where(finite > 0, largest / scale, np.nan), zeros, non_finite, elements
        )


class _Block(NamedTuple):
    """Tensors of one shape, dtype and device whose statistics are computed together."""

    places: Sequence[int]
    size: int  # elements of each on this rank
    width: int
    rows: int  # of each, on the rank that has most elements of it
    chunk: int  # elements that are reduced in one operation


class _OneTable(NamedTuple):
    """Tensors on one device and the same ranks, whose results form one table.

    The arrays have an element per tensor.
    """

    groups: Sequence[Any]
    blocks: list[_Block]
    places: NDArray[np.intp]
    elements: NDArray[np.float64]
    starts: NDArray[np.intp]


class _TensorLayout(NamedTuple):
    """The properties that tensors must share to be computed together."""

    device: torch.device
    groups: Any
    shape: torch.Size
    dtype: torch.dtype
    placements: Any


def _is_plain(tensor: torch.Tensor) -> bool:
    return type(tensor) in (torch.Tensor, nn.Parameter) and tensor.layout is torch.strided


def _layout_of(tensor: Any) -> _TensorLayout:
    groups, placements = (), None
    if not _is_plain(tensor) and is_sharded(tensor):
        groups, placements = groups_that_share(tensor), tensor.placements
    return _TensorLayout(tensor.device, groups, tensor.shape, tensor.dtype, placements)


def _blocks_of(
    layout: _TensorLayout, first: Any, places: Sequence[int]
) -> Iterator[tuple[_Block, int]]:
    """Yield blocks of tensors with one layout, and the element count of a tensor."""
    is_accelerator = layout.device.type != "cpu"
    width, chunk = _WIDTH[is_accelerator], CHUNK[is_accelerator]
    elements = first.numel()
    size = _local(first).numel()
    most = largest_shard(first) if layout.groups else elements
    rows = 1 if most <= _UNCUT * width else -(-most // width)
    if rows == 1:
        width = max(1, size)
    many = max(1, chunk // max(1, size))
    for begin in range(0, len(places), many):
        yield _Block(places[begin : begin + many], size, width, rows, chunk), elements


def _table_of(groups: Sequence[Any], blocks: Sequence[tuple[_Block, int]]) -> _OneTable:
    places: list[int] = []
    counts: list[float] = []
    rows: list[int] = []
    for block, elements in blocks:
        places += block.places
        counts += [float(elements)] * len(block.places)
        rows += [block.rows] * len(block.places)
    starts = np.cumsum((0, *rows[:-1]))
    return _OneTable(
        groups, [block for block, _ in blocks], np.array(places), np.array(counts), starts
    )


class RowPlan:
    """A plan that groups tensors whose statistics are computed together.

    It serves later tensors that are like the first ones, place by place. Of a sparse tensor the
    stored elements count.
    """

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self.is_lasting: bool = True
        """Whether tensors that are not like those are refused; otherwise it is for those alone."""
        alike: dict[_TensorLayout, list[int]] = {}
        firsts: dict[_TensorLayout, Any] = {}
        for place, tensor in enumerate(tensors):
            stored = tensor
            if not _is_plain(tensor):
                self.is_lasting, stored = False, stored_elements(tensor)
            layout = _layout_of(stored)
            alike.setdefault(layout, []).append(place)
            firsts.setdefault(layout, stored)
        together: dict[tuple[Any, ...], list[tuple[_Block, int]]] = {}
        for layout, places in alike.items():
            of_layout = _blocks_of(layout, firsts[layout], places)
            together.setdefault((layout.device, layout.groups), []).extend(of_layout)
        self._parts: list[_OneTable] = []
        for (_, groups), blocks in together.items():
            self._parts.append(_table_of(groups, blocks))

    def blocks(self, tensors: Sequence[torch.Tensor]) -> Iterator[torch.Tensor]:
        """Stack the tensors of each group into a block with one row per tensor.

        A block of a single tensor is no copy of it.

        Raises:
            RuntimeError: the tensors are not like those that the plan is made of.
        """
        for part in self._parts:
            for block in part.blocks:
                yield self._block_of(tensors, block)

    def _block_of(self, tensors: Sequence[torch.Tensor], block: _Block) -> torch.Tensor:
        members = [tensors[place] for place in block.places]
        if not self.is_lasting:
            members = [_local(stored_elements(tensor)) for tensor in members]
        joined = torch.stack(members) if len(members) > 1 else members[0]
        return joined.reshape(len(members), block.size)

    def statistics(
        self, tensors: Sequence[torch.Tensor], wanted: Collection[str] = EVERY
    ) -> list[RowStatistics]:
        """Compute the statistics of tensors that fit this plan; see :meth:`reduced`."""
        (reduced,) = self.reduced(((block,) for block in self.blocks(tensors)), wanted)
        return reduced

    @torch.no_grad()
    def copies(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Copy the tensors into blocks, which keep the present values."""
        return [block.clone() if len(block) == 1 else block for block in self.blocks(tensors)]

    @torch.no_grad()
    def reduced(
        self, blocks: Iterable[Sequence[torch.Tensor]], *wanted: Collection[str]
    ) -> list[list[RowStatistics]]:
        """Compute statistics of blocks, separately for each device and set of ranks.

        Several blocks of one place, weights and their updates, are reduced one after the other, and
        each has a list. All ranks that share a sharded tensor must call. Only the fields of
        :class:`TensorStatistics` that are ``wanted`` are right, which takes a third of the time for
        ``rms`` alone.
        """
        reduced: list[list[RowStatistics]] = [[] for _ in wanted]
        following = iter(blocks)
        for groups, own, places, elements, starts in self._parts:
            tables_of: list[list[torch.Tensor]] = [[] for _ in wanted]
            for block in own:
                for tables, tensors, fields in zip(tables_of, next(following), wanted, strict=True):
                    tables.append(_reduced(tensors, fields, block))
            for result, tables in zip(reduced, tables_of, strict=True):
                table = _joined(tables)
                if groups:
                    table = _reduced_over(groups, table)
                result.append(RowStatistics(places, elements, starts, table))
        return reduced


def _local(tensor: Any) -> torch.Tensor:
    local: torch.Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return local


def _joined(tables: Sequence[torch.Tensor]) -> torch.Tensor:
    if len(tables) > 1:
        return torch.cat([*tables], dim=1)
    return tables[0]


def _reduced(tensors: torch.Tensor, wanted: Collection[str], block: _Block) -> torch.Tensor:
    """Compute the table of results of a block, with equally many rows per tensor."""
    whole, rest = divmod(block.size, block.width)
    parts = []
    if whole:
        rows = (tensors[:, : whole * block.width] if rest else tensors).reshape(-1, block.width)
        pieces: Sequence[torch.Tensor] = [rows]
        if rows.numel() > block.chunk:
            pieces = torch.split(rows, max(1, block.chunk // block.width))
        table = _joined([_reduced_rows(piece, wanted) for piece in pieces])
        if whole == block.rows:
            return table
        parts.append(table.view(5, len(tensors), whole))
    if rest:
        parts.append(_reduced_rows(tensors[:, whole * block.width :], wanted)[:, :, None])
    missing = block.rows - whole - bool(rest)
    if missing:  # a rank with a smaller shard than others
        parts.append(torch.zeros(5, len(tensors), missing, device=tensors.device))
    return torch.cat(parts, dim=2).view(5, -1)


def _reduced_rows(elements: torch.Tensor, wanted: Collection[str]) -> torch.Tensor:
    """Compute the table of results of rows that have at least one element."""
    elements = as_exact(elements.abs() if elements.is_complex() else elements)
    table = _plain_rows(elements, wanted) if elements.device.type == "cpu" else None
    if table is not None:
        return table
    wide = wide_dtype(elements.device.type)
    magnitudes = elements.abs()
    finite = magnitudes.isfinite()
    non_finite = magnitudes.shape[1] - finite.sum(1)
    magnitudes = torch.where(finite, magnitudes, 0)
    largest = magnitudes.amax(1)
    # In units of the row's largest: neither the squares nor the sum leave the range of the dtype.
    unit = largest.clamp_min(torch.finfo(largest.dtype).tiny)
    scaled = magnitudes / unit[:, None]
    total = scaled.sum(1).to(wide) * unit
    norms = torch.linalg.vector_norm(scaled, dim=1).to(wide) * unit
    non_zero = magnitudes.sign().sum(1) + non_finite
    return torch.stack([largest.to(wide), total, norms, non_zero.to(wide), non_finite.to(wide)])


def _plain_rows(elements: torch.Tensor, wanted: Collection[str]) -> torch.Tensor | None:
    """Compute the table of ordinary finite rows in half the operations.

    It is ``None`` unless all is finite and no square leaves the range of the dtype.
    """
    is_whole = "mean" in wanted
    magnitudes = elements.abs() if is_whole else elements
    norms = torch.linalg.vector_norm(magnitudes, dim=1).numpy()
    is_plain = norms.min() > _TINY and norms.max() < _HUGE  # nor is NaN
    table = np.zeros((5, len(norms)))
    table[2] = norms
    if "largest" in wanted or not is_plain:
        largest, smallest = magnitudes.amax(1).numpy(), magnitudes.amin(1).numpy()
        table[0] = largest = np.maximum(largest, -smallest)
        if not (is_plain or ((largest < _HUGE) & ((largest > _TINY) | (largest == 0))).all()):
            return None
        if is_whole:
            table[1] = magnitudes.sum(1).numpy()
            table[3] = magnitudes.shape[1] if smallest.all() else magnitudes.sign_().sum(1).numpy()
    return torch.from_numpy(table)


def _reduced_over(groups: Sequence[Any], table: torch.Tensor) -> torch.Tensor:
    """Combine the tables of all ranks that share the tensors."""
    # that of a rank's own numbers may differ from another's
    table = table.to(wide_dtype(table.device.type))
    largest, sums = table[:1].clone(), table[1:].clone()
    sums[1] = sums[1].square()
    for group in groups:
        dist.all_reduce(largest, dist.ReduceOp.MAX, group)
        dist.all_reduce(sums, dist.ReduceOp.SUM, group)
    sums[1] = sums[1].sqrt()
    return torch.cat([largest, sums])
