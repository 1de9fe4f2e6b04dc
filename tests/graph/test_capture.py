"""The graph of one forward pass that is run for it: ``log_graph``, ``SummaryRecord(network=...)``,
``add_graph``.
"""

from __future__ import annotations

import copy
import operator
import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from mindsummary_lightning.errors import GraphCaptureError
from mindsummary_lightning.graph.capture import capture_example
from mindsummary_lightning.values import DataType, Graph, GraphNode, TensorType, TupleType
from tests.graph.models import KINDS, AwkwardNames, ConvNet
from tests.graph.reader_rules import broken_rules, edges, sources
from tests.graph.zoo import Storage


def captured(kind: str) -> Graph:
    torch.manual_seed(0)
    return capture_example(*KINDS[kind]())


def node(graph: Graph, full_name_part: str) -> GraphNode:
    found = [node for node in graph.nodes if full_name_part in node.full_name]
    assert len(found) == 1, f"{full_name_part} is in {[node.full_name for node in graph.nodes]}"
    return found[0]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_model_gives_a_graph_that_keeps_the_readers_rules(kind: str) -> None:
    assert broken_rules(captured(kind)) == []


_NOT_ALL_WEIGHTS_BY_NAME = {"identity", "branch", "awkward-names"}


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - _NOT_ALL_WEIGHTS_BY_NAME))
def test_every_weight_is_connected(kind: str) -> None:
    model, _ = KINDS[kind]()

    assert {name for name, _ in model.named_parameters()} <= {
        source for source, _ in edges(captured(kind))
    }


def test_every_weight_of_the_side_that_ran_is_connected() -> None:
    ran = {source for source, _ in edges(captured("branch"))}

    assert {"norm.weight", "norm.bias"} <= ran
    assert ({"up.weight", "up.bias"} <= ran) != ({"down.weight", "down.bias"} <= ran)


def test_every_weight_with_an_awkward_name_is_connected() -> None:
    graph = captured("awkward-names")
    weights = len(list(AwkwardNames().parameters())) + 1  # and a buffer

    assert (
        len(
            {source for source, _ in edges(graph)}
            & {entry.name for entry in graph.parameters} - {"x"}
        )
        == weights
    )


def test_scopes_are_the_paths_of_the_modules() -> None:
    graph = captured("cnn")

    assert node(graph, "0-Block/conv1-Conv2d").scope == "blocks-ModuleList/0-Block/conv1-Conv2d"


def test_the_top_level_holds_the_children_of_the_network() -> None:
    graph = captured("cnn")

    assert list(dict.fromkeys(node.full_name.split("/")[0] for node in graph.nodes)) == [
        "stem-Sequential", "blocks-ModuleList", "mean-op20", "dropout-Dropout", "head-Linear"
    ]  # fmt: skip


def test_operations_have_the_names_that_users_know() -> None:
    kinds = {
        node.op_type
        for kind in ("cnn", "lstm", "keyword-mask", "bag")
        for node in captured(kind).nodes
    }

    assert {
        "Conv2d",
        "BatchNorm2d",
        "ReLU",
        "Linear",
        "LSTM",
        "MultiheadAttention",
        "EmbeddingBag",
        "Dropout",
    } <= kinds
    assert {"add", "mean"} <= kinds


def test_edges_carry_shapes_and_dtypes() -> None:
    convolution = node(captured("cnn"), "stem-Sequential/0-Conv2d")

    assert convolution.output_type == TensorType(DataType.FLOAT32, (2, 8, 8, 8))


def test_weights_and_inputs_are_parameters_with_dotted_names() -> None:
    graph = captured("cnn")

    assert sources(graph, node(graph, "stem-Sequential/0-Conv2d")) == [
        "x",
        "stem.0.weight",
        "stem.0.bias",
    ]
    types = {parameter.name: parameter.type for parameter in graph.parameters}
    assert types["stem.0.weight"] == TensorType(DataType.FLOAT32, (8, 3, 3, 3))


