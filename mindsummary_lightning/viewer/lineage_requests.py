"""Requests about lineage: the body, the name of a run, and the lineage of one run."""

from __future__ import annotations

import json
from typing import Any

from mindsummary_lightning.lineage.merge import MergedLineage
from mindsummary_lightning.lineage.search import CACHE
from mindsummary_lightning.viewer.api import ApiError, ApiRequest
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from mindsummary_lightning.viewer.parameters import MISSING, WRONG_VALUE

__all__ = ["json_body", "run_lineage", "run_name"]


def json_body(request: ApiRequest) -> Any:
    """The body of a request.

    Raises:
        ApiError: it is not JSON.
    """
    try:
        return json.loads(request.body)
    except (ValueError, RecursionError):
        raise ApiError(WRONG_VALUE, "Invalid parameter value. Json data parse failed.") from None


def run_lineage(runs: LoadedRuns, train_id: str) -> MergedLineage | None:
    """The lineage of a run; ``None`` if there is no such run or none of its files contains lineage."""
    run = runs.run_directory(train_id)
    return None if run is None else CACHE.lineage(run.path, run.files)


def run_name(runs: LoadedRuns, request: ApiRequest) -> str:
    """The parameter ``train_id``, which need not name a run.

    Raises:
        ApiError: it is missing, or neither names a run nor could name one in MindInsight.
    """
    train_id = request.first("train_id")
    if train_id is None:
        raise ApiError(MISSING, "Param missing. 'train_id' is required.")
    is_possible = train_id.startswith("./") and train_id.count("/") == 1
    if not is_possible and runs.find(train_id) is None:
        text = "Invalid parameter value. Summary dir should be relative path starting with './'."
        raise ApiError(WRONG_VALUE, text)
    return train_id
