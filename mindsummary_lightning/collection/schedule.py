"""Is this step collected? Integers only.

The rules are MindSpore's (``SummaryCollector``, 2.7.0), steps counted from 1, with one of our own: the last step is
collected as well, so that a run shorter than ``collect_freq`` shows where it ended.
"""

from __future__ import annotations

from collections.abc import Container

__all__ = ["Schedule", "tensor_steps"]

MAX_TENSOR_STEPS = 20  # MindInsight keeps no more steps of a tensor
_GROWTH = 2.5  # of the gap between tensor steps when the total is not known: 20 steps reach beyond 10**8


def tensor_steps(total: int | None, collect_freq: int, collect_tensor_freq: int | None) -> Container[int]:
    """The tensor range: after the first step, tensors are collected on these steps.

    Args:
        total: steps of the whole run, or ``None`` if nobody knows.
        collect_freq: gap between collected steps of everything else.
        collect_tensor_freq: gap that the user asked for, or ``None``.
    """
    if total is None:
        if collect_tensor_freq is None:
            return _growing(collect_freq)
        return _EveryNth(collect_tensor_freq)
    if collect_tensor_freq is not None:
        return range(0, total + 1, collect_tensor_freq)
    others = range(0, total + 1, collect_freq)
    if len(others) <= MAX_TENSOR_STEPS:
        return others
    gap = total // (MAX_TENSOR_STEPS - 1)
    if gap > 1:
        return range(0, total + 1, gap)[:MAX_TENSOR_STEPS]
    return range(total + 1)[: MAX_TENSOR_STEPS + 1]


class _EveryNth:
    def __init__(self, gap: int) -> None:
        self._gap = gap

    def __contains__(self, step: object) -> bool:
        return isinstance(step, int) and step % self._gap == 0


def _growing(gap: int) -> frozenset[int]:
    # The first step is collected anyway, so one less than the viewer keeps.
    return frozenset(round(gap * _GROWTH**power) for power in range(MAX_TENSOR_STEPS - 1))


class Schedule:
    """Says for each step, counted from 1, what is collected.

    Args:
        collect_freq: gap between collected steps.
        collect_tensor_freq: gap between steps whose tensors are collected; ``None``: the tensor range.
        collect_input_freq: gap between steps whose input images are collected; ``None``: as tensors.
        total: steps of the whole run; ``None`` if nobody knows.
    """

    def __init__(
        self,
        collect_freq: int,
        collect_tensor_freq: int | None = None,
        collect_input_freq: int | None = None,
        total: int | None = None,
    ) -> None:
        self._freq = collect_freq
        self._input_freq = collect_input_freq
        self._total = total
        self._tensor_steps = tensor_steps(total, collect_freq, collect_tensor_freq)

    def collects(self, step: int) -> bool:
        """Whether scalars, images of operators and histograms of this step are recorded."""
        return step % self._freq == 0 or step in (1, self._total)

    def collects_tensors(self, step: int) -> bool:
        """Whether tensors of this step are recorded."""
        return step == 1 or step in self._tensor_steps

    def collects_inputs(self, step: int) -> bool:
        """Whether the input images of this step are recorded."""
        if self._input_freq is None:
            return self.collects_tensors(step)
        return step == 1 or step % self._input_freq == 0

    def collects_anything(self, step: int) -> bool:
        """Whether anything at all of this step is recorded; asked for every step, so it calls none of the others."""
        return (
            step % self._freq == 0
            or step in self._tensor_steps
            or step in (1, self._total)
            or (self._input_freq is not None and step % self._input_freq == 0)
        )
