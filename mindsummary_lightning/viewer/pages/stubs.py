"""Answers for the parts of the front end that have nothing to show here: explanations and the debugger."""

from __future__ import annotations

from typing import Any

from mindsummary_lightning.viewer.api import ApiRequest
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns

__all__ = ["explain_jobs", "ui_config"]


def ui_config(runs: LoadedRuns, request: ApiRequest) -> dict[str, Any]:
    """What the front end offers: no debugger."""
    return {"enable_debugger": False}


def explain_jobs(runs: LoadedRuns, request: ApiRequest) -> dict[str, Any]:
    """No explanations."""
    return {"explain_jobs": [], "name": runs.name, "total": 0}
