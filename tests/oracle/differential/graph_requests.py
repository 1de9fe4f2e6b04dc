"""Requests of the graph page: every scope, all leaves, searches, the way to nodes; right
and wrong.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from tests.oracle.differential.asking import Ask, get
from tests.oracle.differential.value_requests import UNKNOWN_RUNS, OfAllRuns, OfARun, ShownRun

PATHS = ("nodes", "nodes/all", "nodes/names", "single-node")
MODES = {"graph": "normal", "optimized_graph": "optimize"}
SEARCHES = (
    "add",
    "ADD",
    "conv",
    "Default",
    "default/",
    "parameter",
    "e",
    "op1",
    "[",
    "1]_",
    "weight",
    "/",
    "",
    "zz",
    "ö",
)
WRONG_NUMBERS = ("0", "-1", "1001", "x", "", "1.5")
MOST_NODES = 12
WITH_GRAPH = "./graph 3"  # wrong requests are asked while this run is loaded


def opened_scopes(run: ShownRun) -> Iterator[Ask]:
    for plugin, mode in MODES.items():
        for tag in run.tags[plugin]:
            yield from _of_a_view(run, mode, tag)


def _of_a_view(run: ShownRun, mode: str, tag: str) -> Iterator[Ask]:
    asked = {"train_id": run.train_id, "mode": mode, "tag": tag}
    chance = random.Random(f"{run.train_id} {tag}")
    names = run.nodes[tag]
    scopes = sorted({name.rpartition("/")[0] for name in names})
    for scope in scopes:
        yield get("datavisual/graphs/nodes", **asked, name=scope)
    yield get("datavisual/graphs/nodes", **asked)
    yield get("datavisual/graphs/nodes/all", **asked)
    some = chance.sample(names, min(MOST_NODES, len(names)))
    for name in some:
        yield get("datavisual/graphs/nodes", **asked, name=name)
        yield get("datavisual/graphs/nodes/all", **asked, name=name)
        yield get("datavisual/graphs/single-node", **asked, name=name)
        yield get(
            "datavisual/graphs/nodes/names",
            **asked,
            search=name.rpartition("/")[2],
            offset=0,
            limit=1000,
        )
        yield get("datavisual/graphs/nodes/names", **asked, search=name[: len(name) // 2])
    for search in SEARCHES:
        yield get("datavisual/graphs/nodes/names", **asked, search=search, offset=0, limit=1000)
        yield get("datavisual/graphs/nodes/names", **asked, search=search, offset=1, limit=3)
    yield get("datavisual/graphs/nodes/names", **asked)


def defaults(run: ShownRun) -> Iterator[Ask]:
    has_graph = bool(run.tags["graph"] or run.tags["optimized_graph"])
    for path in PATHS:
        path = f"datavisual/graphs/{path}"
        yield get(path, train_id=run.train_id, search="a", name="Default")
        if not has_graph:  # all others are refused for the same reason
            continue
        yield get(path, train_id=run.train_id, mode="optimize", search="a", name="Default")
        yield get(path, train_id=run.train_id)
        yield get(path, train_id=run.train_id, tag="", name="")
        yield get(path, train_id=run.train_id, tag="zz", name="Default")


def wrong_graphs(run: ShownRun) -> Iterator[Ask]:
    if run.train_id != WITH_GRAPH:
        return
    for path in PATHS:
        path = f"datavisual/graphs/{path}"
        for train_id in UNKNOWN_RUNS:
            yield get(path, train_id=train_id, name="a")
        for mode in ("", "bad", "Normal", "optimized"):
            yield get(path, train_id=run.train_id, mode=mode, name="a")
            yield get(path, train_id="./nothing", mode=mode, name="a")
        for name in ("zz", "/", "Default/", "default", "Default/zz", "../x"):
            yield get(path, train_id=run.train_id, name=name)
        yield get(path)
        yield get(path, tag="x")
    for wrong in WRONG_NUMBERS:
        path = "datavisual/graphs/nodes/names"
        yield get(path, train_id=run.train_id, search="a", offset=wrong)
        yield get(path, train_id=run.train_id, search="a", limit=wrong)
        yield get(path, train_id=run.train_id, search="a", limit=wrong, offset=wrong)


OF_A_RUN: tuple[OfARun, ...] = (opened_scopes, defaults, wrong_graphs)
OF_ALL_RUNS: tuple[OfAllRuns, ...] = ()
