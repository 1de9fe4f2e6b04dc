"""The endpoints behind MindInsight's web pages, one module per page.

A module is imported at the first request for its page, so that the list of runs appears before
NumPy and protobuf are loaded. The functions of a module take the runs and the request. They return
a value that ``json`` can encode, or an image or HTML page. They may block, because the server calls
them in worker threads, and they refuse a request by raising ``ApiError``.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

from mindsummary_lightning.viewer.api import ApiRequest, Handler
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns

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
    "POST run-table/search": "run_search.search",
    "GET comparison": "comparison.comparison",
    "GET what-went-wrong": "what_went_wrong.what_went_wrong",
    "GET ui-config": "train_jobs.ui_config",
    "GET explainer/explain-jobs": "train_jobs.explain_jobs",
}


def page_handlers() -> dict[str, Handler]:
    """Return the functions that answer requests, by ``METHOD path``."""
    return {endpoint: functools.partial(_answer, name) for endpoint, name in _ENDPOINTS.items()}


def _answer(name: str, runs: LoadedRuns, request: ApiRequest) -> Any:
    page, function = name.split(".")
    return getattr(importlib.import_module(f"{__name__}.{page}"), function)(runs, request)
