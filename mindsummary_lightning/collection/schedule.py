"""Decides from the number of a step whether the step is collected.

The rules are MindSpore's (``SummaryCollector``, 2.7.0), steps counted from 1, with two of our own:
the last step is collected as well, so that a run shorter than ``collect_freq`` shows where it
ended, and input images are bounded by default to the ten that MindInsight shows, because
MindSpore's rhythm fills disks with images that it does not keep.
"""

from __future__ import annotations

import sys
from collections.abc import Container, Iterable

MAX_TENSOR_STEPS = 20  # MindInsight keeps no more steps of a tensor
MAX_IMAGE_STEPS = 10  # and of an image: the tensors' steps, or every second of them
_FIRST_CHAINS = 3  # steps: what is wrong with an optimizer's state shows in the second
# of the gap between tensor steps when the total is not known: 20 steps reach beyond 10**8
_GROWTH = 2.5


def tensor_steps(total: int | None, collect_freq: int) -> Iterable[int]:
    """Return the steps after the first at which tensors are recorded by default.

    It has at most 20 of the ``total`` steps of a run.
    """
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
    """Decides which values of a step are collected; steps count from 1.

    The ``total`` of a run may be unknown.

    Without a gap of their own, tensors are collected on the steps of the default range, input
    images on these too, or on every second of more than 10. A resumed run has done ``step`` steps
    before; ``default_steps_used`` are as many of them as :meth:`default_steps_until` said, ``None``
    if unknown: those of this schedule. Output statistics of ``chain_steps`` are recorded; ``None``:
    those of the first three steps and of all with tables.
    """

    def __init__(
        self,
        collect_freq: int,
        collect_tensor_freq: int | None = None,
        collect_input_freq: int | None = None,
        total: int | None = None,
        step: int = 0,
        default_steps_used: tuple[int, int] | None = None,
        chain_steps: Container[int] | None = (),
    ) -> None:
        self._freq = collect_freq
        self._total = total
        self._chain = range(1, _FIRST_CHAINS + 1) if chain_steps is None else chain_steps
        self._has_chain_rhythm = chain_steps is None
        steps = sorted({1, *tensor_steps(total, collect_freq)} - {0})
        image_steps = steps[:: 1 if len(steps) <= MAX_IMAGE_STEPS else 2]
        self._used = default_steps_used or (_count(steps, step), _count(image_steps, step))
        self._default_tensor_steps = _coming(steps, step, MAX_TENSOR_STEPS - self._used[0])
        self._default_image_steps = _coming(image_steps, step, MAX_IMAGE_STEPS - self._used[1])
        others = sorted(self._default_tensor_steps - {1})
        # beside the first step, the last, and one at which a number is not finite
        most = MAX_TENSOR_STEPS - 3
        self._table_steps: Container[int] = frozenset(
            others[at * len(others) // most] for at in range(most if others else 0)
        )
        self._picture_steps = frozenset(sorted(self._default_image_steps)[1::2])
        self._tensors: Container[int] = self._default_tensor_steps
        if collect_tensor_freq is not None:
            self._tensors = self._table_steps = range(0, sys.maxsize, collect_tensor_freq)
        self._inputs: Container[int] = self._default_image_steps
        if collect_input_freq is not None:
            self._inputs = range(0, sys.maxsize, collect_input_freq)

    def collects(self, step: int) -> bool:
        """Tell whether scalars, operator images and histograms of a step are recorded."""
        return step % self._freq == 0 or step in (1, self._total)

    def collects_tensors(self, step: int) -> bool:
        """Tell whether tensors of this step are recorded."""
        return step == 1 or step in self._tensors

    def collects_inputs(self, step: int) -> bool:
        """Tell whether the input images of this step are recorded."""
        return step == 1 or step in self._inputs

    def collects_tables(self, step: int) -> bool:
        """Tell whether the table of parameter statistics is recorded at a step.

        It is recorded with tensors, and on the first collected step after a step with tensors.
        """
        return step in (1, self._total) or self._has_passed(self._table_steps, step)

    def collects_chain(self, step: int) -> bool:
        """Tell whether the output statistics of this step are recorded."""
        return step in self._chain or (
            self._has_chain_rhythm and self.collects(step) and self.collects_tables(step)
        )

    def collects_pictures(self, step: int) -> bool:
        """Tell whether the heat maps of statistics are recorded at a collected step.

        They are drawn five times in a run at most, and at its end.
        """
        return step == self._total or (step > 1 and self._has_passed(self._picture_steps, step))

    def _has_passed(self, steps: Container[int], step: int) -> bool:
        """Tell whether a step of ``steps`` came since the last collected step."""
        if isinstance(steps, range):  # of a fixed gap, without an end
            return step % steps.step < self._freq
        return isinstance(steps, frozenset) and any(
            step - self._freq < number <= step for number in steps
        )

    def collects_anything(self, step: int) -> bool:
        """Tell whether any value of this step is recorded.

        This is a hot path, so it calls no other method.
        """
        return (
            step % self._freq == 0
            or step in (1, self._total)
            or step in self._tensors
            or step in self._inputs
            or step in self._chain
        )

    def default_steps_until(self, step: int) -> tuple[int, int]:
        """Count up to a step the default steps with tensors, and those steps with images.

        A run that resumes from here needs these numbers.
        """
        tensors, images = self._used
        return tensors + _count(self._default_tensor_steps, step), images + _count(
            self._default_image_steps, step
        )


def _count(steps: Iterable[int], until: int) -> int:
    return sum(number <= until for number in steps)


def _coming(steps: Iterable[int], step: int, at_most: int) -> frozenset[int]:
    return frozenset([number for number in steps if number > step][: max(0, at_most)])
