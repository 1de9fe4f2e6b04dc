from __future__ import annotations

from typing import Any

from mindsummary_lightning.viewer.graph_view.node_search import hits, tree_of
from mindsummary_lightning.viewer.graph_view.node_table import NodeTable, ViewNode


def table(*names: str) -> NodeTable:
    return {
        name: ViewNode(name, "name_scope" if name[0].islower() else "Add", name.rpartition("/")[0]) for name in names
    }


def found(text: str, *names: str) -> list[str]:
    return [node.name for node in hits(table(*names), text)]


def outline(nodes: list[dict[str, Any]]) -> dict[str, Any]:
    return {node["name"]: outline(node["nodes"]) for node in nodes}


def test_a_text_is_found_in_the_last_part_of_a_name_whatever_its_case() -> None:
    assert found("CONV", "net/conv1", "net/Conv2D-op1", "conv/relu") == ["net/conv1", "net/Conv2D-op1"]


def test_a_text_may_reach_into_the_last_part() -> None:
    assert found("net/co", "net/conv", "net/conv/x", "other/conv") == ["net/conv"]


def test_neither_an_empty_text_nor_a_slash_is_found() -> None:
    assert found("", "a/b") == found("/", "a/b") == []


def test_hits_are_listed_below_the_scopes_that_hold_them() -> None:
    nodes = table("net", "net/a", "net/b")

    assert outline(tree_of([nodes["net/a"], nodes["net/b"]], nodes)) == {"net": {"net/a": {}, "net/b": {}}}


def test_a_scope_that_is_a_hit_itself_replaces_earlier_hits_below_it() -> None:
    nodes = table("net/a", "net")

    assert outline(tree_of(nodes.values(), nodes)) == {"net": {}}


def test_a_scope_shows_whether_the_hit_that_brought_it_in_is_dynamic() -> None:
    nodes = table("net", "net/a", "net/b")
    nodes["net/a"].is_dynamic = True

    (scope,) = tree_of([nodes["net/a"], nodes["net/b"]], nodes)

    assert (scope["type"], scope["is_dynamic_shape_node"]) == ("name_scope", True)
