"""Endpoint that returns the histograms of a tag at all steps, in common bins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from mindsummary_lightning.reading.decode import OpenFiles
from mindsummary_lightning.reading.followed_file import LocatedSample
from mindsummary_lightning.reading.followed_run import FollowedRun
from mindsummary_lightning.reading.thinning import every_nth
from mindsummary_lightning.values import Histogram
from mindsummary_lightning.viewer.api import ApiError, ApiRequest, known_run, known_tag, required
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from mindsummary_lightning.viewer.pages.tensors import described_tensors, step_histograms
from mindsummary_lightning.viewer.rebucketing import StepHistogram, rebucketed

_MAX_HISTOGRAMS = 100  # drawn one behind the other; MindInsight keeps 50
_UNKNOWN, _NO_HISTOGRAM = "5054500F", "Histogram value is not exist."


def histograms(runs: LoadedRuns, request: ApiRequest) -> dict[str, Any]:
    """Answer with the histograms of a histogram tag or of a tensor tag."""
    train_id, plugin_tag = required(request, "train_id"), required(request, "tag")
    run = known_run(runs, train_id)
    if runs.has_lineage_only(train_id):
        return {"train_id": train_id, "tag": plugin_tag, "histograms": []}
    tag, kind = known_tag(run, plugin_tag, _UNKNOWN, _NO_HISTOGRAM)
    if kind == "histogram":
        samples = run.samples(kind, tag, lambda steps: every_nth(steps.size, _MAX_HISTOGRAMS))
    elif kind == "tensor":
        samples = [sample for sample, _ in described_tensors(run, tag)]
    else:
        raise ApiError(
            _UNKNOWN, f"{_NO_HISTOGRAM} Detail: there is no histogram in this tag: {plugin_tag}"
        )
    read = _recorded if kind == "histogram" else step_histograms
    try:
        bins = run.cached(("bins", kind, tag), lambda: _bins(read(run, samples)), samples)
    except (ValueError, OverflowError) as error:
        raise ApiError(
            _UNKNOWN, f"{_NO_HISTOGRAM} Detail: Invalid parameter value. {error}"
        ) from None
    return {
        "train_id": train_id,
        "tag": plugin_tag,
        "histograms": [
            {
                "step": sample.step,
                "wall_time": sample.wall_time,
                "buckets": [*zip(bins.lefts, bins.widths, counts, strict=True)],
            }
            for sample, counts in zip(samples, bins.counts, strict=True)
            if counts is not None
        ],
    }


class _Bins(NamedTuple):
    """The histograms of a tag in common bins; counts are ``None`` if unreadable."""

    lefts: list[float]
    widths: list[float]
    counts: list[list[int] | None]

    @property
    def nbytes(self) -> int:
        # with the samples, by which they are known again
        return (50 * len(self.lefts) + 700) * (len(self.counts) + 1)


def _bins(recorded: Sequence[StepHistogram | None]) -> _Bins:
    rows = iter(rebucketed([histogram for histogram in recorded if histogram is not None]))
    columns = [
        None if histogram is None else [*zip(*next(rows), strict=True)] for histogram in recorded
    ]
    lefts, widths = next(
        ([*found[0]], [*found[1]]) for found in [*columns, ((), ())] if found is not None
    )
    return _Bins(lefts, widths, [None if found is None else [*found[2]] for found in columns])


def _recorded(run: FollowedRun, samples: Sequence[LocatedSample]) -> list[StepHistogram | None]:
    with OpenFiles() as files:
        return [_read(sample, files) for sample in samples]


def _read(sample: LocatedSample, files: OpenFiles) -> StepHistogram | None:
    try:
        value = cast("Histogram", files.value(sample.location))
    except (
        ValueError,
        OSError,
    ):  # the value contradicts itself, or its bytes changed since they were located
        return None
    columns = (value.lefts.tolist(), value.widths.tolist(), value.counts.tolist())
    buckets = sorted(zip(*columns, strict=True), key=lambda bucket: bucket[0])
    return StepHistogram(buckets, _finite(value.min), _finite(value.max), sum(columns[2]))


def _finite(number: float | None) -> float:
    return number if number is not None and math.isfinite(number) else 0.0
