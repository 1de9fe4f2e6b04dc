"""Requests about lineage: the condition in the body, the name of a run, and the lineage of one run."""

from __future__ import annotations

import json
from typing import Any

from mindsummary_lightning.errors import LineageSearchConditionParamError
from mindsummary_lightning.lineage.conditions import parse_condition
from mindsummary_lightning.lineage.merge import MergedLineage
from mindsummary_lightning.lineage.search import CACHE, search_lineage
from mindsummary_lightning.viewer.api import ApiError, ApiRequest
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from mindsummary_lightning.viewer.parameters import MISSING, WRONG_VALUE
from mindsummary_lightning.viewer.remarks import remarks_of

__all__ = ["json_body", "run_lineage", "run_name", "search_runs"]

_WRONG_CONDITION = "50542218"


def json_body(request: ApiRequest) -> Any:
    """The body of a request.

    Raises:
        ApiError: it is not JSON.
    """
    try:
        return json.loads(request.body)
    except (ValueError, RecursionError):
        raise ApiError(WRONG_VALUE, "Invalid parameter value. Json data parse failed.") from None


def search_runs(runs: LoadedRuns, request: ApiRequest) -> dict[str, Any]:
    """The runs that meet the condition in the body; do not change what is inside.

    Raises:
        ApiError: the body is not a valid condition.
    """
    asked = json_body(request) if request.body else None
    try:
        condition = parse_condition({} if asked is None else asked, runs.base_dir)
    except LineageSearchConditionParamError as error:
        raise ApiError(_WRONG_CONDITION, f"Search_condition param error: {error}") from None
    return search_lineage(runs.run_directories(), condition, remarks_of(runs.base_dir).all())


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