def test_the_settings_of_a_module_are_attributes() -> None:
    attributes = {a.name: a.value for a in node(captured("cnn"), "1-Block/conv1").attributes}

    assert attributes["kernel_size"] == (3, 3)
    assert attributes["stride"] == (2, 2)
    assert attributes["out_channels"] == 16


class Scale(nn.Module):
    """Uses a weight, a buffer, inputs by keyword, numbers, writes and results of many kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.ones(3))
        self.register_buffer("offset", torch.zeros(2, 3))
        self.register_buffer("no_buffer", None)
        self.register_parameter("no_weight", None)
        self.register_module("no_module", None)

    def forward(self, x: torch.Tensor, *, y: Any) -> Any:
        x = torch.add(x * self.factor, self.offset, alpha=2)
        x[0] = 1.5
        first, second = x.split(1, dim=0)
        z = torch.cat([first, second], 1) + y["many"][1]
        z = F.pad(z, (1, 2), "constant", value=0.5) ** 2
        return {
            "sum": z.sum(-1, keepdim=True),
            "rows": (first.to(torch.bfloat16), 3),
            "complex": second * 2j,
        }


class Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale, self.norm = Scale(), nn.BatchNorm1d(2)
        self.twin = self.norm

    def forward(self, x: torch.Tensor, y: Any) -> Any:
        return self.scale(self.twin(x.t()).t(), y=y)


def test_all_of_a_graph_is_what_the_pass_did() -> None:
    example = {"x": torch.rand(2, 3), "y": {"many": [torch.ones(1, 6), torch.ones(6)], "n": 4}}
    graph = capture_example(Normed(), example)

    def real(*shape: int) -> TensorType:
        return TensorType(DataType.FLOAT32, shape)

    scaled, settings = "scale-Scale/", vars(nn.BatchNorm1d(2))
    assert [
        (node.name, node.full_name, [edge.name for edge in node.inputs], node.output_type)
        for node in graph.nodes
    ] == [
        ("1", "t-op1", ["x"], real(3, 2)),
        (
            "2",
            "norm-BatchNorm1d/BatchNorm1d-op2",
            ["1", *(f"norm.{name}" for name in ("running_mean", "running_var", "weight", "bias"))],
            real(3, 2),
        ),
        ("3", "t-op3", ["2"], real(2, 3)),
        ("4", f"{scaled}mul-op4", ["3", "scale.factor"], real(2, 3)),
        ("5", f"{scaled}add-op5", ["4", "scale.offset"], real(2, 3)),
        ("6", f"{scaled}setitem-op6", ["5"], real(2, 3)),
        ("7", f"{scaled}split-op7", ["6"], TupleType((real(1, 3), real(1, 3)))),
        ("8", f"{scaled}cat-op8", ["7", "7"], real(1, 6)),
        ("9", f"{scaled}add-op9", ["8", "y.many.1"], real(1, 6)),
        ("10", f"{scaled}pad-op10", ["9"], real(1, 9)),
        ("11", f"{scaled}pow-op11", ["10", "cst1"], real(1, 9)),
        ("12", f"{scaled}sum-op12", ["11"], real(1, 1)),
        ("13", f"{scaled}to-op13", ["7"], TensorType(DataType.BFLOAT16, (1, 3))),
        ("14", f"{scaled}mul-op14", ["7"], TensorType(DataType.COMPLEX64, (1, 3))),
    ]
    assert [{entry.name: entry.value for entry in node.attributes} for node in graph.nodes] == [
        {},
        {name: settings[name] for name in nn.BatchNorm1d.__constants__ if name in settings},
        {},
        {},
        {"alpha": 2},
        {"args": (0, 1.5)},
        {"args": 1, "dim": 0},
        {"args": 1},
        {},
        {"args": (1, 2), "mode": "constant", "value": 0.5},
        {},
        {"args": -1, "keepdim": True},
        {"args": DataType.BFLOAT16, "output_dtype": "torch.bfloat16"},
        {"args": "2j", "output_dtype": "torch.complex64"},
    ]
    assert {entry.name: entry.type for entry in graph.parameters} == {
        "x": real(2, 3),
        "y.many.1": real(6),
        **{f"norm.{name}": real(2) for name in ("running_mean", "running_var", "weight", "bias")},
        "scale.factor": real(3),
        "scale.offset": real(2, 3),
    }
    assert [(entry.name, entry.value) for entry in graph.constants] == [("cst1", 2)]
    assert [(entry.name, entry.type) for entry in graph.outputs] == [
        ("12", real(1, 1)),
        ("13", TensorType(DataType.BFLOAT16, (1, 3))),
        ("14", TensorType(DataType.COMPLEX64, (1, 3))),
    ]
    assert graph.name == "Normed"


def test_settings_that_a_module_of_an_older_torch_lacks_are_left_out() -> None:
    layer = nn.Linear(4, 2)
    del layer.out_features

    graph = capture_example(layer, torch.ones(1, 4))

    assert [(entry.name, entry.value) for entry in graph.nodes[0].attributes] == [
        ("in_features", 4)
    ]


def test_a_scripted_module_has_the_name_of_its_class() -> None:
    graph = capture_example(nn.Sequential(torch.jit.script(nn.BatchNorm1d(4))), torch.ones(2, 4))

    assert [node.full_name for node in graph.nodes] == ["0-BatchNorm1d/BatchNorm1d-op1"]


def test_the_arguments_of_a_function_are_attributes() -> None:
    attributes = {a.name: a.value for a in node(captured("cnn"), "mean-op").attributes}

    assert attributes == {"args": (2, 3)}


class Calling(nn.Module):
    """Calls a function with its input."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


