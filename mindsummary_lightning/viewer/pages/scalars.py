"""Endpoints that return scalar curves of a run, or of several runs to compare."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.reading.followed_run import FollowedRun
from mindsummary_lightning.reading.series import ScalarSeries
from mindsummary_lightning.reading.thinning import thinned
from mindsummary_lightning.viewer.api import (
    WRONG_TYPE,
    ApiError,
    ApiRequest,
    known_run,
    known_tag,
    required,
)
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from mindsummary_lightning.viewer.page_tags import has_tag


def scalar_metadata(runs: LoadedRuns, request: ApiRequest) -> dict[str, Any]:
    """Answer with the points of the scalar curve of a tag."""
    train_id, plugin_tag = required(request, "train_id"), required(request, "tag")
    run = known_run(runs, train_id)
    return {
        "metadatas": []
        if runs.has_lineage_only(train_id)
        else _points(run, _scalar_tag(run, plugin_tag))
    }


def scalars(runs: LoadedRuns, request: ApiRequest) -> dict[str, Any]:
    """Answer with the points of several scalar curves of runs; skip missing curves."""
    curves: list[dict[str, Any]] = []
    train_ids = request.query.get("train_id", ())
    # by another thread: while NumPy works on long runs, the two work side by side
    if ahead := train_ids[1::2]:
        threading.Thread(target=lambda: [*map(runs.run, ahead)], daemon=True).start()
    for train_id in train_ids:
        run = runs.run(train_id)
        for plugin_tag in request.query.get("tag", ()):
            if run is not None and (runs.has_lineage_only(train_id) or has_tag(run, plugin_tag)):
                values = (
                    []
                    if runs.has_lineage_only(train_id)
                    else _points(run, _scalar_tag(run, plugin_tag))
                )
                curves.append({"train_id": train_id, "tag": plugin_tag, "values": values})
    return {"scalars": curves}


def _scalar_tag(run: FollowedRun, plugin_tag: str) -> str:
    tag, kind = known_tag(run, plugin_tag, "5054500E", "Scalar value is not exist.")
    if kind != "scalar":
        raise ApiError(WRONG_TYPE, "Invalid parameter type. 'scalar_value' expect number type.")
    return tag


def _points(run: FollowedRun, tag: str) -> list[dict[str, Any]]:
    points = run.cached(("points", tag), lambda: _thinned(run.scalars(tag)), run.state)
    return [
        {"step": step, "wall_time": wall_time, "value": value if math.isfinite(value) else None}
        for step, wall_time, value in points.tolist()
    ]


def _thinned(series: ScalarSeries) -> NDArray[np.void]:
    chosen = thinned(series.values)
    return np.rec.fromarrays(
        [series.steps[chosen], series.wall_times[chosen], series.values[chosen]]
    )
