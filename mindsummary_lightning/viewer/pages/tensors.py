"""Endpoint that returns shapes, statistics, histograms and slices of tensors.

Tensors are read from the files when a page asks. Results are kept with their run. Everything is
computed in double precision from the float32 elements, as MindInsight does it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.reading.decode import OpenFiles
from mindsummary_lightning.reading.followed_file import LocatedSample
from mindsummary_lightning.reading.followed_run import FollowedRun
from mindsummary_lightning.reading.thinning import every_nth
from mindsummary_lightning.values import Tensor
from mindsummary_lightning.values.limits import MAX_ELEMENTS
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
from mindsummary_lightning.viewer.rebucketing import StepHistogram, bin_count, rebucketed

_UNKNOWN, _NO_TENSOR = "50545012", "Tensor value is not exist."
_MAX_TENSORS = 50  # each is read as a whole for its statistics; MindInsight keeps 20
_MAX_SLICES = 2
_MAX_NUMBERS = 100_000
_Slices: TypeAlias = "tuple[int | slice, ...]"

_NONE: dict[str, float] = {"max": 0.0, "min": 0.0, "avg": 0.0}


def tensors(runs: LoadedRuns, request: ApiRequest) -> dict[str, Any]:
    """Answer with the requested tensors of runs, in the requested ``detail``.

    ``detail`` is ``stats``, ``histogram``, ``data`` (a slice at a step) or missing.

    Raises:
        ApiError: a run, tag or step does not exist, or a parameter is invalid.
    """
    train_ids, tags = _all(request, "train_id"), _all(request, "tag")
    answers = []
    for train_id in train_ids:
        for plugin_tag in tags:
            run = known_run(runs, train_id)
            tag, kind = plugin_tag, "tensor"
            if not runs.has_lineage_only(train_id):
                tag, kind = known_tag(run, plugin_tag, _UNKNOWN, _NO_TENSOR)
            if kind != "tensor":
                raise ApiError(
                    _UNKNOWN,
                    f"{_NO_TENSOR} Detail: there is no tensor data in this tag: {plugin_tag}",
                )
            answers.append(
                {"train_id": train_id, "tag": plugin_tag, "values": _values(run, tag, request)}
            )
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
        raise ApiError(
            WRONG_VALUE, f"Invalid parameter value. Can not support this value: {detail} of detail."
        )
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


def _data(
    run: FollowedRun, tag: str, step: int, slices: tuple[int | slice, ...]
) -> list[dict[str, Any]]:
    try:
        (sample,) = run.samples("tensor", tag, lambda steps: np.flatnonzero(steps == step))
        with OpenFiles() as files:
            summary = _describe(run, sample, files)
            if summary.statistics is None:
                raise _too_large(sample)
            data = _read(sample, files).data
    except (LookupError, ValueError, OSError):  # no such tag or step, or it cannot be read
        raise ApiError(
            "50545014",
            f"Tensor data not in cache. Detail: this step: {step} data may has been dropped.",
        ) from None
    part = sliced(data, slices)
    details = {
        "data": numbers_to_json(part),
        "statistics": with_overall(statistics(part), summary.statistics),
    }
    return [_sample(sample, summary, details)]


def _sample(
    sample: LocatedSample, summary: TensorDescription, details: dict[str, Any]
) -> dict[str, Any]:
    value = {"dims": summary.dims, "data_type": summary.data_type, **details}
    return {"step": sample.step, "wall_time": sample.wall_time, "value": value}


def _whole(summary: TensorDescription) -> dict[str, float] | None:
    return (
        None if summary.statistics is None else with_overall(summary.statistics, summary.statistics)
    )


def _too_large(sample: LocatedSample) -> ApiError:
    return ApiError("50545016", f"Tensor is too large to show on UI. Detail: Step: {sample.step}")


class TensorDescription(NamedTuple):
    """Shape, element type and statistics of a recorded tensor, without its elements."""

    dims: tuple[int, ...]
    data_type: str  # its name in the format, ``DT_FLOAT32``
    statistics: dict[str, float] | None  # None for a tensor of more elements than MindInsight reads


def described_tensors(run: FollowedRun, tag: str) -> list[tuple[LocatedSample, TensorDescription]]:
    """Describe at most 50 tensors of a tag, in step order; skip unreadable tensors."""
    described = []
    with OpenFiles() as files:
        for sample in run.samples("tensor", tag, lambda steps: every_nth(steps.size, _MAX_TENSORS)):
            try:
                described.append((sample, _describe(run, sample, files)))
            except (
                ValueError,
                OSError,
            ):  # the dimensions do not fit, or the bytes changed since they were located
                continue
    return described


def _describe(run: FollowedRun, sample: LocatedSample, files: OpenFiles) -> TensorDescription:
    """Return shape, element type and statistics of a recorded tensor.

    Raises:
        ValueError: its dimensions do not fit its elements.
    """

    def summary() -> TensorDescription:
        tensor = _read(sample, files)
        is_large = tensor.data.size > MAX_ELEMENTS
        name = f"DT_{tensor.data_type.name}"
        return TensorDescription(
            tensor.data.shape, name, None if is_large else statistics(tensor.data)
        )

    return run.cached(("tensor", sample.location), summary)


def step_histograms(run: FollowedRun, samples: Sequence[LocatedSample]) -> list[StepHistogram]:
    """Compute the histograms of the finite elements of recorded tensors.

    The histogram is empty for a tensor that has more elements than MindInsight reads.
    """

    def histogram(sample: LocatedSample) -> StepHistogram:
        data = _read(sample, files).data
        return _histogram(data if data.size <= MAX_ELEMENTS else data[:0])

    with OpenFiles() as files:
        return [
            run.cached(("histogram", one.location), functools.partial(histogram, one))
            for one in samples
        ]


def _read(sample: LocatedSample, files: OpenFiles) -> Tensor:
    return cast("Tensor", files.value(sample.location))


def statistics(data: NDArray[np.float32]) -> dict[str, float]:
    """Compute maximum, minimum and mean of the finite elements, and counts by kind.

    Counts of NaN, infinities, zeros, negative and positive numbers have MindInsight's names.
    """
    is_finite = np.isfinite(data)
    finite = data[is_finite].astype(np.float64)
    numbers: dict[str, float] = {
        **_NONE,
        "count": data.size,
        "nan_count": int(np.count_nonzero(np.isnan(data))),
        "neg_inf_count": int(np.count_nonzero(np.isneginf(data))),
        "pos_inf_count": int(np.count_nonzero(np.isposinf(data))),
        "zero_count": float(np.count_nonzero(finite == 0)),
        "neg_zero_count": float(np.count_nonzero(finite < 0)),  # the names are MindInsight's
        "pos_zero_count": float(np.count_nonzero(finite > 0)),
    }
    if finite.size:
        numbers |= {
            "max": float(finite.max()),
            "min": float(finite.min()),
            "avg": float(finite.sum() / finite.size),
        }
    return numbers


def with_overall(part: dict[str, float], whole: dict[str, float]) -> dict[str, float]:
    """Merge the statistics of a slice with the statistics of its whole tensor.

    Names of the whole tensor's statistics begin with ``overall_``. Counts of zeros, negative and
    positive numbers of the slice are left out.
    """
    statistics = {name: value for name, value in part.items() if not name.endswith("zero_count")}
    return {**statistics, **{f"overall_{name}": value for name, value in whole.items()}}


def _histogram(data: NDArray[np.float32]) -> StepHistogram:
    """Compute the histogram of the finite elements of a tensor."""
    finite = data[np.isfinite(data)].astype(np.float64)
    if not finite.size:
        return StepHistogram((), 0.0, 0.0, 0)
    low, high = float(finite.min()), float(finite.max())
    first, last = (low, high) if low < high else (low - 0.5, high + 0.5)
    counts, edges = np.histogram(finite, bins=np.linspace(first, last, bin_count(finite.size) + 1))
    buckets = list(zip(edges[:-1].tolist(), np.diff(edges).tolist(), counts.tolist(), strict=True))
    return StepHistogram(buckets, low, high, int(counts.sum()))


def parsed_slices(text: str) -> _Slices:
    """Parse a text such as ``[0, -1, :, 1:3]`` into indices and at most two slices.

    Raises:
        ApiError: the text is not such a list.
    """
    stripped = text.strip()
    if not (stripped.startswith("[") and stripped.endswith("]")):
        raise _wrong_shape(
            "The type of shape should be str and start with `[` and end with `]`. "
            f"Received: {text}."
        )
    inner = stripped[1:-1]
    entries = inner.split(",") if inner else []
    if sum(":" in entry for entry in entries) > _MAX_SLICES:
        raise _wrong_shape(f"At most {_MAX_SLICES} dimensions are specified. Received: {inner}")
    return tuple(_index_or_slice(entry.strip()) for entry in entries)


def sliced(data: NDArray[np.float32], slices: _Slices) -> NDArray[np.float32]:
    """Index a tensor; refuse a result that is too large for the page.

    A tensor without elements gives an empty array of shape ``(0,)``.

    Raises:
        ApiError: the number of indices is wrong, an index is out of range, or the result has more
            than 100,000 elements.
    """
    if not data.size:
        return np.empty(0, np.float32)
    if data.ndim != len(slices):
        raise ApiError(
            WRONG_VALUE,
            "Invalid parameter value. Invalid dims. "
            "The length of param dims and tensor shape should be the same.",
        )
    try:
        part = np.asarray(data[slices])
    except (IndexError, ValueError):
        raise _wrong_shape(
            f"Shape unmatched. Received: {slices}, tensor shape: {data.shape}"
        ) from None
    if part.size > _MAX_NUMBERS:
        raise ApiError(
            "50545013",
            "Response data exceed max value. Detail: the size of response data: "
            f"{part.size} exceed max value: {_MAX_NUMBERS}.",
        )
    return part


def numbers_to_json(part: NDArray[np.float32]) -> Any:
    """Convert an array to nested lists; a 0-d array becomes a number.

    NaN and infinities become the texts ``NAN``, ``INF`` and ``-INF``; such a 0-d array becomes a
    list.
    """
    if np.isfinite(part).all():
        return part.tolist()
    named = part.astype(object)
    named[np.isnan(part)] = "NAN"
    named[np.isposinf(part)] = "INF"
    named[np.isneginf(part)] = "-INF"
    return named.tolist() if part.ndim else [named.item()]


def _index_or_slice(entry: str) -> int | slice:
    try:
        if ":" not in entry:
            return int(entry)
        return slice(*(int(number) if number.strip() else None for number in entry.split(":")))
    except (ValueError, TypeError):  # not an int; four parts
        raise _wrong_shape(f"Convert int from str failed. input_str: {entry}") from None


def _wrong_shape(detail: str) -> ApiError:
    return ApiError(WRONG_VALUE, f"Invalid parameter value. Invalid shape. {detail}")
