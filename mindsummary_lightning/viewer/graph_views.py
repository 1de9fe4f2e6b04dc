"""The graph views of runs, built when they are first asked for; the newest few are kept."""

from __future__ import annotations

import functools
import logging
import threading

from mindsummary_lightning.reading.followed_run import GraphLocation
from mindsummary_lightning.reading.recorded_graph import read_graph
from mindsummary_lightning.viewer.graph_view.layout import GraphView, normal_view, optimized_view

__all__ = ["load_graph_view"]

_LOG = logging.getLogger(__name__)
_MAX_VIEWS = 6
_BUILDING = threading.Lock()  # the page asks for several parts of a graph at the same time: one request builds it


def load_graph_view(graph: GraphLocation, is_optimized: bool) -> GraphView | None:
    """A view of a recorded graph; ``None`` if it cannot be read or is empty."""
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
        _LOG.warning("skipped the graph in %s: %s", graph.location.path, error)
        return None
