from __future__ import annotations

from typing import Any

import pytest

from mindsummary_lightning.values import (
    Attribute,
    DataType,
    Graph,
    GraphConstant,
    GraphInput,
    GraphNode,
    GraphParameter,
    GraphTexts,
    TensorType,
    TupleType,
)
from mindsummary_lightning.values.graph_nodes import GraphType
from mindsummary_lightning.viewer.graph_view.layout import (
    GraphView,
    hits,
    normal_view,
    optimized_view,
    tree_of,
)
from mindsummary_lightning.viewer.graph_view.node_table import NodeTable, ViewNode

MATRIX = TensorType(DataType.FLOAT32, (2, 3))


def operation(
    number: int,
    op_type: str,
    scope: str,
    *inputs: str,
    output: GraphType | None = MATRIX,
    **more: Any,
) -> GraphNode:
    full_name = f"{scope}/{op_type}-op{number}" if scope else f"{op_type}-op{number}"
    edges = tuple(GraphInput(name) for name in inputs)
    return GraphNode(str(number), op_type, scope, full_name, edges, output_type=output, **more)


def view(*nodes: GraphNode, optimized: bool = False, **more: Any) -> GraphView:
    constants = more.get("constants", ())
    texts = GraphTexts(
        tuple({entry.name: str(entry.value) for entry in node.attributes} for node in nodes),
        {constant.name: "dtype: DT_INT64\nint_val: 3\n" for constant in constants},
    )
    return (optimized_view if optimized else normal_view)(Graph(nodes, **more), texts)


def shown(view: GraphView, name: str) -> dict[str, Any]:
    (node,) = [node for node in view.children(name.rpartition("/")[0]) if node["name"] == name]
    return node


def names(nodes: list[dict[str, Any]]) -> list[str]:
    return [node["name"] for node in nodes]


def test_an_edge_carries_the_type_of_its_source() -> None:
    found = view(operation(1, "Conv2D", "Default/net"), operation(2, "ReLU", "Default/net", "1"))

    edge = {
        "data_type": "DT_TENSOR[DT_FLOAT32]",
        "edge_type": "data",
        "independent_layout": False,
        "shape": [[2, 3]],
    }
    assert shown(found, "Default/net/ReLU-op2")["input"] == {"Default/net/Conv2D-op1": edge}
    assert shown(found, "Default/net/Conv2D-op1")["output"] == {"Default/net/ReLU-op2": edge}


@pytest.mark.parametrize(
    ("output", "text", "shape"),
    [
        (
            TupleType((MATRIX, DataType.INT64)),
            "DT_TUPLE['DT_TENSOR[DT_FLOAT32]', 'DT_INT64']",
            [[2, 3], []],
        ),
        (TupleType((MATRIX,), is_list=True), "DT_LIST", [[]]),
        (DataType.INT64, "DT_INT64", [[]]),
        (None, "DT_UNDEFINED", []),
        (TensorType(DataType.BFLOAT16, (4,)), "DT_TENSOR[DT_BFLOAT16]", [[4]]),
    ],
    ids=str,
)
def test_types_are_shown_as_mindinsight_spells_them(
    output: GraphType | None, text: str, shape: list[Any]
) -> None:
    found = view(operation(1, "Split", "", output=output), operation(2, "ReLU", "", "1"))

    (edge,) = shown(found, "ReLU-op2")["input"].values()
    assert (edge["data_type"], edge["shape"]) == (text, shape)


def test_a_node_without_a_full_name_is_named_after_its_scope_type_and_id() -> None:
    found = view(GraphNode("Default/net/Add-op17", "Add", "Default/net"))

    assert names(found.children("Default/net")) == ["Default/net/Add-op17"]


def test_operations_that_record_a_summary_do_not_share_a_name() -> None:
    nodes = [
        GraphNode(str(number), "ScalarSummary", "Default", "Default/loss[:Scalar]")
        for number in (1, 2)
    ]

    assert names(view(*nodes).children("Default")) == [
        "Default/ScalarSummary-op1",
        "Default/ScalarSummary-op2",
    ]


