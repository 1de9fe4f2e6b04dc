"""Endpoints of MindInsight's loss landscape pages: list and return landscapes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from mindsummary_lightning.lineage.merge import MergedLineage
from mindsummary_lightning.reading.followed_run import FollowedRun
from mindsummary_lightning.values import LossLandscape, Points
from mindsummary_lightning.viewer.api import (
    NOT_LISTED,
    WRONG_VALUE,
    ApiRequest,
    known_run,
    required,
)
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from mindsummary_lightning.viewer.page_tags import landscapes_of, plugin_tags, split_tag
from mindsummary_lightning.viewer.pages.lineages import run_lineage

_KIND = "loss_landscape"
_NOT_FOUND = "50545017"
_ORIGIN = (0, 0, 0)  # where no convergence point is recorded


def intervals(runs: LoadedRuns, request: ApiRequest) -> dict[str, Any]:
    """Answer with the training intervals for which a run has loss landscapes."""
    train_id = required(request, "train_id")
    run = known_run(runs, train_id, NOT_LISTED)
    intervals = [
        {"id": _interval_id(landscape), "value": [landscape.intervals[0], landscape.intervals[-1]]}
        for landscape in _recorded(run)
        if landscape.intervals
    ]
    return {"intervals": sorted(intervals, key=lambda interval: interval["value"][0])}


def landscapes(runs: LoadedRuns, request: ApiRequest) -> dict[str, Any]:
    """Answer with a loss landscape of every requested run."""
    kind, interval_id = request.first("type"), request.first("interval_id")
    return {
        "landscapes": [
            _landscape(runs, train_id, "interval" if kind is None else kind, interval_id)
            for train_id in request.query.get("train_id", ())
        ]
    }


def _landscape(
    runs: LoadedRuns, train_id: str, kind: str, interval_id: str | None
) -> dict[str, Any]:
    if not train_id.startswith("./"):
        return {"error_code": WRONG_VALUE, "train_id": train_id}
    run = known_run(runs, train_id, NOT_LISTED)
    for landscape in _recorded(run):
        is_final = not landscape.intervals
        if (kind == "final" and is_final) or (
            kind == "interval" and not is_final and _interval_id(landscape) == interval_id
        ):
            return {"train_id": train_id, **_to_json(landscape, run_lineage(runs, train_id))}
    return {"error_code": _NOT_FOUND, "train_id": train_id}


def _recorded(run: FollowedRun) -> Iterator[LossLandscape]:
    for plugin_tag in plugin_tags(run)[_KIND]:
        yield from landscapes_of(run, split_tag(plugin_tag)[0])


def _interval_id(landscape: LossLandscape) -> str:
    return hashlib.blake2b(repr(landscape.intervals).encode(), digest_size=8).hexdigest()


def _to_json(landscape: LossLandscape, lineage: MergedLineage | None) -> dict[str, Any]:
    metadata = landscape.metadata
    answer: dict[str, Any] = {
        "points": _points(landscape.surface),
        "convergence_point": list(landscape.convergence_point or _ORIGIN),
        "metadata": {
            "decomposition": metadata.decomposition,
            "unit": metadata.unit,
            "step_per_epoch": metadata.step_per_epoch,
            **_training(lineage),
        },
    }
    if landscape.path is not None:
        answer["path"] = {"intervals": list(landscape.intervals), **_points(landscape.path)}
    return answer


def _points(points: Points) -> dict[str, Any]:
    return {"x": points.x.tolist(), "y": points.y.tolist(), "z": points.z.tolist()}


def _training(lineage: MergedLineage | None) -> dict[str, Any]:
    if lineage is None:
        return {"network": None, "optimizer": None, "learning_rate": None, "metric": {}}
    fields = lineage.fields
    return {
        "network": fields["network"],
        "optimizer": fields["optimizer"],
        "learning_rate": _exponential(fields["learning_rate"]),
        "metric": lineage.sections["metric"],
        "loss": _exponential(fields["loss"]),
    }


def _exponential(value: float | str | None) -> str | None:
    # a NaN or an infinity is text already
    return f"{value:e}" if isinstance(value, float) else value
