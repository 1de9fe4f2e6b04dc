"""Endpoints of the list of runs with their tags; debugger and explainer are off."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from mindsummary_lightning.reading.run_tree import ListedRun
from mindsummary_lightning.viewer.api import (
    MISSING,
    NOT_LISTED,
    WRONG_TYPE,
    WRONG_VALUE,
    ApiError,
    ApiRequest,
    known_run,
    page_slice,
    required,
)
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from mindsummary_lightning.viewer.page_tags import PLUGINS, plugin_tags

_MAX_ROWS = 999
_MANY_ROWS = 100  # the list of runs asks for 20, the pages that compare runs for 999
_COMPARED_RUNS = 15  # as many as MindInsight keeps loaded
LIST_LIMIT_S = 2.0
_CACHE_LIMIT_S = 15.0  # the front end waits 30 s for an answer
_LAST_TIME_S = 253402214400  # 9999-12-31 in every time zone: what datetime can show
_NO_TAGS: dict[str, list[str]] = {plugin: [] for plugin in PLUGINS}


def train_jobs(runs: LoadedRuns, request: ApiRequest) -> dict[str, Any]:
    """Answer with a page of the list of runs, or with a single run.

    A row of the list shows the tags of a run if an earlier request has read the run. They are the
    present tags if the run is still in memory. Other rows have the status ``NOT_IN_CACHE``:
    thousands of runs are listed without a file being opened. A run asked for by name is read. The
    pages that compare runs show nothing unless the list has tags. For them the newest runs are
    read, for a few seconds at most.
    """
    rows = page_slice(request, 10, _MAX_ROWS)
    train_id = request.first("train_id")
    if train_id is None:
        listing = [
            run for run in runs.listing() if request.only is None or run.train_id in request.only
        ]
        listed, total = listing[rows], len(listing)
        _read_listed(runs, listed, request, is_long=rows.stop - rows.start > _MANY_ROWS)
    else:
        run = runs.find(train_id) if runs.run(train_id) is not None else None
        listed, total = ([], 0) if run is None else ([run], 1)
    return {
        "load_status": "loaded",
        "name": runs.name,
        "total": total,
        "train_jobs": [_row(runs, run) for run in listed],
    }


def _read_listed(
    runs: LoadedRuns, listed: Sequence[ListedRun], request: ApiRequest, *, is_long: bool
) -> None:
    """Read new values of the loaded runs; in a long list, also load runs to compare."""
    _read(runs, (run.train_id for run in listed if runs.is_loaded(run.train_id)), LIST_LIMIT_S)
    if not is_long:
        return
    with_values = [run.train_id for run in listed if run.summary_files]
    if request.only is None:
        _read(runs, with_values[:_COMPARED_RUNS], LIST_LIMIT_S)
        return
    # chosen by hand: a page that leaves some of them out would not compare what was asked for
    _read(runs, with_values, _CACHE_LIMIT_S)


def plugins(runs: LoadedRuns, request: ApiRequest) -> dict[str, Any]:
    """Answer with the tags of a run by kind.

    The run is read whether ``manual_update`` is ``true`` or ``false``.
    """
    manual_update = request.first("manual_update")
    if manual_update is not None and manual_update.lower() not in ("true", "false"):
        raise ApiError(
            WRONG_VALUE,
            "Invalid parameter value. The value of manual_update must be 'false' or 'true'.",
        )
    return {"plugins": plugin_tags(known_run(runs, required(request, "train_id"), NOT_LISTED))}


def single_job(runs: LoadedRuns, request: ApiRequest) -> dict[str, Any]:
    """Answer with the tags of a run for the kind ``plugin_name``, such as ``scalar``."""
    plugin, train_id = required(request, "plugin_name"), required(request, "train_id")
    if plugin not in PLUGINS:
        known = ", ".join(map(repr, PLUGINS))
        raise ApiError(
            "5054500B",
            f"Plugin is not available. Detail: 'plugin_name' only can be one of [{known}]",
        )
    run = known_run(runs, train_id, NOT_LISTED)
    return {
        "train_jobs": [{"id": train_id, "name": train_id, "tags": sorted(plugin_tags(run)[plugin])}]
    }


def train_job_caches(runs: LoadedRuns, request: ApiRequest) -> dict[str, Any]:
    """Read the runs that the request body names, so that the list shows their tags.

    Unknown runs are skipped. Runs that are not reached in time stay ``NOT_IN_CACHE``, and the page
    asks again.
    """
    train_ids = _train_ids(request)
    if not all(isinstance(train_id, str) for train_id in train_ids):
        raise ApiError(WRONG_TYPE, "Invalid parameter type. 'train_id' expect <class 'str'> type.")
    known = [train_id for train_id in train_ids if runs.find(train_id) is not None]
    _read(runs, known, _CACHE_LIMIT_S)
    return {
        "cache_result": [
            {"train_id": train_id, "cache_status": _status(runs, train_id)} for train_id in known
        ]
    }


def ui_config(runs: LoadedRuns, request: ApiRequest) -> dict[str, Any]:
    """Tell MindInsight's front end that there is no debugger."""
    return {"enable_debugger": False}


def explain_jobs(runs: LoadedRuns, request: ApiRequest) -> dict[str, Any]:
    """Answer with an empty list: there are no explainer runs."""
    return {"explain_jobs": [], "name": runs.name, "total": 0}


def _read(runs: LoadedRuns, train_ids: Iterable[str], limit_s: float) -> None:
    started = runs.clock()
    for train_id in train_ids:
        runs.run(train_id)
        if runs.clock() - started > limit_s:
            break


def _status(runs: LoadedRuns, train_id: str) -> str:
    run = runs.find(train_id)
    has_values = run is not None and bool(run.summary_files or run.graph_files)
    return "CACHED" if has_values and runs.summary(train_id) is not None else "NOT_IN_CACHE"


def _train_ids(request: ApiRequest) -> list[Any]:
    missing = ApiError(MISSING, "Param missing. 'train_ids' is required.")
    try:
        body = request.json() if request.content_type == "application/json" else None
    except ApiError:
        raise missing from None
    train_ids = body.get("train_ids") if isinstance(body, dict) else None
    if train_ids is None:
        raise missing
    if not isinstance(train_ids, list):
        raise ApiError(
            WRONG_TYPE, "Invalid parameter type. 'train_ids' expect <class 'list'> type."
        )
    return train_ids


def _row(runs: LoadedRuns, run: ListedRun) -> dict[str, Any]:
    summary = runs.summary(run.train_id)
    return {
        "train_id": run.train_id,
        "relative_path": run.train_id,
        "create_time": _time_text(run.create_time_s),
        "update_time": _time_text(run.update_time_us / 1_000_000),
        "summary_files": run.summary_files,
        "lineage_files": run.lineage_files,
        "graph_files": run.graph_files,
        "profiler_dir": None,
        "profiler_type": "",
        "dump_dir": None,
        "cache_status": _status(runs, run.train_id),
        "is_integrity": summary is None or summary.is_complete,
        "plugins": _NO_TAGS if summary is None else summary.tags,
    }


def _time_text(seconds: float) -> str:
    return datetime.fromtimestamp(min(max(seconds, 0), _LAST_TIME_S)).strftime("%Y-%m-%d %H:%M:%S")
