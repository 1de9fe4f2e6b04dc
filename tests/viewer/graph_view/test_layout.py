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
        (DataType.TENSOR, "DT_TENSOR[DT_UNDEFINED]", []),
        (DataType.TUPLE, "DT_TUPLE[]", []),
        (DataType.REF, "DT_REF", [[]]),
        (DataType.COMPLEX64, "DT_UNDEFINED", []),  # the first that MindSpore added later
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


def test_a_node_shows_what_was_recorded_of_its_operation() -> None:
    more = {"attributes": (Attribute("group", 2), Attribute("pad_mode", "same"))}
    found = view(operation(1, "Conv2D", "Default/net", output_i=3, **more))

    assert shown(found, "Default/net/Conv2D-op1") == {
        "attr": {"group": "2", "pad_mode": "same"},
        "independent_layout": False,
        "input": {},
        "is_dynamic_shape_node": False,
        "name": "Default/net/Conv2D-op1",
        "output": {},
        "output_i": 3,
        "proxy_input": {},
        "proxy_output": {},
        "stack_info": [],
        "subnode_count": 0,
        "type": "Conv2D",
    }


def test_an_edge_that_only_orders_is_a_control_edge() -> None:
    inputs = (GraphInput("1"), GraphInput("2", is_control=True))
    found = view(
        operation(1, "Add", ""), operation(2, "Mul", ""), GraphNode("3", "ReLU", inputs=inputs)
    )

    edges = shown(found, "ReLU-op3")["input"]
    assert {source: edge["edge_type"] for source, edge in edges.items()} == {
        "Add-op1": "data",
        "Mul-op2": "control",
    }


def test_a_node_without_a_full_name_is_named_after_its_scope_type_and_id() -> None:
    found = view(GraphNode("Default/net/Add-op17", "Add", "Default/net"), GraphNode("op3", "Mul"))

    assert names(found.children("Default/net")) == ["Default/net/Add-op17"]
    assert names(found.children("")) == ["Mul-op3", "Default"]


def test_a_name_that_begins_with_a_slash_makes_no_scope_without_a_name() -> None:
    found = view(GraphNode("1", "Add", "", "/Add-op1"))

    assert names(found.children("")) == ["/Add-op1"]


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
    found = view(
        operation(1, "Add", ""),
        operation(2, "ReLU", "", "77", "Default/x/Add-op1", ""),
        constants=(GraphConstant("", 3),),
        parameters=(GraphParameter("", MATRIX),),
    )

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
    edge = {
        "data_type": "DT_TENSOR[DT_FLOAT32]",
        "edge_type": "data",
        "independent_layout": False,
        "shape": [[2, 3]],
    }
    assert shown(found, "Default/b/w") == {
        "attr": {"type": "DT_TENSOR[DT_FLOAT32]", "shape": "[[2, 3]]"},
        "independent_layout": False,
        "input": {},
        "is_dynamic_shape_node": False,
        "name": "Default/b/w",
        "output": {"Default/b/Conv2D-op2": edge, "Default/b/ReLU-op3": edge},
        "output_i": 0,
        "proxy_input": {},
        "proxy_output": {},
        "stack_info": [],
        "subnode_count": 0,
        "type": "Parameter",
    }
    assert shown(found, "Default/b/ReLU-op3")["input"] == {"Default/b/w": edge}


def test_at_the_root_a_copy_of_a_parameter_keeps_its_name() -> None:
    found = view(
        operation(1, "Conv2D", "Default", "w"),
        operation(2, "ReLU", "", "w", "v"),
        parameters=(GraphParameter("v", MATRIX), GraphParameter("w", MATRIX)),
    )

    assert names(found.children("")) == ["ReLU-op2", "v", "w", "Default"]
    assert shown(found, "w")["output"].keys() == {"ReLU-op2"}


def test_constants_are_copied_but_neither_grouped_nor_on_the_edges_of_scopes() -> None:
    nodes = [operation(number, f"Type{number}", "Default", f"c{number}") for number in range(1, 6)]
    found = view(*nodes, constants=tuple(GraphConstant(f"c{number}", 3) for number in range(1, 6)))

    assert len(found.children("Default")) == 10
    assert shown(found, "Default")["input"] == {}
    assert shown(found, "Default")["subnode_count"] == 10
    (edge,) = shown(found, "Default/Type1-op1")["input"].values()
    assert (edge["data_type"], edge["shape"]) == ("", [[]])


@pytest.mark.parametrize(
    ("kind", "value", "shape"),
    [
        ("DT_TENSOR", TensorType(DataType.FLOAT32, (4, 5)), [[4, 5]]),
        ("DT_TENSOR", None, [[]]),
        ("DT_TYPE", TensorType(DataType.FLOAT32, (4, 5)), [[]]),
        ("DT_INT64", 3, [[]]),
    ],
    ids=["a tensor", "an empty tensor", "a type", "a number"],
)
def test_only_a_constant_tensor_has_a_shape(kind: str, value: Any, shape: list[Any]) -> None:
    graph = Graph((operation(1, "Add", "", "c"),), constants=(GraphConstant("c", value),))
    text = f"dtype: {kind}\nint_val: 3\n"

    found = normal_view(graph, GraphTexts(({},), {"c": text}))

    assert shown(found, "c")["attr"] == {"c": text}
    assert [edge["shape"] for edge in shown(found, "Add-op1")["input"].values()] == [shape]


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
    shown_group = shown(found, group)
    assert shown_group.pop("output").keys() == {"Default/Mul-op6"}
    assert shown_group == {
        "attr": {},
        "independent_layout": False,
        "input": {},
        "is_dynamic_shape_node": False,
        "name": group,
        "output_i": 0,
        "proxy_input": {},
        "proxy_output": {},
        "stack_info": [],
        "subnode_count": 5,
        "type": "aggregation_scope",
    }
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
    assert member["independent_layout"]
    assert member["proxy_output"] == {"Default/Concat-op1": {"edge_type": "data"}}
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


