"""Scalar curves, of one run and of several side by side."""

from __future__ import annotations

import math
from typing import Any

from mindsummary_lightning.reading.followed_run import FollowedRun
from mindsummary_lightning.reading.thinning import thinned
from mindsummary_lightning.viewer.api import WRONG_TYPE, ApiError, ApiRequest, known_run, known_tag, required
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from mindsummary_lightning.viewer.tags import has_tag


def scalar_metadata(runs: LoadedRuns, request: ApiRequest) -> dict[str, Any]:
    """The points of one curve."""
    train_id, plugin_tag = required(request, "train_id"), required(request, "tag")
    run = known_run(runs, train_id)
    return {"metadatas": _points(run, _scalar_tag(run, plugin_tag))}


def scalars(runs: LoadedRuns, request: ApiRequest) -> dict[str, Any]:
    """The points of several curves of several runs; what does not exist is skipped."""
    curves: list[dict[str, Any]] = []
    for train_id in request.query.get("train_id", ()):
        run, is_without_values = runs.run(train_id), runs.has_lineage_only(train_id)
        for plugin_tag in request.query.get("tag", ()):
            if is_without_values:
                curves.append({"train_id": train_id, "tag": plugin_tag, "values": []})
            elif run is not None and has_tag(run, plugin_tag):
                curves.append(
                    {"train_id": train_id, "tag": plugin_tag, "values": _points(run, _scalar_tag(run, plugin_tag))}
                )
    return {"scalars": curves}


def _scalar_tag(run: FollowedRun, plugin_tag: str) -> str:
    tag, kind = known_tag(run, plugin_tag, "5054500E", "Scalar value is not exist.")
    if kind != "scalar":
        raise ApiError(WRONG_TYPE, "Invalid parameter type. 'scalar_value' expect number type.")
    return tag


def _points(run: FollowedRun, tag: str) -> list[dict[str, Any]]:
    series = run.scalars(tag)
    chosen = thinned(series.values)
    values = series.values[chosen].tolist()
    return [
        {"step": step, "wall_time": wall_time, "value": value if math.isfinite(value) else None}
        for step, wall_time, value in zip(
            series.steps[chosen].tolist(), series.wall_times[chosen].tolist(), values, strict=True
        )
    ]
