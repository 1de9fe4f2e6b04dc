from __future__ import annotations

import random

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from mindsummary_lightning.errors import GraphCaptureError
from mindsummary_lightning.graph import graph_builder
from mindsummary_lightning.graph.capture import capture_example
from mindsummary_lightning.graph.graph_builder import _MAX_SCOPE_DEPTH, GraphBuilder
from mindsummary_lightning.graph.node_details import attribute_value
from mindsummary_lightning.values import DataType, TensorType
from tests.graph.models import AwkwardNames
from tests.graph.random_networks import random_network
from tests.graph.reader_rules import attribute_size, broken_rules

_ANY_TEXT = st.text() | st.sampled_from(
    [
        "optimizer",
        "Parameter",
        "my_scope",
        "Const",
        "1",
        "x-op3",
        "op3",
        "Default",
        "network-Net",
        "cst1",
        "a/b",
        "",
    ]
)


@pytest.mark.slow
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_no_network_yields_a_graph_that_the_reader_drops(chance: random.Random) -> None:
    graph = capture_example(random_network(chance), torch.ones(3, 4))

    assert broken_rules(graph) == []


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.lists(st.tuples(st.lists(st.tuples(_ANY_TEXT, _ANY_TEXT), max_size=4), _ANY_TEXT, _ANY_TEXT),
             min_size=1, max_size=12)
)  # fmt: skip
def test_no_text_breaks_a_rule_of_the_reader(
    operations: list[tuple[list[tuple[str, str]], str, str]],
) -> None:
    builder = GraphBuilder()
    for path, op_type, parameter in operations:
        scope = ""
        for name, class_name in path:
            scope = builder.scope(scope, name, class_name)
        inputs = [builder.parameter(parameter, TensorType(DataType.FLOAT32)), builder.constant(1)]
        builder.node(op_type, scope, inputs)

    broken = [rule for rule in broken_rules(builder.build("Net")) if "nothing to show" not in rule]

    assert broken == []


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("0.weight", "0.weight"),
        ("12", "12_"),  # the id of a node
        ("weight-op3", "weight_op3"),
        ("a.b-op3", "a.b-op3_"),
        ("", "parameter"),
        ("x" * 121, "x" * 120),
        ("a<b>{c}", "a_b__c_"),
    ],
)
def test_a_parameter_has_no_name_of_a_node(name: str, kept: str) -> None:
    assert GraphBuilder().parameter(name, None) == kept


@pytest.mark.parametrize(
    ("op_type", "kept"),
    [
        ("relu", "relu"),
        ("my_scope", "my_scope_"),
        ("Load", "Load_"),
        ("Parameter", "Param"),
        ("Gradients", "_Gradients"),
        ("", "op"),
    ],
)
def test_an_operation_has_no_type_that_the_reader_takes_for_another(
    op_type: str, kept: str
) -> None:
    builder = GraphBuilder()
    builder.node(op_type, "", [builder.constant(1)])

    (node,) = builder.build("Net").nodes
    assert node.op_type == kept


def test_what_is_connected_to_nothing_is_not_in_the_graph() -> None:
    builder = GraphBuilder()
    used, unused = (
        builder.parameter(name, TensorType(DataType.FLOAT32)) for name in ("used", "unused")
    )
    builder.constant(1)
    builder.node("zeros", "", [])
    builder.output(builder.node("relu", "", [used]), None)
    builder.output(unused, None)

    graph = builder.build("Net")

    assert [node.op_type for node in graph.nodes] == ["relu"]
    assert [parameter.name for parameter in graph.parameters] == ["used"]
    assert [output.name for output in graph.outputs] == [graph.nodes[0].name]
    assert graph.constants == ()


def test_a_graph_that_mindinsight_would_not_load_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(graph_builder, "MAX_NODES", 2)
    layers = [nn.Linear(4, 4) for _ in range(3)]

    assert len(capture_example(nn.Sequential(*layers[:2]), torch.ones(1, 4)).nodes) == 2
    with pytest.raises(GraphCaptureError, match="more than 2 operations"):
        capture_example(nn.Sequential(*layers), torch.ones(1, 4))


def test_modules_whose_names_become_alike_keep_scopes_of_their_own() -> None:
    builder = GraphBuilder()

    scopes = [builder.scope("", name, "Linear") for name in ("a<b", "a>b", "a|b")]

    assert scopes == ["a_b-Linear", "a_b-Linear_2", "a_b-Linear_3"]
    assert builder.scope(scopes[1], "", "") == "a_b-Linear_2/module-Module"


@pytest.mark.parametrize(
    ("name", "class_name", "scope"),
    [
        ("a.b", "Net", "a_b-Net"),
        ("Gradients", "Net", "_Gradients-Net"),
        ("my_optimizer", "Net", "my_Optimizer-Net"),
        ("x", "op3", "x-op3_"),
        ("x", "op3a", "x-op3a"),
    ],
)
def test_a_scope_has_no_name_that_the_reader_takes_for_another(
    name: str, class_name: str, scope: str
) -> None:
    assert GraphBuilder().scope("", name, class_name) == scope


def test_constants_and_parameters_share_their_names_with_no_other() -> None:
    builder = GraphBuilder()
    names = [builder.parameter("cst1", None), builder.constant(1), builder.constant(1)]

    assert names == ["cst1", "cst1_2", "cst2"]


def test_scopes_deeper_than_the_reader_can_walk_are_folded() -> None:
    builder = GraphBuilder()
    scope = ""
    for _ in range(500):
        scope = builder.scope(scope, "inner", "Net")

    assert scope.count("/") == _MAX_SCOPE_DEPTH
    assert builder.scope(scope, "other", "Net") == scope


def test_modules_keep_the_names_that_are_harmless() -> None:
    graph = capture_example(AwkwardNames(), torch.ones(2, 4))

    scopes = {node.scope.split("/")[-1] for node in graph.nodes}
    assert {"dropout-Linear", "opt-Linear", "größe-Linear", "图层-Linear"} <= scopes
    # in lower case the optimized view would drop its operations
    assert "Optimizer-Linear" in scopes
    assert "parts.optimizer.weight" in {parameter.name for parameter in graph.parameters}


@pytest.mark.parametrize(
    "value",
    [
        "x" * 5000, list(range(5000)), [[1.5] * 30] * 30, 2**70, {"a": 1}, object(),
        torch.float8_e5m2, [[[[[[1]]]]]],
        "\ud800", torch.zeros(3), float("nan"), slice(None), torch.device("meta"), (True, None,
        torch.float32),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_an_attribute_of_any_value_is_small_enough_for_the_reader(value: object) -> None:
    assert attribute_size(attribute_value(value)) <= 1024
