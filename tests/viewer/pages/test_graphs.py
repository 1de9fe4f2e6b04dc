from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mindsummary_lightning.fileformat._proto import anf_ir_pb2
from mindsummary_lightning.fileformat.graph_codec import encode_graph
from mindsummary_lightning.values import Event, Graph, GraphInput, GraphNode
from tests.reading.runs import record, values_at, write_summary
from tests.viewer.pages.site import Site

P = "datavisual/graphs"


def chain(*op_types: str, scope: str = "Default/net") -> Graph:
    nodes = [
        GraphNode(
            str(number),
            op_type,
            scope,
            f"{scope}/{op_type}-op{number}",
            (GraphInput(str(number - 1)),),
        )
        for number, op_type in enumerate(op_types, 1)
    ]
    return Graph(tuple(nodes))


def event(graph: Graph) -> bytes:
    return record(Event(1.0, 0, graph))


def model(graph: Graph) -> bytes:
    return anf_ir_pb2.ModelProto(
        graph=anf_ir_pb2.GraphProto.FromString(encode_graph(graph))
    ).SerializeToString()


def names(nodes: list[dict[str, Any]]) -> list[str]:
    return [node["name"] for node in nodes]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """``./run`` with a graph of two operations, ``./plain`` without one."""
    write_summary(tmp_path / "run", [event(chain("Conv2D", "ReLU")), values_at(1, {"loss": 1.0})])
    write_summary(tmp_path / "plain", [values_at(1, {"loss": 1.0})])
    return Site(tmp_path)


def test_scopes_open_one_by_one(site: Site) -> None:
    assert names(site.get(f"{P}/nodes?train_id=./run")["nodes"]) == ["Default"]
    assert names(site.get(f"{P}/nodes?train_id=./run&name=Default")["nodes"]) == ["Default/net"]
    leaf = "Default/net/Conv2D-op1"
    assert names(site.get(f"{P}/nodes?train_id=./run&name=Default/net")["nodes"]) == [
        leaf,
        "Default/net/ReLU-op2",
    ]
    assert site.get(f"{P}/nodes?train_id=./run&name={leaf}") == {"nodes": []}


def test_all_leaves_come_at_once(site: Site) -> None:
    leaves = ["Default/net/Conv2D-op1", "Default/net/ReLU-op2"]

    assert names(site.get(f"{P}/nodes/all?train_id=./run")["all_nodes_detail"]) == leaves
    assert (
        names(
            site.get(f"{P}/nodes/all?train_id=./run&mode=optimize&name=Default")["all_nodes_detail"]
        )
        == leaves
    )


def test_the_way_to_a_node_shows_every_scope_on_it(site: Site) -> None:
    shown = site.get(f"{P}/single-node?train_id=./run&name=Default/net/ReLU-op2")

    assert names(shown["nodes"]) == ["Default"]
    assert shown["children"]["scope_name"] == "Default"
    assert names(shown["children"]["children"]["nodes"]) == [
        "Default/net/Conv2D-op1",
        "Default/net/ReLU-op2",
    ]
    assert shown["children"]["children"]["children"] == {}


def test_a_search_is_paged(site: Site) -> None:
    def found(page: int) -> Any:
        (scope,) = site.get(f"{P}/nodes/names?train_id=./run&search=-op&limit=1&offset={page}")[
            "nodes"
        ]
        return names(scope["nodes"][0]["nodes"])

    assert (found(0), found(1)) == (["Default/net/Conv2D-op1"], ["Default/net/ReLU-op2"])


def test_a_model_file_is_a_graph_of_its_own_and_the_first_name_is_shown_by_default(
    tmp_path: Path,
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "a.pb").write_bytes(model(chain("Add")))
    (tmp_path / "run" / "b.pb").write_bytes(model(chain("Mul")))
    site = Site(tmp_path)

    def leaf(query: str) -> str:
        (node,) = site.get(f"{P}/nodes/all?train_id=./run{query}")["all_nodes_detail"]
        return str(node["type"])

    assert (leaf(""), leaf("&tag=b.pb"), leaf("&tag=a.pb")) == ("Add", "Mul", "Add")


