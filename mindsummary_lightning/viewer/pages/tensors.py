"""Tensors: shapes, statistics, histograms, and the numbers of a slice of one step."""

from __future__ import annotations

from typing import Any

import numpy as np

from mindsummary_lightning.reading.decode import OpenFiles
from mindsummary_lightning.reading.followed_run import FollowedRun
from mindsummary_lightning.reading.value_locations import LocatedSample
from mindsummary_lightning.viewer.api import (
    MISSING,
    WRONG_VALUE,
    ApiError,
    ApiRequest,
    known_run,
    known_tag,
    required,
    whole_number,
)
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from mindsummary_lightning.viewer.rebucketing import rebucketed
from mindsummary_lightning.viewer.tensor_values import (
    TensorDescription,
    describe,
    described_tensors,
    numbers_to_json,
    parsed_slices,
    read_tensor,
    sliced,
    statistics,
    step_histograms,
    with_overall,
)

_UNKNOWN, _NO_TENSOR = "50545012", "Tensor value is not exist."


def tensors(runs: LoadedRuns, request: ApiRequest) -> dict[str, Any]:
    """What ``detail`` asks for of each tag of each run; everything must exist."""
    train_ids, tags = _all(request, "train_id"), _all(request, "tag")
    answers = []
    for train_id in train_ids:
        for plugin_tag in tags:
            run = known_run(runs, train_id)
            tag, kind = plugin_tag, "tensor"
            if not run.has_no_values:
                tag, kind = known_tag(run, plugin_tag, _UNKNOWN, _NO_TENSOR)
            if kind != "tensor":
                raise ApiError(_UNKNOWN, f"{_NO_TENSOR} Detail: there is no tensor data in this tag: {plugin_tag}")
            answers.append({"train_id": train_id, "tag": plugin_tag, "values": _values(run, tag, request)})
    return {"tensors": answers}


def _all(request: ApiRequest, name: str) -> list[str]:
    values = list(request.query.get(name, ()))
    if not values:
        raise ApiError(MISSING, f"Param missing. '{name}' is required.")
    return values


def _values(run: FollowedRun, tag: str, request: ApiRequest) -> list[dict[str, Any]]:
    detail = request.first("detail")
    if detail == "data":
        required(request, "step")
        slices = parsed_slices(required(request, "dims"))
        return _data(run, tag, whole_number(required(request, "step"), "step"), slices)
    if detail == "histogram":
        return _histograms(run, tag)
    if detail not in (None, "stats"):
        raise ApiError(WRONG_VALUE, f"Invalid parameter value. Can not support this value: {detail} of detail.")
    return [
        _sample(sample, summary, {"statistics": _whole(summary)} if detail == "stats" else {})
        for sample, summary in _described(run, tag)
    ]


def _described(run: FollowedRun, tag: str) -> list[tuple[LocatedSample, TensorDescription]]:
    return described_tensors(run, tag) if tag in run.tags()["tensor"] else []


def _histograms(run: FollowedRun, tag: str) -> list[dict[str, Any]]:
    described = _described(run, tag)
    for sample, summary in described:
        if summary.statistics is None:
            raise _too_large(sample)
    buckets = rebucketed(step_histograms(run, [sample for sample, _ in described]))
    return [
        _sample(sample, summary, {"histogram_buckets": bins, "statistics": _whole(summary)})
        for (sample, summary), bins in zip(described, buckets, strict=True)
    ]


def _data(run: FollowedRun, tag: str, step: int, slices: tuple[int | slice, ...]) -> list[dict[str, Any]]:
    try:
        (sample,) = run.samples("tensor", tag, lambda steps: np.flatnonzero(steps == step))
        with OpenFiles() as files:
            summary = describe(run, sample, files)
            if summary.statistics is None:
                raise _too_large(sample)
            data = read_tensor(sample, files).data
    except (LookupError, ValueError, OSError):  # no such tag or step, or it cannot be read
        raise ApiError(
            "50545014", f"Tensor data not in cache. Detail: this step: {step} data may has been dropped."
        ) from None
    part = sliced(data, slices)
    details = {"data": numbers_to_json(part), "statistics": with_overall(statistics(part), summary.statistics)}
    return [_sample(sample, summary, details)]


def _sample(sample: LocatedSample, summary: TensorDescription, details: dict[str, Any]) -> dict[str, Any]:
    value = {"dims": summary.dims, "data_type": summary.data_type, **details}
    return {"step": sample.step, "wall_time": sample.wall_time, "value": value}


def _whole(summary: TensorDescription) -> dict[str, float] | None:
    return None if summary.statistics is None else with_overall(summary.statistics, summary.statistics)


def _too_large(sample: LocatedSample) -> ApiError:
    return ApiError("50545016", f"Tensor is too large to show on UI. Detail: Step: {sample.step}")
