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
from typing import Any

from mindsummary_lightning.viewer.api import ApiRequest, Handler
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
    paths = {"/runs": "runs.html", "/runs.js": "runs.js", "/runs.css": "runs.css", "/language.js": "language.js"}
    return {path: file_of(name, folder.joinpath(name).read_bytes()) for path, name in paths.items()}


def _answer(name: str, runs: LoadedRuns, request: ApiRequest) -> Any:
    page, function = name.split(".")
    return getattr(importlib.import_module(f"{__name__}.{page}"), function)(runs, request)
