"""Histograms of a tag over its steps, all in the same bins."""

from __future__ import annotations

import math
from typing import Any, cast

from mindsummary_lightning.reading.decode import read_value
from mindsummary_lightning.reading.thinning import every_nth
from mindsummary_lightning.reading.value_locations import LocatedSample
from mindsummary_lightning.values import Histogram
from mindsummary_lightning.viewer.api import ApiError, ApiRequest, known_run, known_tag, required
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from mindsummary_lightning.viewer.rebucketing import StepHistogram, rebucketed
from mindsummary_lightning.viewer.tensor_values import described_tensors, step_histogram

_MAX_HISTOGRAMS = 100  # drawn one behind the other; MindInsight keeps 50
_UNKNOWN, _NO_HISTOGRAM = "5054500F", "Histogram value is not exist."


def histograms(runs: LoadedRuns, request: ApiRequest) -> dict[str, Any]:
    """The histograms of a histogram or tensor tag."""
    train_id, plugin_tag = required(request, "train_id"), required(request, "tag")
    run = known_run(runs, train_id)
    tag, kind = known_tag(run, plugin_tag, _UNKNOWN, _NO_HISTOGRAM)
    if kind == "histogram":
        samples = run.samples(kind, tag, lambda steps: every_nth(steps.size, _MAX_HISTOGRAMS))
        recorded = ((sample, _recorded(sample)) for sample in samples)
        histograms = [(sample, histogram) for sample, histogram in recorded if histogram is not None]
    elif kind == "tensor":
        histograms = [(sample, step_histogram(run, sample)) for sample, _ in described_tensors(run, tag)]
    else:
        raise ApiError(_UNKNOWN, f"{_NO_HISTOGRAM} Detail: there is no histogram in this tag: {plugin_tag}")
    try:
        buckets = rebucketed([histogram for _, histogram in histograms])
    except (ValueError, OverflowError) as error:
        raise ApiError(_UNKNOWN, f"{_NO_HISTOGRAM} Detail: Invalid parameter value. {error}") from None
    return {
        "train_id": train_id,
        "tag": plugin_tag,
        "histograms": [
            {"step": sample.step, "wall_time": sample.wall_time, "buckets": bins}
            for (sample, _), bins in zip(histograms, buckets, strict=True)
        ],
    }


def _recorded(sample: LocatedSample) -> StepHistogram | None:
    try:
        value = cast("Histogram", read_value(sample.location))
    except (ValueError, OSError):  # the value contradicts itself, or its bytes changed since they were located
        return None
    columns = (value.lefts.tolist(), value.widths.tolist(), value.counts.tolist())
    buckets = sorted(zip(*columns, strict=True), key=lambda bucket: bucket[0])
    return StepHistogram(buckets, _finite(value.min), _finite(value.max), sum(columns[2]))


def _finite(number: float | None) -> float:
    return number if number is not None and math.isfinite(number) else 0.0
