"""The endpoints of MindInsight's front end and the functions that answer them, one module per page.

A page is imported at its first request: the list of runs is shown before NumPy and protobuf are loaded. Its functions
take the runs and the request and return what ``json`` encodes, or an image; they may block, as the server calls them in
worker threads, and refuse a request by raising ``ApiError``.
"""

from __future__ import annotations

import base64
import binascii
import functools
import importlib
import importlib.resources
import json
from collections.abc import Callable
from typing import Any

from mindsummary_lightning.viewer.api import ApiError, ApiRequest, Handler
from mindsummary_lightning.viewer.frontend import StaticFile, file_of
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from mindsummary_lightning.viewer.markup import as_recorded

_SELECTION_PREFIX = "/only/"
_ENDPOINTS = {  # method and path below /v1/mindinsight/ -> module and function
    "GET datavisual/train-jobs": "train_jobs.train_jobs",
    "GET datavisual/plugins": "train_jobs.plugins",
    "GET datavisual/single-job": "train_jobs.single_job",
    "POST datavisual/train-job-caches": "train_jobs.train_job_caches",
    "GET datavisual/scalar/metadata": "scalars.scalar_metadata",
    "GET datavisual/scalars": "scalars.scalars",
    "GET datavisual/image/metadata": "images.image_metadata",
    "GET datavisual/image/single-image": "images.single_image",
    "GET datavisual/histograms": "histograms.histograms",
    "GET datavisual/tensors": "tensors.tensors",
    "GET datavisual/graphs/nodes": "graphs.nodes",
    "GET datavisual/graphs/nodes/all": "graphs.all_nodes",
    "GET datavisual/graphs/nodes/names": "graphs.names",
    "GET datavisual/graphs/single-node": "graphs.single_node",
    "GET datasets/dataset_graph": "lineages.dataset_graph",
    "GET datavisual/landscape/intervals": "landscapes.intervals",
    "GET datavisual/landscape/landscapes": "landscapes.landscapes",
    "POST lineagemgr/lineages": "lineages.search_runs",
    "PUT lineagemgr/lineages": "lineages.update",
    "POST optimizer/targets/search": "optimizer_targets.targets",
    "GET run-table": "run_table.run_table",
    "POST run-table/curves": "run_table.curves",
    "GET comparison": "comparison.comparison",
    "GET ui-config": "train_jobs.ui_config",
    "GET explainer/explain-jobs": "train_jobs.explain_jobs",
}

_UNKNOWN_TAG = ("5054500D", "5054500E", "5054500F")
# What is answered for a run with nothing but lineage instead of an unknown tag, by pages of one run and one tag.
_OF_NO_VALUES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "scalars.scalar_metadata": lambda asked: {"metadatas": []},
    "images.image_metadata": lambda asked: {"metadatas": []},
    "histograms.histograms": lambda asked: {**asked, "histograms": []},
}


def page_handlers() -> dict[str, Handler]:
    """The functions that answer the endpoints, by ``METHOD path``."""
    return {endpoint: functools.partial(_answer, name) for endpoint, name in _ENDPOINTS.items()}


def without_selection(path: str) -> tuple[str, frozenset[str] | None]:
    """A path below the runs that it selects, and their names; MindInsight's pages then list only these.

    The front end sends every request below the address that it was opened at, so
    ``/only/<JSON list in base64url>/#/compare-analysis/scalar`` compares exactly the runs of the list.
    """
    encoded, slash, rest = path.removeprefix(_SELECTION_PREFIX).partition("/")
    if not path.startswith(_SELECTION_PREFIX) or not slash:
        return path, None
    try:
        train_ids = json.loads(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
        return f"/{rest}", frozenset(as_recorded(str(train_id)) for train_id in train_ids)
    except (binascii.Error, ValueError, TypeError, RecursionError):
        return path, None


def own_files() -> dict[str, StaticFile]:
    """The files of the table of runs, and what sets the pages' language at the first visit, by their address's path."""
    folder = importlib.resources.files("mindsummary_lightning.viewer").joinpath("static")
    names = (
        "runs.html",
        "runs.js",
        "runs.css",
        "overlay.js",
        "uPlot.iife.min.js",
        "uPlot.min.css",
        "language.js",
        "back.js",
    )
    return {f"/{name.removesuffix('.html')}": file_of(name, folder.joinpath(name).read_bytes()) for name in names}


def _answer(name: str, runs: LoadedRuns, request: ApiRequest) -> Any:
    page, function = name.split(".")
    try:
        return getattr(importlib.import_module(f"{__name__}.{page}"), function)(runs, request)
    except ApiError as error:
        if (
            error.code not in _UNKNOWN_TAG
            or name not in _OF_NO_VALUES
            or not runs.has_lineage_only(request.first("train_id") or "")
        ):
            raise
        asked = {"tag": request.first("tag"), "train_id": request.first("train_id")}
        return _OF_NO_VALUES[name](asked)