def test_arguments_that_are_none_are_no_attributes() -> None:
    graph = capture_example(Calling(lambda x: F.softmax(x, dim=1, dtype=None)), torch.ones(2, 2))

    assert "dim" in {attribute.name for attribute in graph.nodes[0].attributes}
    assert "dtype" not in {attribute.name for attribute in graph.nodes[0].attributes}


@pytest.mark.parametrize(
    ("function", "op_types"),
    [
        (lambda x: F.relu(x * 2, inplace=True) + 1, ["mul", "ReLU", "add"]),
        (lambda x: x.mul(2).relu_() + 1, ["mul", "ReLU", "add"]),
        (lambda x: operator.iand(x > 0, x > 2).sum(), ["gt", "gt", "iand", "sum"]),
        (lambda x: torch.sub(x, 2, out=torch.mul(x, 3)) + 1, ["mul", "sub", "add"]),
        (lambda x: (x * 2).requires_grad_() + 1, ["mul", "add"]),
        (lambda x: (x * 2).contiguous().float() + 1, ["mul", "add"]),
    ],
    ids=["inplace", "underscore", "operator", "out", "requires_grad_", "same tensor"],
)
def test_a_function_that_returns_its_argument_counts_if_it_writes(
    function: Any, op_types: list[str]
) -> None:
    assert [
        node.op_type for node in capture_example(Calling(function), torch.ones(2)).nodes
    ] == op_types


_TABLE = torch.ones(3)