def test_names_that_break_the_drawing_are_shown_in_other_brackets() -> None:
    node = GraphNode(
        "1", "Add", "Default/<lambda>", 'Default/<lambda>/"Add"-op1', (GraphInput("<w>"),)
    )
    found = view(node, parameters=(GraphParameter("<w>", MATRIX),))

    assert names(found.leaves("")) == ["Default/(lambda)/'Add'-op1", "Default/(lambda)/(w)"]


def test_inputs_that_name_nothing_are_dropped_and_a_path_names_the_id_behind_it() -> None:
    found = view(operation(1, "Add", ""), operation(2, "ReLU", "", "77", "Default/x/Add-op1", ""))

    assert list(shown(found, "ReLU-op2")["input"]) == ["Add-op1"]


def test_each_scope_has_a_copy_of_a_parameter_and_an_unused_one_vanishes() -> None:
    found = view(
        operation(1, "Conv2D", "Default/a", "w"),
        operation(2, "Conv2D", "Default/b", "w"),
        operation(3, "ReLU", "Default/b", "w"),
        parameters=(GraphParameter("w", MATRIX), GraphParameter("unused", MATRIX)),
    )

    assert names(found.leaves("")) == [
        *("Default/a/Conv2D-op1", "Default/a/w"),
        *("Default/b/Conv2D-op2", "Default/b/ReLU-op3", "Default/b/w"),
    ]
    copy = shown(found, "Default/b/w")
    assert list(copy["output"]) == ["Default/b/Conv2D-op2", "Default/b/ReLU-op3"]
    assert copy["attr"] == {"type": "DT_TENSOR[DT_FLOAT32]", "shape": "[[2, 3]]"}


def test_constants_are_copied_but_neither_grouped_nor_on_the_edges_of_scopes() -> None:
    nodes = [operation(number, f"Type{number}", "Default", f"c{number}") for number in range(1, 6)]
    found = view(*nodes, constants=tuple(GraphConstant(f"c{number}", 3) for number in range(1, 6)))

    assert len(found.children("Default")) == 10
    assert shown(found, "Default")["input"] == {}
    assert shown(found, "Default")["subnode_count"] == 10
    (edge,) = shown(found, "Default/Type1-op1")["input"].values()
    assert (edge["data_type"], edge["shape"]) == ("", [[]])


def test_five_alike_nodes_of_a_scope_are_grouped_and_four_are_not() -> None:
    nodes = [operation(number, "Add", "Default", str(number - 1)) for number in range(1, 6)]
    nodes += [operation(number, "Mul", "Default", str(number - 1)) for number in range(6, 10)]
    found = view(*nodes)

    group = "Default/Add[5]_0"
    assert names(found.children("Default")) == [
        *(f"Default/Mul-op{number}" for number in range(6, 10)),
        group,
    ]
    assert names(found.children(group)) == [f"{group}/Add-op{number}" for number in range(1, 6)]
    assert shown(found, group)["output"].keys() == {"Default/Mul-op6"}
    assert shown(found, group)["subnode_count"] == 5
    assert shown(found, "Default/Mul-op6")["input"].keys() == {f"{group}/Add-op5"}


def test_a_group_of_parameters_is_laid_out_apart_with_proxies_to_its_consumers() -> None:
    parameters = tuple(GraphParameter(f"w{number}", MATRIX) for number in range(5))
    consumer = operation(1, "Concat", "Default", *(parameter.name for parameter in parameters))
    found = view(consumer, parameters=parameters)

    group = shown(found, "Default/Parameter[5]_0")
    assert group["independent_layout"]
    assert group["proxy_output"] == {"Default/Concat-op1": {"edge_type": "data"}}
    concat = shown(found, "Default/Concat-op1")
    assert concat["proxy_input"] == {"Default/Parameter[5]_0": {"edge_type": "data"}}
    assert all(edge["independent_layout"] for edge in concat["input"].values())
    member = shown(found, "Default/Parameter[5]_0/w0")
    assert not member["output"]["Default/Concat-op1"]["independent_layout"]


