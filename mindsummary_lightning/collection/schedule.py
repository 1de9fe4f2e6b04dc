"""Is this step collected? Integers only.

The rules are MindSpore's (``SummaryCollector``, 2.7.0), steps counted from 1, with two of our own: the last step is
collected as well, so that a run shorter than ``collect_freq`` shows where it ended, and input images are bounded by
default to the ten that MindInsight shows, because MindSpore's rhythm fills disks with images that it does not keep.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

MAX_TENSOR_STEPS = 20  # MindInsight keeps no more steps of a tensor
MAX_IMAGE_STEPS = 10  # and of an image: the tensors' steps, or every second of them
_GROWTH = 2.5  # of the gap between tensor steps when the total is not known: 20 steps reach beyond 10**8


def tensor_steps(total: int | None, collect_freq: int) -> Iterable[int]:
    """The default range: steps after the first whose tensors are collected, at most 20 of the ``total`` of a run."""
    if total is None:
        # The first step is collected anyway, so one less than the viewer keeps.
        return [round(collect_freq * _GROWTH**power) for power in range(MAX_TENSOR_STEPS - 1)]
    others = range(0, total + 1, collect_freq)
    if len(others) <= MAX_TENSOR_STEPS:
        return others
    gap = total // (MAX_TENSOR_STEPS - 1)
    if gap > 1:
        return range(0, total + 1, gap)[:MAX_TENSOR_STEPS]
    return range(total + 1)[: MAX_TENSOR_STEPS + 1]


class Schedule:
    """States for each step, counted from 1, what is collected; the ``total`` of a run may be unknown.

    Without a gap of their own, tensors are collected on the steps of the default range, input images on these too, or
    on every second of more than 10. A resumed run has done ``step`` steps before, ``default_steps_used`` of them in the
    default range; ``None`` if unknown: as of this schedule.
    """

    def __init__(
        self,
        collect_freq: int,
        collect_tensor_freq: int | None = None,
        collect_input_freq: int | None = None,
        total: int | None = None,
        step: int = 0,
        default_steps_used: int | None = None,
    ) -> None:
        self._freq = collect_freq
        self._total = total
        steps = sorted({1, *tensor_steps(total, collect_freq)} - {0})
        used = sum(number <= step for number in steps) if default_steps_used is None else default_steps_used
        coming = [number for number in steps if number > step]
        default = frozenset(coming[: max(0, MAX_TENSOR_STEPS - used)])
        self._used, self._default_tensor_steps = used, default
        self._tensors = default if collect_tensor_freq is None else range(0, sys.maxsize, collect_tensor_freq)
        stride = 1 if len(steps) <= MAX_IMAGE_STEPS else 2
        images = [number for number in steps[::stride] if number > step]
        images = images[: max(0, MAX_IMAGE_STEPS - -(-used // stride))]
        self._inputs = frozenset(images) if collect_input_freq is None else range(0, sys.maxsize, collect_input_freq)

    def collects(self, step: int) -> bool:
        """Whether scalars, images of operators and histograms of this step are recorded."""
        return step % self._freq == 0 or step in (1, self._total)

    def collects_tensors(self, step: int) -> bool:
        """Whether tensors of this step are recorded."""
        return step == 1 or step in self._tensors

    def collects_inputs(self, step: int) -> bool:
        """Whether the input images of this step are recorded."""
        return step == 1 or step in self._inputs

    def collects_anything(self, step: int) -> bool:
        """Whether anything at all of this step is recorded; hot path, so it calls none of the others."""
        return step % self._freq == 0 or step in (1, self._total) or step in self._tensors or step in self._inputs

    def default_steps_until(self, step: int) -> int:
        """Steps of the default range up to this one, for a run that resumes from here."""
        return self._used + sum(number <= step for number in self._default_tensor_steps)
