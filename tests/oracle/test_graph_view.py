"""MindInsight's own arrangement of random graphs and ours: the same nodes, edges, order
and hits.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mindsummary_lightning.fileformat._proto import anf_ir_pb2
from mindsummary_lightning.fileformat.graph_codec import decode_model
from mindsummary_lightning.viewer.graph_view.layout import (
    GraphView,
    hits,
    normal_view,
    optimized_view,
    tree_of,
)
from tests.oracle.mindinsight_server import needed_python
from tests.viewer.random_graphs import random_graph

GRAPHS = (60, 300)  # in the short form and in the long one
VIEWS = {"normal": normal_view, "optimize": optimized_view}


@pytest.fixture(scope="module")
def arranged(tmp_path_factory: pytest.TempPathFactory, amount: Callable[[int, int], int]) -> Path:
    """The graphs, each with MindInsight's arrangement beside it."""
    folder = tmp_path_factory.mktemp("graphs")
    for seed in range(amount(*GRAPHS)):
        (folder / f"{seed:03d}.graph").write_bytes(random_graph(seed).SerializeToString())
    script = Path(__file__).with_name("arrange_graphs_there.py")
    environment = {**os.environ, "HOME": str(folder)}  # where it keeps its log
    subprocess.run(
        [needed_python(), str(script), str(folder)], check=True, env=environment, cwd=folder
    )
    return folder


@pytest.mark.parametrize("mode", VIEWS)
def test_random_graphs_are_arranged_as_mindinsight_does(arranged: Path, mode: str) -> None:
    kinds: set[str] = set()
    for path in sorted(arranged.glob("*.graph")):
        theirs = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))[mode]
        graph = anf_ir_pb2.GraphProto.FromString(path.read_bytes())
        ours = VIEWS[mode](*decode_model(anf_ir_pb2.ModelProto(graph=graph).SerializeToString()))

        assert _nodes(ours) == theirs["nodes"], path.name
        for text, found in theirs["searches"].items():
            assert _plain(tree_of(hits(ours.table, text), ours.table)) == found, (path.name, text)
        kinds |= {node["type"] for node in theirs["nodes"]}
    assert kinds >= {"name_scope", "aggregation_scope", "Parameter", "Const"}


def _nodes(view: GraphView) -> Any:
    return _plain([{**node.to_json(), "scope": node.scope} for node in view.table.values()])


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value))
