"""Recorded tensors, read from the files when a page asks; what was computed of them is remembered with their run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from mindsummary_lightning.reading.file_content import LocatedSample
from mindsummary_lightning.reading.followed_run import FollowedRun
from mindsummary_lightning.reading.stored_values import read_value
from mindsummary_lightning.values import Tensor
from mindsummary_lightning.values.limits import MAX_ELEMENTS
from mindsummary_lightning.viewer.rebucketing import StepHistogram
from mindsummary_lightning.viewer.sample_limits import MAX_TENSORS, spread
from mindsummary_lightning.viewer.tensor_values import statistics, tensor_histogram

__all__ = ["TensorDescription", "describe", "described_tensors", "read_tensor", "step_histogram"]


@dataclass(frozen=True, slots=True)
class TensorDescription:
    """A recorded tensor without its elements.

    Attributes:
        dims: its shape.
        data_type: name of its dtype in the format, ``DT_FLOAT32``.
        statistics: as :func:`~mindsummary_lightning.viewer.tensor_values.statistics` gives them; ``None`` for a tensor
            of more elements than MindInsight reads.
    """

    dims: tuple[int, ...]
    data_type: str
    statistics: dict[str, float] | None


def described_tensors(run: FollowedRun, tag: str) -> list[tuple[LocatedSample, TensorDescription]]:
    """The tensors of a tag that the pages show, by step; those that cannot be read are skipped."""
    described = []
    for sample in run.samples("tensor", tag, spread(MAX_TENSORS)):
        try:
            described.append((sample, describe(run, sample)))
        except (ValueError, OSError):  # the dimensions do not fit, or the bytes changed since they were located
            continue
    return described


def describe(run: FollowedRun, sample: LocatedSample) -> TensorDescription:
    """A tensor without its elements.

    Raises:
        ValueError: the dimensions do not fit the elements.
        OSError: the file cannot be read.
    """

    def summary() -> TensorDescription:
        tensor = read_tensor(sample)
        is_large = tensor.data.size > MAX_ELEMENTS
        name = f"DT_{tensor.data_type.name}"
        return TensorDescription(tensor.data.shape, name, None if is_large else statistics(tensor.data))

    return run.remembered(("tensor", sample.location), summary)


def step_histogram(run: FollowedRun, sample: LocatedSample) -> StepHistogram:
    """The histogram of a tensor's finite elements, empty for one of more elements than MindInsight reads.

    Raises:
        ValueError, OSError: as :func:`describe`.
    """

    def histogram() -> StepHistogram:
        data = read_tensor(sample).data
        return tensor_histogram(data if data.size <= MAX_ELEMENTS else data[:0])

    return run.remembered(("histogram", sample.location), histogram)


def read_tensor(sample: LocatedSample) -> Tensor:
    """The tensor of a sample; raises as :func:`describe`."""
    return cast("Tensor", read_value(sample.location))
