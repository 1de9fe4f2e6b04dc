"""Endpoints of MindInsight's lineage pages: runs, tags, remarks, data pipelines.

The lineage of a run holds its settings, its data set and its results.
"""

from __future__ import annotations

from typing import Any

from mindsummary_lightning.errors import LineageSearchConditionParamError
from mindsummary_lightning.lineage.conditions import parse_condition
from mindsummary_lightning.lineage.merge import MergedLineage
from mindsummary_lightning.lineage.search import CACHE, search_lineage
from mindsummary_lightning.viewer.api import WRONG_VALUE, ApiError, ApiRequest, run_name
from mindsummary_lightning.viewer.graph_view.node_table import drawable
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from mindsummary_lightning.viewer.remarks import remarks_of

_UNKNOWN_RUN, _WRONG_CONDITION, _WRONG_ADDED_INFO, _NOT_SAVED = (
    "50545005",
    "50542218",
    "50542081",
    "50540000",
)
_MAX_TAG, _MAX_REMARK = 10, 128
_DRAWN_KEYS = ("op_type", "tensor_op_name")  # of a data pipeline: written into DOT


def search_runs(runs: LoadedRuns, request: ApiRequest) -> dict[str, Any]:
    """Answer with the runs that meet the search condition in the request body.

    Callers must not change the returned values.

    Raises:
        ApiError: the condition is invalid.
    """
    asked = request.json() if request.body else None
    try:
        condition = parse_condition({} if asked is None else asked, runs.base_dir)
    except LineageSearchConditionParamError as error:
        raise ApiError(_WRONG_CONDITION, f"Search_condition param error: {error}") from None
    directories = runs.run_directories()
    if request.only is not None:
        directories = [run for run in directories if run.summary_dir in request.only]
    remarks = remarks_of(runs.base_dir).all()
    state = (directories, remarks)

    def find() -> dict[str, Any]:
        return search_lineage(directories, condition, remarks, is_for_browser=True)

    return runs.lineages.of(request.body, find, state)


def update(runs: LoadedRuns, request: ApiRequest) -> dict[str, str]:
    """Save the user's tag or remark for a run, from the request body."""
    added = request.json()
    if not isinstance(added, dict):
        raise ApiError(WRONG_VALUE, "Invalid parameter value. The request body should be a dict.")
    train_id = run_name(runs, request)
    _check(added)
    if runs.find(train_id) is None:
        raise ApiError(_UNKNOWN_RUN, f"Train job is not exist. Detail: {train_id}")
    if run_lineage(runs, train_id) is None:
        text = f"Cannot update the lineage for tran job {train_id}, because it does not exist."
        raise ApiError(WRONG_VALUE, f"Invalid parameter value. {text}")
    try:
        remarks_of(runs.base_dir).update(train_id, added)
    except OSError as error:
        raise ApiError(_NOT_SAVED, f"The tag or remark could not be saved: {error}", 500) from error
    return {"status": "success"}


def dataset_graph(runs: LoadedRuns, request: ApiRequest) -> dict[str, Any]:
    """Answer with the data pipeline of a run, or an empty dict if it has none."""
    train_id = run_name(runs, request)
    lineage = run_lineage(runs, train_id)
    graph = lineage.sections["dataset_graph"] if lineage is not None else None
    return {"dataset_graph": drawable_pipeline(graph), "summary_dir": train_id} if graph else {}


def run_lineage(runs: LoadedRuns, train_id: str) -> MergedLineage | None:
    """Return the merged lineage (settings and results) of a run.

    ``None`` if there is no such run, or if none of its files contains lineage.
    """
    run = runs.run_directory(train_id)
    return None if run is None else CACHE.lineages([(run.path, run.files)])[0]


def drawable_pipeline(value: Any) -> Any:
    """Copy a data pipeline, and make its operation names safe for Graphviz DOT text.

    The page writes the names into DOT without escaping.
    """
    if isinstance(value, dict):
        return {
            key: drawable(part)
            if key in _DRAWN_KEYS and isinstance(part, str)
            else drawable_pipeline(part)
            for key, part in value.items()
        }
    return [drawable_pipeline(part) for part in value] if isinstance(value, list) else value


def _check(added: dict[str, Any]) -> None:
    if not added.keys() <= {"tag", "remark"}:
        raise _refusal("Keys of added_info must be in ['tag', 'remark'].")
    for key, value in added.items():
        if key == "tag":
            if not isinstance(value, int):
                raise _refusal("'tag' must be int.")
            if not 0 <= value <= _MAX_TAG:
                raise _refusal(f"The tag should in [0, {_MAX_TAG}].")
        elif not isinstance(value, str):
            raise _refusal("'remark' must be str.")
        elif len(value) > _MAX_REMARK:
            raise _refusal(f"The length of remark should in [0, {_MAX_REMARK}].")


def _refusal(text: str) -> ApiError:
    return ApiError(_WRONG_ADDED_INFO, f"ValueError. {text}")