def test_a_group_of_parameters_is_joined_to_the_group_that_holds_a_consumer() -> None:
    parameters = tuple(GraphParameter(f"w{number}", MATRIX) for number in range(5))
    found = view(
        *(operation(n + 1, "Conv2D", "Default", f"w{n}") for n in range(5)), parameters=parameters
    )

    weights, convolutions = "Default/Parameter[5]_1", "Default/Conv2D[5]_0"
    assert shown(found, weights)["proxy_output"].keys() == {convolutions}
    assert shown(found, convolutions)["proxy_input"].keys() == {weights}
    assert shown(found, f"{weights}/w0")["proxy_output"].keys() == {convolutions}


def test_a_scope_inherits_the_edges_that_cross_its_border() -> None:
    found = view(
        operation(1, "Conv2D", "Default/a"),
        operation(2, "ReLU", "Default/a", "1"),
        operation(3, "Add", "Default/b/c", "2"),
    )

    assert shown(found, "Default/a")["output"].keys() == {"Default/b/c/Add-op3"}
    assert shown(found, "Default/a")["input"] == {}
    assert shown(found, "Default/b")["input"].keys() == {"Default/a/ReLU-op2"}
    assert shown(found, "Default/b/c")["input"].keys() == {"Default/a/ReLU-op2"}
    assert shown(found, "Default")["input"] == {}


def test_a_node_named_like_a_scope_gets_parentheses_and_loses_no_edge() -> None:
    found = view(
        GraphNode("1", "Conv2D", "Default", "Default/conv", output_type=MATRIX),
        operation(2, "ReLU", "Default/conv", "1"),
    )

    assert names(found.children("Default")) == ["Default/(conv)", "Default/conv"]
    assert shown(found, "Default/conv")["input"].keys() == {"Default/(conv)"}


def test_a_length_that_is_unknown_makes_a_node_and_its_scopes_dynamic() -> None:
    found = view(
        operation(1, "Gather", "Default/a", output=TensorType(DataType.INT32, (-1, 4))),
        operation(2, "ReLU", "Default/b", "1"),
        operation(3, "Add", "Default/c"),
        GraphNode("4", "Pad", "Default/d", attributes=(Attribute("input_is_dynamic_shape", True),)),
    )

    dynamic = [node["name"] for node in found.leaves("") if node["is_dynamic_shape_node"]]
    assert dynamic == ["Default/a/Gather-op1", "Default/b/ReLU-op2", "Default/d/Pad-op4"]
    assert shown(found, "Default/b")["is_dynamic_shape_node"]
    assert not shown(found, "Default/c")["is_dynamic_shape_node"]


def test_the_optimized_view_omits_gradients_and_optimizers() -> None:
    nodes = (
        operation(1, "Add", "Default/net"),
        operation(2, "ReLU", "Default/net", "1"),
        operation(3, "AddGrad", "Gradients/net", "2"),
        operation(4, "Momentum", "Default/optimizer-Momentum", "2"),
        operation(5, "Cast", "Default/net", "2", instance_name="opt"),
    )

    assert names(view(*nodes, optimized=True).leaves("")) == [
        "Default/net/Add-op1",
        "Default/net/ReLU-op2",
    ]
    assert len(view(*nodes).leaves("")) == 5


def test_the_optimized_view_joins_what_bookkeeping_operations_joined() -> None:
    found = view(
        operation(1, "Add", "Default"),
        operation(2, "Load", "Default", "w"),
        operation(3, "MakeTuple", "Default", "1", "2"),
        operation(4, "TupleGetItem", "Default", "3"),
        operation(5, "ReLU", "Default", "4"),
        operation(6, "Load", "Default"),
        parameters=(GraphParameter("w", MATRIX),),
        optimized=True,
    )

    assert names(found.leaves("")) == ["Default/Add-op1", "Default/ReLU-op5", "Default/w"]
    assert shown(found, "Default/ReLU-op5")["input"].keys() == {"Default/Add-op1", "Default/w"}
    assert shown(found, "Default/Add-op1")["output"].keys() == {"Default/ReLU-op5"}