def _through_view(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y[:, 0].add_(1)
    return y.sum()


def _of_unseen_view(x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    with torch._C.DisableTorchFunction():
        row = x[0]
    return row.exp()


@pytest.mark.parametrize(
    ("function", "name", "expected"),
    [
        (lambda x: x * 2.5, "mul", ["x", 2.5]),
        (lambda x: x + _TABLE, "add", ["x", TensorType(DataType.FLOAT32, (3,))]),
        (_through_view, "sum", ["add_"]),
        (_of_unseen_view, "exp", ["add"]),
        (lambda x: (x * 2).data.exp(), "exp", ["mul"]),
        (lambda x: x.data.exp(), "exp", ["x"]),
    ],
    ids=[
        *("a number", "a tensor from elsewhere", "a write through a view", "a view made unseen"),
        *("data of a result", "data of an input"),
    ],
)
def test_an_operation_has_its_sources(function: Any, name: str, expected: list[Any]) -> None:
    graph = capture_example(Calling(function), torch.ones(2, 3))

    assert sources(graph, node(graph, f"{name}-op")) == expected


def test_what_is_computed_from_gradients_alone_is_not_in_the_graph() -> None:
    weight = nn.Parameter(torch.ones(2))
    weight.grad = torch.full((2,), 3.0)

    def scaled(x: torch.Tensor) -> torch.Tensor:
        factor = weight.grad.norm().exp()  # type: ignore[union-attr]
        return (x * factor).sum()

    graph = capture_example(Calling(scaled), torch.ones(2))

    assert [(node.op_type, sources(graph, node)) for node in graph.nodes] == [
        ("mul", ["x"]),
        ("sum", ["mul"]),
    ]


def test_a_plain_tensor_of_a_module_is_a_parameter() -> None:
    class Shifting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.prior = torch.zeros(2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x - self.prior

    graph = capture_example(nn.Sequential(Shifting()), torch.ones(2))

    assert sources(graph, graph.nodes[0]) == ["input", "0.prior"]


def test_a_buffer_of_a_module_that_is_not_registered_is_a_parameter() -> None:
    class Shifting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("offset", torch.zeros(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x - self.offset

    shifting = Shifting()
    graph = capture_example(Calling(lambda x: shifting(x)), torch.ones(2))

    assert sources(graph, graph.nodes[0]) == ["x", "offset"]


def test_a_tied_weight_has_its_first_name_also_where_another_module_holds_it() -> None:
    class Encoder(nn.Module):
        """As in T5: its embedding's weight is the network's."""

        def __init__(self, weight: nn.Parameter) -> None:
            super().__init__()
            self.embed_tokens = nn.Embedding(*weight.shape)
            self.embed_tokens.weight = weight
            self.head = nn.Linear(weight.shape[1], 2)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.head(self.embed_tokens(tokens))

    net = nn.ModuleDict({"shared": nn.Embedding(30, 8)})
    net["encoder"] = Encoder(net["shared"].weight)
    net.bias = net["encoder"].head.bias  # as BERT's, of the network first
    net.forward = net["encoder"].forward
    graph = capture_example(net, torch.arange(3))

    assert [name for name, _ in net.named_parameters()][:2] == ["bias", "shared.weight"]
    assert sources(graph, node(graph, "Embedding-op"))[1] == "shared.weight"
    assert sources(graph, node(graph, "Linear-op"))[2] == "bias"


def test_structured_inputs_are_named_by_their_place() -> None:
    names = {parameter.name for parameter in captured("dict").parameters}

    assert {"batch.image", "batch.text"} <= names


def test_private_attributes_add_nothing_to_the_name_of_an_input() -> None:
    class Net(nn.Module):
        def forward(self, batch: Storage) -> torch.Tensor:
            return batch.x * 2

    assert [
        entry.name for entry in capture_example(Net(), Storage(x=torch.ones(2))).parameters
    ] == ["batch.x"]


def test_who_reads_after_a_write_in_place_follows_the_write() -> None:
    graph = captured("in-place")

    (last,) = [node for node in graph.nodes if node.name == graph.outputs[0].name]
    assert last.op_type == "add_"
    assert sources(graph, last)[0] == "setitem"


def test_a_dtype_unknown_to_mindinsight_is_an_attribute() -> None:
    found = node(captured("half"), "head-Linear")

    assert found.output_type == TensorType(DataType.BFLOAT16, (2, 10))
    assert ("output_dtype", "torch.bfloat16") in {(a.name, a.value) for a in found.attributes}


def test_a_dtype_that_the_format_does_not_have_is_an_attribute() -> None:
    class Small(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.to(torch.float8_e5m2)

    (found,) = capture_example(Small(), torch.ones(2)).nodes

    assert ("output_dtype", "torch.float8_e5m2") in {(a.name, a.value) for a in found.attributes}


def test_keyword_arguments_are_named_by_their_keys() -> None:
    class Adding(nn.Module):
        def forward(self, first: torch.Tensor, **others: torch.Tensor) -> torch.Tensor:
            return first + others["second"]

    graph = capture_example(Adding(), {"first": torch.ones(2), "second": torch.ones(2)})

    assert sources(graph, graph.nodes[0]) == ["first", "second"]


def test_several_outputs_have_a_tuple_type() -> None:
    found = node(captured("lstm"), "LSTM-op")

    assert isinstance(found.output_type, TupleType)
    assert len(found.output_type.elements) == 3


def test_wrappers_leave_no_trace_in_names() -> None:
    plain = captured("cnn")
    torch.manual_seed(0)

    wrapped = capture_example(torch.compile(ConvNet(), backend="eager"), torch.randn(2, 3, 8, 8))  # type: ignore[arg-type]

    assert [node.full_name for node in wrapped.nodes] == [node.full_name for node in plain.nodes]


def test_a_module_made_in_the_step_has_a_scope_if_it_has_weights() -> None:
    extra = nn.Linear(4, 4)

    graph = capture_example(
        Calling(lambda x: nn.L1Loss()(extra(x), nn.ReLU()(x))), torch.ones(1, 4)
    )

    assert [node.full_name for node in graph.nodes] == [
        "Linear-Linear/Linear-op1",
        "ReLU-op2",
        "L1Loss-op3",
    ]
    assert sources(graph, graph.nodes[0]) == ["x", "Linear.weight", "Linear.bias"]


def test_modules_that_are_not_registered_have_their_own_weights() -> None:
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)

    graph = capture_example(Calling(lambda x: first(second(first(x)))), torch.ones(1, 4))

    weights = [sources(graph, entry)[1] for entry in graph.nodes]
    assert weights == ["Linear.weight", "Linear.weight_2", "Linear.weight"]


def test_a_module_with_two_names_has_the_scope_of_the_first() -> None:
    layer = nn.Linear(4, 4)

    graph = capture_example(nn.Sequential(layer, layer), torch.ones(1, 4))

    assert [entry.scope for entry in graph.nodes] == ["0-Linear"] * 2


def test_a_module_that_skips_its_children_is_not_in_the_graph() -> None:
    class Skipped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

    graph = capture_example(
        nn.Sequential(Skipped(), nn.Identity(), nn.Linear(4, 2)), torch.ones(1, 4)
    )

    assert [entry.op_type for entry in graph.nodes] == ["Identity", "Linear"]


def test_a_frozen_layer_is_seen_inside_unless_it_uses_its_fused_kernel() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).requires_grad_(False)

    in_train_mode, in_eval_mode = (
        {entry.scope for entry in capture_example(network, torch.ones(1, 3, 8)).nodes}
        for network in (nn.Sequential(layer.train()), nn.Sequential(copy.deepcopy(layer).eval()))
    )

    assert "0-TransformerEncoderLayer/linear1-Linear" in in_train_mode
    assert in_eval_mode == {"0-TransformerEncoderLayer"}


def test_a_module_that_returns_no_tensor_is_not_in_the_graph() -> None:
    class Counter(nn.Module):
        def forward(self, x: torch.Tensor) -> int:
            return len(x)

    graph = capture_example(Calling(lambda x: x * Counter()(x)), torch.ones(3))

    assert [entry.op_type for entry in graph.nodes] == ["mul"]
    assert sources(graph, graph.nodes[0]) == ["x", 3]


def test_a_layer_that_no_gradient_is_wanted_of_is_one_node_if_it_is_fused() -> None:
    attention = nn.MultiheadAttention(8, 2, batch_first=True)

    @torch.no_grad()
    def without_gradients(x: torch.Tensor) -> torch.Tensor:
        return attention(x, x, x)[0]

    def op_types(network: nn.Module) -> list[str]:
        return [entry.op_type for entry in capture_example(network, torch.ones(1, 3, 8)).nodes]

    attention.eval()
    fused = op_types(Calling(without_gradients))
    assert fused == ["MultiheadAttention"]
    inside = op_types(Calling(lambda x: attention(x, x, x)[0]))
    assert len(inside) > len(fused)
    attention.train()
    assert op_types(Calling(without_gradients)) == inside


def test_inputs_are_moved_to_the_models_device_and_dtype() -> None:
    graph = capture_example(nn.Linear(4, 4, device="meta", dtype=torch.float64), torch.ones(2, 4))

    assert graph.nodes[0].output_type == TensorType(DataType.FLOAT64, (2, 4))


def test_a_custom_function_is_connected_through_its_gradient() -> None:
    class Reversed(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return torch.from_numpy(x.detach().numpy() * 2)

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
            return -gradients[0]

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> Any:
            return Reversed.apply(self.layer(x)).sum()  # type: ignore[no-untyped-call]

    graph = capture_example(Net(), torch.ones(1, 4))

    assert [node.op_type for node in graph.nodes] == ["Linear", "detach", "Reversed", "sum"]
    assert sources(graph, graph.nodes[2]) == ["Linear"]


def test_a_custom_function_of_a_weight_is_connected_to_it() -> None:
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return torch.from_numpy(x.detach().numpy() * 2)

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
            return 2 * gradients[0]

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))

        def forward(self, x: torch.Tensor) -> Any:
            return x * Doubled.apply(self.weight)  # type: ignore[no-untyped-call]

    graph = capture_example(Net(), torch.ones(3, 2))

    assert sources(graph, node(graph, "Doubled-op")) == ["weight"]
    assert sources(graph, node(graph, "mul-op")) == ["x", "Doubled"]


def test_an_unseen_function_of_torch_has_its_plain_name() -> None:
    def write_first_row(x: torch.Tensor) -> torch.Tensor:
        x = x * 2
        with torch._C.DisableTorchFunction():
            y = x * 3
            y[0].mul_(4)
        return y.exp()

    graph = capture_example(Calling(write_first_row), torch.ones(2, 2, requires_grad=True))

    assert [node.op_type for node in graph.nodes] == ["mul", "CopySlices", "exp"]
    assert sources(graph, graph.nodes[1]) == ["mul"]


def test_a_custom_function_of_two_results_is_one_node() -> None:
    class Split(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> Any:
            return tuple(torch.from_numpy(part.copy()) for part in x.detach().numpy())

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
            return torch.stack(gradients)

    graph = capture_example(
        Calling(lambda x: torch.add(*Split.apply(x * 2))),  # type: ignore[no-untyped-call]
        torch.ones(2, 2, requires_grad=True),
    )

    assert [node.op_type for node in graph.nodes] == ["mul", "detach", "Split", "add"]
    assert sources(graph, graph.nodes[2]) == ["mul"]


def state(model: nn.Module) -> list[Any]:
    tensors = [*model.parameters(), *model.buffers()]
    return [
        [(name, tensor.tolist()) for name, tensor in model.state_dict().items()],
        [
            (id(tensor), tensor._version, tensor.requires_grad, id(tensor.grad))
            for tensor in tensors
        ],
        [part.training for part in model.modules()],
        random.getstate(),
        np.random.get_state()[1].tobytes(),  # type: ignore[union-attr,index]  # noqa: NPY002
        torch.get_rng_state().tolist(),
    ]


def test_the_buffers_of_a_scripted_module_stay() -> None:
    model = nn.Sequential(torch.jit.script(nn.BatchNorm1d(4)))

    capture_example(model, torch.randn(3, 4))

    assert model[0].running_mean.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_weights_buffers_gradients_modes_and_random_states_stay(kind: str) -> None:
    model, example = KINDS[kind]()
    for number, weight in enumerate(model.parameters()):
        weight.grad = torch.full_like(weight, number)
    before = state(model)

    capture_example(model, example)

    assert state(model) == before


def test_a_failed_pass_leaves_the_same_state_and_its_own_words() -> None:
    class Failing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(4)
            self.noise = torch.Generator()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.norm(x + torch.rand(4) + torch.rand(4, generator=self.noise))
            raise RuntimeError("at the\nvery end")

    model = Failing()
    before, noise = state(model), model.noise.get_state()

    with pytest.raises(GraphCaptureError, match=r"^Failing: RuntimeError: at the very end$"):
        capture_example(model, torch.ones(3, 4))

    assert state(model) == before
    assert torch.equal(model.noise.get_state(), noise)
    assert nn.Module.__call__.__name__ == "_wrapped_call_impl"


def test_the_words_of_a_failed_pass_are_one_line_of_300_characters() -> None:
    def fails(x: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("e " * 200)

    with pytest.raises(GraphCaptureError) as caught:
        capture_example(Calling(fails), torch.ones(2))

    words = str(caught.value).removeprefix("Calling: RuntimeError: ")
    assert words == f"{'e ' * 148}..."  # the next one would end at 301


def test_a_lazy_model_that_never_ran_is_refused_and_stays_lazy() -> None:
    model = nn.LazyLinear(4)

    with pytest.raises(GraphCaptureError, match="no shape before the first call"):
        capture_example(model, torch.ones(2, 3))
    assert model.has_uninitialized_params()


def test_one_of_several_processes_runs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    model = nn.Linear(4, 4)
    calls: list[Any] = []
    model.register_forward_hook(lambda *_: calls.append(1))

    with pytest.raises(GraphCaptureError, match=r"one of 2 processes .* SummaryCollector"):
        capture_example(model, torch.ones(2, 4))
    assert calls == []


def test_an_example_is_read_as_lightning_reads_it() -> None:
    class Net(nn.Module):
        def forward(self, *args: Any, **kwargs: Any) -> torch.Tensor:
            self.got = (args, kwargs)
            return torch.ones(2) * 2

    class TakesOne(nn.Module):
        def forward(self, batch: Any) -> torch.Tensor:
            self.got = batch
            return torch.ones(2) * 2

    net, single = Net(), TakesOne()

    for example in ((1, 2), [1, 2], {"a": 1}, 3):
        capture_example(net, example)
        got = net.got
        assert (
            got
            == {tuple: ((1, 2), {}), list: ((1, 2), {}), dict: ((), {"a": 1}), int: ((3,), {})}[
                type(example)
            ]
        )
    for example in ((1, 2), [1, 2, 3], {"a": 1}):
        capture_example(single, example)
        assert single.got == example


@pytest.mark.skipif(not hasattr(torch.compiler, "set_stance"), reason="before torch 2.6")
def test_nothing_is_compiled_for_an_example() -> None:
    compilations: list[int] = []

    def count(graph: Any, example: Any) -> Any:
        compilations.append(1)
        return graph.forward

    network = nn.Sequential(nn.Linear(2, 3), torch.compile(nn.Tanh(), backend=count))  # type: ignore[arg-type]
    graph = capture_example(network, torch.ones(1, 2))

    assert [entry.full_name for entry in graph.nodes] == [
        "0-Linear/Linear-op1",
        "1-Tanh/Tanh-op2",
    ]
    assert compilations == []


def test_threads_that_overlap_leave_compiling_as_it_was() -> None:
    class Waiting(nn.Linear):
        def __init__(
            self, before: Callable[[], object], until: threading.Event, limit_s: float
        ) -> None:
            super().__init__(2, 2)
            self.before, self.until, self.limit_s = before, until, limit_s

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.before()
            self.until.wait(self.limit_s)
            return super().forward(x)

    calls: list[int] = []

    def count(graph: Any, example: Any) -> Any:
        calls.append(1)
        return graph.forward

    is_in, is_out = threading.Event(), threading.Event()
    second = threading.Thread(
        target=capture_example, args=(Waiting(is_in.set, is_out, 60), torch.ones(2, 2))
    )
    torch.compile(nn.ReLU(), backend=count)(torch.ones(2))  # torch._dynamo is there
    capture_example(Waiting(second.start, is_in, 0.1), torch.ones(2, 2))
    is_out.set()
    second.join()
    torch.compile(nn.Tanh(), backend=count)(torch.ones(2))

    assert calls == [1, 1]