def test_the_optimized_graph_is_another_view_under_a_name_of_its_own(site: Site) -> None:
    write_summary(
        Path(site.runs.base_dir) / "run",
        [event(chain("Conv2D", "Load", "ReLU")), event(chain("Add", scope="Gradients/net"))][:1],
        second=1_700_000_001,
    )

    def leaves(query: str) -> list[str]:
        found = site.get(f"{P}/nodes/all?train_id=./run{query}")["all_nodes_detail"]
        return [node["type"] for node in found]

    (graph,) = site.get("datavisual/plugins?train_id=./run")["plugins"]["graph"]
    (optimized,) = site.get("datavisual/plugins?train_id=./run")["plugins"]["optimized_graph"]
    for query in ("", "&mode=normal", f"&tag={graph}"):
        assert leaves(query) == ["Conv2D", "Load", "ReLU"]
    for query in ("&mode=optimize", f"&mode=optimize&tag={optimized}"):
        assert leaves(query) == ["Conv2D", "ReLU"]
    for query in (f"&tag={optimized}", f"&mode=optimize&tag={graph}"):
        assert site.get(f"{P}/nodes?train_id=./run{query}") == (400, "5054500C")


def test_a_search_for_nothing_finds_nothing(site: Site) -> None:
    assert site.get(f"{P}/nodes/names?train_id=./run") == {"nodes": []}


def test_a_later_graph_of_a_growing_run_is_shown(tmp_path: Path) -> None:
    path = write_summary(tmp_path / "run", [event(chain("Add"))])
    site = Site(tmp_path)
    before = site.get(f"{P}/nodes/all?train_id=./run")["all_nodes_detail"]

    with open(path, "ab") as file:
        file.write(event(chain("Mul", "ReLU")))

    assert names(before) == ["Default/net/Add-op1"]
    after = site.get(f"{P}/nodes/all?train_id=./run")["all_nodes_detail"]
    assert names(after) == ["Default/net/Mul-op1", "Default/net/ReLU-op2"]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("train_id=./run&mode=bad", "50540002"),
        ("mode=normal", "50540003"),
        ("train_id=./nothing", "50545005"),
        ("train_id=./plain", "5054500C"),
        ("train_id=./run&tag=zz", "5054500C"),
        ("train_id=./run&tag=", "5054500C"),
        ("train_id=./run&name=zz", "50545009"),
    ],
)
@pytest.mark.parametrize("path", ["nodes", "nodes/all", "single-node"])
def test_a_request_for_what_is_not_there_is_refused(
    site: Site, path: str, query: str, code: str
) -> None:
    assert site.get(f"{P}/{path}?{query}") == (400, code)


@pytest.mark.parametrize(
    ("query", "code"),
    [("limit=0", "50540002"), ("limit=1001", "50540002"), ("offset=x", "50540001")],
)
def test_a_search_with_a_wrong_page_is_refused(site: Site, query: str, code: str) -> None:
    assert site.get(f"{P}/nodes/names?train_id=./run&search=a&{query}") == (400, code)


@pytest.mark.parametrize("content", [b"", b"\xff" * 20], ids=["empty", "damaged"])
def test_a_model_file_without_a_graph_is_no_graph(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "model.pb").write_bytes(content)

    assert Site(tmp_path).get(f"{P}/nodes?train_id=./run") == (400, "5054500C")


def test_a_graph_without_nodes_is_no_graph(tmp_path: Path) -> None:
    write_summary(tmp_path / "run", [record(Event(1.0, 0, Graph(())))])

    assert Site(tmp_path).get(f"{P}/nodes?train_id=./run") == (400, "5054500C")


@pytest.mark.slow
def test_a_node_below_ten_thousand_scopes_is_refused_where_the_answer_would_nest_as_deep(
    tmp_path: Path,
) -> None:
    scope = "/".join(["s"] * 10_000)
    write_summary(tmp_path / "run", [event(chain("Add", scope=scope))])
    site = Site(tmp_path)

    assert site.get(f"{P}/single-node?train_id=./run&name={scope}/Add-op1") == (400, "50545009")
    assert site.get(f"{P}/nodes/names?train_id=./run&search=add") == {"nodes": []}
    assert len(site.get(f"{P}/nodes?train_id=./run&name={scope}")["nodes"]) == 1


def test_the_deepest_nesting_that_is_answered_can_be_encoded(tmp_path: Path) -> None:
    scope = "/".join(["s"] * 250)
    write_summary(tmp_path / "run", [event(chain("Add", scope=scope))])
    site = Site(tmp_path)

    assert site.get(f"{P}/single-node?train_id=./run&name={scope}/Add-op1")["scope_name"] == ""
    assert site.get(f"{P}/nodes/names?train_id=./run&search=add")["nodes"][0]["name"] == "s"