def test_a_node_named_like_the_scope_of_a_parameter_is_no_group_of_parameters() -> None:
    found = view(
        GraphNode("1", "Conv2D", "Default", "Default/conv", output_type=MATRIX),
        operation(2, "ReLU", "Default/conv", "1", "w"),
        parameters=(GraphParameter("w", MATRIX),),
    )

    for name in ("Default/(conv)", "Default/conv/w"):
        node = shown(found, name)
        assert (node["independent_layout"], node["proxy_output"]) == (False, {})


def test_a_length_that_is_unknown_makes_a_node_and_its_scopes_dynamic() -> None:
    found = view(
        operation(1, "Gather", "Default/a", output=TensorType(DataType.INT32, (-1, 4))),
        operation(2, "ReLU", "Default/b", "1"),
        operation(3, "Add", "Default/c"),
        GraphNode("4", "Pad", "Default/d", attributes=(Attribute("input_is_dynamic_shape", True),)),
        operation(5, "Sub", "Default/e", output=TensorType(DataType.INT32, (4, -2))),
        operation(6, "Div", "Default/f", "5", "3"),
        operation(7, "Neg", "Default/g", output=TensorType(DataType.INT32, (-3, 4))),
        operation(8, "Exp", "Default/h", "7", attributes=(Attribute("transpose", True),)),
    )

    dynamic = [node["name"] for node in found.leaves("") if node["is_dynamic_shape_node"]]
    assert dynamic == [
        *("Default/a/Gather-op1", "Default/b/ReLU-op2", "Default/d/Pad-op4"),
        *("Default/e/Sub-op5", "Default/f/Div-op6"),
    ]
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
        operation(7, "Print", "Default"),  # without an edge it is not shown
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


@pytest.mark.parametrize(
    ("scope", "op_types"),
    [
        ("Default/relu-ReLU", ["ReLU"]),
        ("Default/relu-ReLU", ["ReLU", "Add"]),
        ("Default/block", ["ReLU", "ReLU"]),
        ("ReLU", ["ReLU", "ReLU"]),
    ],
    ids=["one operation", "two types", "another name", "not nested"],
)
def test_the_optimized_view_keeps_any_other_scope(scope: str, op_types: list[str]) -> None:
    nodes = [operation(at, op_type, scope, str(at - 1)) for at, op_type in enumerate(op_types, 1)]
    last = operation(9, "Mul", "Default/other", str(len(nodes)))

    found = view(*nodes, last, optimized=True)

    assert names(found.children(scope)) == [node.full_name for node in nodes]


def test_the_optimized_view_keeps_a_scope_that_holds_another_one() -> None:
    scope = "Default/relu-ReLU"
    found = view(
        operation(1, "ReLU", scope),
        operation(2, "ReLU", scope, "1"),
        operation(3, "Add", f"{scope}/inner", "2"),
        operation(4, "Mul", "Default/other", "3"),
        optimized=True,
    )

    assert names(found.children(scope)) == [
        *(f"{scope}/ReLU-op1", f"{scope}/ReLU-op2"),
        f"{scope}/inner",
    ]


def test_the_optimized_view_takes_operations_in_any_order() -> None:
    found = view(
        operation(1, "ReLU", "Default/relu-ReLU", "3"),
        operation(2, "ReLU", "Default/relu-ReLU", "3", "1"),
        operation(3, "TupleGetItem", "Other/b", "4"),
        operation(4, "MakeTuple", "Other/b", "5"),
        operation(5, "Add", "Other/b"),
        optimized=True,
    )

    assert names(found.leaves("Default")) == ["Default/ReLU-op1", "Default/ReLU-op2"]


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


def test_leaves_are_listed_scope_by_scope_in_the_order_of_the_page() -> None:
    scopes = ("a/x", "b", "a/y", "c")
    found = view(*(operation(at, "Add", scope, str(at - 1)) for at, scope in enumerate(scopes, 1)))

    assert names(found.leaves("")) == ["a/x/Add-op1", "a/y/Add-op3", "b/Add-op2", "c/Add-op4"]
    assert names(found.leaves("a")) == ["a/x/Add-op1", "a/y/Add-op3"]


def test_a_search_leads_through_every_kind_of_scope_down_to_the_deepest_one_asked_for() -> None:
    adds = [operation(number, "Add", "Default", str(number - 1)) for number in range(1, 6)]
    deep = operation(6, "Add", "Default/a/b", "5", "const/ant")
    found = view(*adds, deep, constants=(GraphConstant("const/ant", 3),))

    def kinds(nodes: list[dict[str, Any]]) -> dict[str, Any]:
        return {node["name"]: (node["type"], kinds(node["nodes"])) for node in nodes}

    group = "Default/Add[5]_0"
    members = (group, ("aggregation_scope", {f"{group}/Add-op1": ("Add", {})}))
    inner = {"Default/a/b": ("name_scope", {"Default/a/b/Add-op6": ("Add", {})})}
    both = dict([("Default/a", ("name_scope", inner)), members])
    assert kinds(found.search("add-op", slice(2), 3)) == {"Default": ("name_scope", both)}
    assert kinds(found.search("add-op", slice(2), 2)) == {
        "Default": ("name_scope", dict([members]))
    }
    constant = "Default/a/b/const/ant"
    ((_, (_, below)),) = kinds(found.search("ANT", slice(10), 4)).items()
    above = {"Default/a/b/const": ("name_scope", {constant: ("Const", {})})}
    assert below == {"Default/a": ("name_scope", {"Default/a/b": ("name_scope", above)})}


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
