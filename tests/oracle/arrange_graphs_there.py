"""Arrange graphs with MindInsight's own code, in MindInsight's environment.

``python arrange_graphs_there.py DIR`` reads every ``*.graph`` (a serialized GraphProto) and writes
beside it ``*.json``: for each of the two views the nodes in order, each with its scope, and what a
search for some texts finds. A view that MindInsight cannot build is null.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

from mindinsight.datavisual.data_transform.graph import MSGraph, OptimizedGraph
from mindinsight.datavisual.proto_files.mindinsight_anf_ir_pb2 import GraphProto

SEARCHES = ("add", "conv", "Default/", "parameter", "c", "e", "op1", "[", "cell_1/r", "weight")


def arranged(graph_class: type, payload: bytes) -> dict[str, Any] | None:
    graph = graph_class()
    try:
        graph.build_graph(GraphProto.FromString(payload))
    except Exception:  # whatever it stumbles over, it then shows no graph
        return None
    nodes = [{**node.to_dict(), "scope": node.scope} for node in graph._normal_node_map.values()]
    searches = {text: graph.get_nodes(graph.search_nodes_by_pattern(text)) for text in SEARCHES}
    return {"nodes": nodes, "searches": searches}


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    for path in sorted(Path(sys.argv[1]).glob("*.graph")):
        payload = path.read_bytes()
        views = {
            "normal": arranged(MSGraph, payload),
            "optimize": arranged(OptimizedGraph, payload),
        }
        path.with_suffix(".json").write_text(json.dumps(views), encoding="utf-8")
