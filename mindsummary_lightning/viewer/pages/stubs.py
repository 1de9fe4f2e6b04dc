"""Answers for the parts of the front end that have nothing to show here: explanations and the debugger."""

from __future__ import annotations

from typing import Any

from mindsummary_lightning.viewer.api import ApiRequest, Route
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns

__all__ = ["ROUTES"]


def _ui_config(runs: LoadedRuns, request: ApiRequest) -> dict[str, Any]:
    return {"enable_debugger": False}


def _explain_jobs(runs: LoadedRuns, request: ApiRequest) -> dict[str, Any]:
    return {"explain_jobs": [], "name": runs.name, "total": 0}


ROUTES = (
    Route("GET", "ui-config", _ui_config),
    Route("GET", "explainer/explain-jobs", _explain_jobs),
)
