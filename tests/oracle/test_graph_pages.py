"""A real MindInsight keeps every graph that we record complete, in both views, and Chromium draws
it.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from mindsummary_lightning import SummaryReader, SummaryRecord
from mindsummary_lightning.recording.summary_record import recorder_of
from mindsummary_lightning.values import Graph
from tests.oracle.browser import Browser
from tests.oracle.mindinsight_server import MindInsight, wait_until

torch = pytest.importorskip("torch")
pytest.importorskip("selenium")

from mindsummary_lightning.graph.capture import capture_example  # noqa: E402
from tests.graph.models import AwkwardNames  # noqa: E402
from tests.graph.random_networks import random_network  # noqa: E402
from tests.graph.reader_rules import edges  # noqa: E402
from tests.graph.training import train  # noqa: E402
from tests.graph.zoo import ZOO  # noqa: E402

_SEEDS = range(4)

_DRAWN = (*(f"graph-{name}" for name in ZOO), "graph-awkward", "graph-random-0")
# What the page draws in a way of its own: many scopes, branches that are shared, odd names; the
# others with --full.
_DRAWN_ALWAYS = {"graph-gpt-bf16", "graph-checkpointed", "graph-awkward", "graph-random-0"}
_RUNS = (*_DRAWN, *(f"graph-random-{seed}" for seed in _SEEDS if seed))


# One run after another, each newest when it is asked for: the server keeps no more than fifteen
# loaded.
@pytest.fixture(scope="module", params=_RUNS)
def run(request: pytest.FixtureRequest, runs: Path, mindinsight: MindInsight) -> tuple[str, Graph]:
    """A run and the graph recorded there."""
    name = str(request.param)
    kind = name.removeprefix("graph-")
    if kind in ZOO:
        train(ZOO[kind], runs / name)
    else:
        network = (
            AwkwardNames() if kind == "awkward" else random_network(random.Random(int(kind[-1])))
        )
        with SummaryRecord(str(runs / name)) as record:
            recorder_of(record).write_graph(capture_example(network, torch.ones(3, 4)))
    graph = SummaryReader(runs / name).graph()
    assert graph is not None
    mindinsight.wait_cached(f"./{name}")
    wait_for_graph(mindinsight, f"./{name}")
    return f"./{name}", graph


def wait_for_graph(server: MindInsight, train_id: str) -> None:
    """Wait until both views are there: a run counts as loaded before the last of its events is
    built.
    """
    wait_until(
        lambda: all(server.plugins(train_id).get(view) for view in ("graph", "optimized_graph")),
        lambda: f"graphs of {train_id}; the reason is in {server.logs}",
    )


def leaves(server: MindInsight, train_id: str, mode: str) -> list[dict[str, Any]]:
    query = {"train_id": train_id, "mode": mode}
    nodes: list[dict[str, Any]] = server.get("datavisual/graphs/nodes/all", query)[
        "all_nodes_detail"
    ]
    return nodes


def operations(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [node for node in nodes if node["type"] not in ("Parameter", "Const")]


def test_no_node_edge_or_parameter_is_lost(
    mindinsight: MindInsight, run: tuple[str, Graph]
) -> None:
    train_id, graph = run

    shown = leaves(mindinsight, train_id, "normal")

    kept = operations(shown)
    assert len(kept) == len(graph.nodes)
    assert sum(len(node["input"]) for node in kept) == len(edges(graph))
    connected = {
        node["name"].split("/")[-1]
        for node in shown
        if node["type"] == "Parameter" and node["output"]
    }
    assert connected == {parameter.name for parameter in graph.parameters}
    constants = {node["name"] for node in shown if node["type"] == "Const"}
    typed = {
        entry["data_type"]
        for node in kept
        for name, entry in node["input"].items()
        if name not in constants
    }
    assert "" not in typed


def test_the_optimized_view_keeps_every_operation(
    mindinsight: MindInsight, run: tuple[str, Graph]
) -> None:
    train_id, graph = run

    kept = operations(leaves(mindinsight, train_id, "optimize"))

    assert {node["name"].split("/")[-1] for node in kept} >= {
        node.full_name.split("/")[-1] for node in graph.nodes
    }


def test_every_scope_can_be_opened_and_every_leaf_found(
    mindinsight: MindInsight, run: tuple[str, Graph]
) -> None:
    train_id, graph = run
    found: set[str] = set()
    waiting = [""]
    while waiting:
        children = mindinsight.graph_nodes(train_id, waiting.pop())
        assert children
        waiting += [node["name"] for node in children if node["type"].endswith("_scope")]
        found |= {node["name"].split("/")[-1] for node in children}
    assert {node.full_name.split("/")[-1] for node in graph.nodes} <= found

    for node in graph.nodes[:40]:
        leaf = node.full_name.split("/")[-1]
        query = {"train_id": train_id, "search": leaf, "offset": 0, "limit": 1000}
        assert leaf in str(mindinsight.get("datavisual/graphs/nodes/names", query))


@pytest.mark.parametrize(
    "run",
    [
        name if name in _DRAWN_ALWAYS else pytest.param(name, marks=pytest.mark.long)
        for name in _DRAWN
    ],
    indirect=True,
)
def test_chromium_draws_the_root_and_opened_scopes(
    browser: Browser, run: tuple[str, Graph]
) -> None:
    train_id, graph = run
    browser.open("graph", train_id)

    opened = open_scopes(browser, 4)

    scopes = {node.scope.split("/")[0] for node in graph.nodes if node.scope}
    assert bool(opened) == bool(scopes)
    assert browser.errors() == []
    assert browser.placeholders() == []


# The page gives an open scope's group the suffix _unfold, and opens a closed one on a double click.
_CLOSED = """
return [...document.querySelectorAll('#graph svg g.node')].map(node => node.id).filter(name => name)
  .filter(name => !name.endsWith('_unfold')
    && [...document.getElementById(name).classList].some(kind => kind === 'cluster' || kind === 'aggregation'));
"""
# For a second after a click the page opens that node alone; which one it is it notes 10 ms later.
_DOUBLE_CLICK = """
const shape = document.getElementById(arguments[0]).querySelector('polygon, path, ellipse, rect');
const send = kind => shape.dispatchEvent(new MouseEvent(kind, {bubbles: true, cancelable: true, view: window}));
['mousedown', 'mouseup', 'click'].forEach(send);
setTimeout(() => send('dblclick'), 20);
"""


def open_scopes(browser: Browser, depth: int) -> list[str]:
    """Open the first closed scope, then the first closed one that is drawn then, and so on; returns
    their names.
    """
    opened: list[str] = []
    while len(opened) < depth and (closed := browser.driver.execute_script(_CLOSED)):
        inside = [name for name in closed if opened and name.startswith(f"{opened[-1]}/")]
        opened.append((inside or closed)[0])
        browser.driver.execute_script(_DOUBLE_CLICK, opened[-1])  # the pointer may not reach it
        browser.wait_drawn(f'#graph svg g.node[id="{opened[-1]}_unfold"]')
    return opened