def test_the_optimized_view_dissolves_a_scope_named_after_its_only_type() -> None:
    nodes = [
        operation(number, "ReLU", "Default/net/relu-ReLU", str(number - 1)) for number in (1, 2, 3)
    ]
    found = view(*nodes, operation(4, "Add", "Default/net", "3"), optimized=True)

    relus = [f"Default/net/ReLU-op{number}" for number in (1, 2, 3)]
    assert names(found.children("Default/net")) == ["Default/net/Add-op4", *relus]


def test_the_optimized_view_keeps_a_scope_with_one_operation() -> None:
    found = view(
        operation(1, "Add", "Default/net"),
        operation(2, "ReLU", "Default/net/relu-ReLU", "1"),
        optimized=True,
    )

    assert names(found.children("Default/net/relu-ReLU")) == ["Default/net/relu-ReLU/ReLU-op2"]


def test_the_optimized_view_groups_ten_alike_nodes_and_not_nine() -> None:
    def groups(count: int) -> list[str]:
        nodes = [
            operation(number, "Add", "Default", str(number - 1)) for number in range(1, count + 1)
        ]
        children = view(*nodes, optimized=True).children("Default")
        return [node["name"] for node in children if node["type"] == "aggregation_scope"]

    assert (groups(9), groups(10)) == ([], ["Default/Add[10]_0"])


def test_levels_lead_from_the_root_to_the_scope_that_holds_a_node() -> None:
    found = view(operation(1, "Add", "Default/a/b"), operation(2, "Add", "Default/c"))

    levels = found.levels("Default/a/b/Add-op1")

    assert [level["scope_name"] for level in levels] == ["", "Default", "Default/a", "Default/a/b"]
    assert names(levels[1]["nodes"]) == ["Default/a", "Default/c"]


@pytest.mark.slow
def test_ten_thousand_nested_scopes_are_shown_without_recursion() -> None:
    scope = "/".join(["s"] * 10_000)
    found = view(operation(1, "Add", scope), operation(2, "ReLU", scope, "1"))

    assert names(found.leaves("")) == [f"{scope}/Add-op1", f"{scope}/ReLU-op2"]
    assert names(found.children(scope)) == names(found.leaves(""))


def table(*names: str) -> NodeTable:
    return {
        name: ViewNode(name, "name_scope" if name[0].islower() else "Add", name.rpartition("/")[0])
        for name in names
    }


def found_names(text: str, *names: str) -> list[str]:
    return [node.name for node in hits(table(*names), text)]


def outline(nodes: list[dict[str, Any]]) -> dict[str, Any]:
    return {node["name"]: outline(node["nodes"]) for node in nodes}


def test_a_text_is_found_in_the_last_part_of_a_name_whatever_its_case() -> None:
    assert found_names("CONV", "net/conv1", "net/Conv2D-op1", "conv/relu") == [
        "net/conv1",
        "net/Conv2D-op1",
    ]


def test_a_text_may_reach_into_the_last_part() -> None:
    assert found_names("net/co", "net/conv", "net/conv/x", "other/conv") == ["net/conv"]


def test_neither_an_empty_text_nor_a_slash_is_found() -> None:
    assert found_names("", "a/b") == found_names("/", "a/b") == []


def test_hits_are_listed_below_the_scopes_that_hold_them() -> None:
    nodes = table("net", "net/a", "net/b")

    assert outline(tree_of([nodes["net/a"], nodes["net/b"]], nodes)) == {
        "net": {"net/a": {}, "net/b": {}}
    }


def test_a_scope_that_is_a_hit_itself_replaces_earlier_hits_below_it() -> None:
    nodes = table("net/a", "net")

    assert outline(tree_of(nodes.values(), nodes)) == {"net": {}}


def test_a_scope_shows_whether_the_hit_that_brought_it_in_is_dynamic() -> None:
    nodes = table("net", "net/a", "net/b")
    nodes["net/a"].is_dynamic = True

    (scope,) = tree_of([nodes["net/a"], nodes["net/b"]], nodes)

    assert (scope["type"], scope["is_dynamic_shape_node"]) == ("name_scope", True)
