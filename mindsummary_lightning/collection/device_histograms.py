"""Computes the histogram of a tensor on the tensor's own device.

It is also reduced over the ranks that share the tensor.

Nothing here waits for the device: the edges, and even how many buckets there are, stay tensors
until the few numbers that remain are on the CPU. The result is that of
``conversion.histograms.to_histogram``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence

import torch
import torch.distributed as dist

from mindsummary_lightning.conversion.histogram_buckets import number_of_buckets
from mindsummary_lightning.conversion.histograms import Statistics, build_histogram
from mindsummary_lightning.values import Histogram
from mindsummary_lightning.values.limits import MAX_BUCKETS

REDUCIBLE = frozenset({torch.float32, torch.float16, torch.bfloat16})
"""Dtypes whose histogram is reduced on the device; parameters and gradients rarely have others."""

# torch.histc counts in float32, which is exact up to this count; it also bounds the memory in use
CHUNK = 1 << 24


@torch.no_grad()
def histogram_parts(
    tensor: torch.Tensor, groups: Sequence[dist.ProcessGroup | None] = ()
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Compute counts, extremes, sum and bucket edges for a tensor's histogram.

    The numbers stay on the device, without waiting for it.

    Each rank of each of the process groups, which are reduced over one after the other, must take
    part.

    Returns:
        Four one-dimensional tensors for ``histogram_from_parts``: the numbers of all, NaN, +inf and
        -inf elements (int64); lowest, minus highest and sum (float64, float32 on a device without
        it); 91 edges in the dtype that the histogram has them in; 90 counts (int64), NaN and the
        infinities among them.
    """
    edge_dtype = torch.float16 if tensor.dtype is torch.float16 else torch.float32
    flat = tensor.detach().reshape(-1)
    tallies, extremes, total = _statistics(flat)
    for group in groups:
        dist.all_reduce(tallies, dist.ReduceOp.SUM, group)
        dist.all_reduce(extremes, dist.ReduceOp.MIN, group)
        dist.all_reduce(total, dist.ReduceOp.SUM, group)
    low, high = extremes[0], -extremes[1]
    edges, inner = _edges(low, high, tallies[0] - tallies[1:].sum(), edge_dtype)
    counts = torch.zeros(MAX_BUCKETS, dtype=torch.int64, device=flat.device)
    for chunk in _chunks(flat):
        counts += bucket_counts(chunk, inner)
    for group in groups:
        dist.all_reduce(counts, dist.ReduceOp.SUM, group)
    return tallies, torch.cat([extremes, total]), edges, counts


def histogram_from_parts(parts: Sequence[torch.Tensor]) -> Histogram:
    """Make a histogram from the result of ``histogram_parts``, copied to the CPU."""
    tallies, numbers, edges, counts = [part.numpy() for part in parts]
    count, nan_count, pos_inf_count, neg_inf_count = tallies.tolist()
    low, minus_high, total = numbers.tolist()
    statistics = Statistics(count, nan_count, pos_inf_count, neg_inf_count, low, -minus_high, total)
    buckets = number_of_buckets(statistics.finite) if statistics.finite else 0
    counts = counts.copy()
    counts[0] -= neg_inf_count  # below every inner edge
    counts[-1] -= nan_count + pos_inf_count  # the search sorts NaN after every edge, as +inf
    return build_histogram(statistics, edges[: buckets + 1], counts[:buckets])


@functools.cache
def wide_dtype(device_type: str) -> torch.dtype:
    """Return the dtype for sums: float64, or float32 if the device has no float64."""
    try:
        return torch.zeros((), dtype=torch.float64, device=device_type).dtype
    except torch.OutOfMemoryError:
        raise  # says nothing about the dtype, and the answer is kept
    except (RuntimeError, TypeError):
        return torch.float32


def _chunks(flat: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield the elements in chunks, converted to float32.

    float32 holds every element of the reducible dtypes exactly.
    """
    for start in range(0, flat.numel(), CHUNK):
        yield flat[start : start + CHUNK].float()


def _statistics(flat: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Compute element counts (all, NaN, +inf, -inf), minimum, maximum and sum.

    The extremes are lowest and minus highest, so that a single MIN reduces both.
    """
    device, inf = flat.device, math.inf
    tallies = torch.zeros(4, dtype=torch.int64, device=device)
    tallies[0] = flat.numel()
    extremes = torch.full((2,), inf, dtype=torch.float32, device=device)
    total = torch.zeros(1, dtype=wide_dtype(device.type), device=device)
    for chunk in _chunks(flat):
        tallies[1:] += torch.stack(
            [chunk.isnan().sum(), (chunk == inf).sum(), (chunk == -inf).sum()]
        )
        low = chunk.nan_to_num(inf, inf, inf).amin()
        high = chunk.nan_to_num(-inf, -inf, -inf).amax()
        extremes = torch.minimum(extremes, torch.stack([low, -high]))
        total += chunk.nan_to_num(0.0, 0.0, 0.0).sum(dtype=total.dtype)
    return tallies, extremes.to(total.dtype), total


def _edges(
    low: torch.Tensor, high: torch.Tensor, finite: torch.Tensor, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the same edges as ``bucket_edges``, with tensor operations.

    They are 91 edges, the last of them repeated, and the 89 inner edges to search in.
    """
    constant = ~(low < high)
    first, last = torch.where(constant, low - 0.5, low), torch.where(constant, high + 0.5, high)
    buckets = number_of_buckets(finite, torch.where)
    index = torch.arange(MAX_BUCKETS + 1, device=low.device)
    # Product and sum apart, as numpy.linspace computes them: the edges then have the same bits.
    edges = index.to(low.dtype) * ((last - first) / buckets)
    edges = torch.where(index < buckets, edges + first, last)
    edges = rounded_to_half(edges) if dtype is torch.float16 else edges.to(dtype)
    return edges, torch.where(index < buckets, edges.float(), math.inf)[1:-1]


def rounded_to_half(numbers: torch.Tensor) -> torch.Tensor:
    """Convert float64 numbers to float16 with a single rounding, as NumPy does.

    Torch rounds them to float32 on the way.

    In between they are rounded to odd: cut to the float32 towards zero, with the last bit set
    unless that is exact.
    """
    single = numbers.float()
    bits = single.view(torch.int32) - (single.to(numbers.dtype).abs() > numbers.abs()).int()
    is_inexact = bits.view(torch.float32).to(numbers.dtype) != numbers
    return (bits | is_inexact.int()).view(torch.float32).half()


def bucket_counts(chunk: torch.Tensor, inner: torch.Tensor) -> torch.Tensor:
    """Count the elements in each bucket, given the inner edges between the buckets."""
    # torch.histc would raise
    if torch.are_deterministic_algorithms_enabled() and chunk.device.type != "cpu":
        return bucket_counts_by_sorting(chunk, inner)
    # torch.bincount would wait for the device, to learn the greatest index.
    bucket = torch.bucketize(chunk, inner, out_int32=True, right=True)
    return torch.histc(bucket.float(), MAX_BUCKETS, -0.5, MAX_BUCKETS - 0.5).long()


def bucket_counts_by_sorting(chunk: torch.Tensor, inner: torch.Tensor) -> torch.Tensor:
    """Compute :func:`bucket_counts` with deterministic operations only."""
    below = torch.searchsorted(chunk.sort().values, inner)  # NaN is sorted to the end
    return torch.diff(below, prepend=below.new_zeros(1), append=below.new_full((1,), chunk.numel()))
