"""Endpoints of MindInsight's graph page: list, search and locate graph nodes."""

from __future__ import annotations

import functools
import logging
import threading
from typing import Any

from mindsummary_lightning.errors import error_text, printable
from mindsummary_lightning.reading.decode import read_graph
from mindsummary_lightning.reading.followed_file import GraphLocation
from mindsummary_lightning.viewer.api import (
    NOT_LISTED,
    WRONG_VALUE,
    ApiError,
    ApiRequest,
    known_run,
    page_slice,
    required,
)
from mindsummary_lightning.viewer.graph_view.layout import GraphView, normal_view, optimized_view
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from mindsummary_lightning.viewer.page_tags import OPTIMIZED

_LOG = logging.getLogger(__name__)
_MAX_VIEWS = 6  # the newest few are kept
# the page asks for several parts of a graph at the same time: one request builds it
_BUILDING = threading.Lock()

_NO_NODE, _NO_GRAPH = "50545009", "5054500C"
_DEFAULT_HITS, _MAX_HITS = 100, 1000
# scopes above a node in a nested answer: neither json nor a browser's script recurses without end
_MAX_DEPTH = 250


def nodes(runs: LoadedRuns, request: ApiRequest) -> dict[str, Any]:
    """Answer with the nodes directly in a scope of a computational graph."""
    view = _view(runs, request)
    return {"nodes": view.children(_known_scope(view, request))}


def all_nodes(runs: LoadedRuns, request: ApiRequest) -> dict[str, Any]:
    """Answer with all operations of a computational graph in a scope, at any depth."""
    view = _view(runs, request)
    return {"all_nodes_detail": view.leaves(_known_scope(view, request))}


def names(runs: LoadedRuns, request: ApiRequest) -> dict[str, Any]:
    """Answer with the graph nodes whose names contain the query's ``search`` text."""
    view = _view(runs, request)
    rows = page_slice(request, _DEFAULT_HITS, _MAX_HITS)
    return {"nodes": view.search(request.first("search") or "", rows, _MAX_DEPTH)}


def single_node(runs: LoadedRuns, request: ApiRequest) -> dict[str, Any]:
    """Answer with the scopes that enclose a graph node, and the nodes of these scopes."""
    view = _view(runs, request)
    name = required(request, "name")
    if name not in view:
        raise _unknown(name)
    if name.count("/") > _MAX_DEPTH:
        raise ApiError(
            _NO_NODE, f"The node is deeper than {_MAX_DEPTH} scopes; open its scopes one by one."
        )
    scopes: dict[str, Any] = {}
    for level in reversed(view.levels(name)):
        scopes = {**level, "children": scopes}
    return scopes


def _view(runs: LoadedRuns, request: ApiRequest) -> GraphView:
    mode = request.first("mode")
    if mode not in (None, "normal", "optimize"):
        raise ApiError(WRONG_VALUE, "Invalid parameter value. Invalid mode")
    is_optimized = mode == "optimize"
    run = known_run(runs, required(request, "train_id"), NOT_LISTED)
    suffix = OPTIMIZED if is_optimized else ""
    graphs = {graph.name + suffix: graph for graph in run.graphs()}
    tag = request.first("tag")
    graph = graphs.get(min(graphs, default="") if tag is None else tag)
    view = None if graph is None else _load(graph, is_optimized)
    if view is None:
        raise ApiError(_NO_GRAPH, "Graph is not exist.")
    return view


def _known_scope(view: GraphView, request: ApiRequest) -> str:
    name = request.first("name") or ""
    if name and name not in view:
        raise _unknown(name)
    return name


def _unknown(name: str) -> ApiError:
    return ApiError(
        _NO_NODE, f"Can not find node in graph by the given node name. node name: {name}."
    )


def _load(graph: GraphLocation, is_optimized: bool) -> GraphView | None:
    """Build the view of a recorded graph; ``None`` if it is unreadable or empty."""
    with _BUILDING:
        try:
            view = _built(graph, is_optimized)
        except OSError:  # gone since the run was read; nothing to remember
            return None
    return view if view is not None and view.children("") else None


@functools.lru_cache(maxsize=_MAX_VIEWS)
def _built(graph: GraphLocation, is_optimized: bool) -> GraphView | None:
    build = optimized_view if is_optimized else normal_view
    try:
        return build(*read_graph(graph))
    except ValueError as error:
        _LOG.warning(
            "skipped the graph in %s: %s", printable(graph.location.path), error_text(error)
        )
        return None
