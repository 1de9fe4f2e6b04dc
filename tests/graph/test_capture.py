from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import nn

from mindsummary_lightning.errors import GraphCaptureError
from mindsummary_lightning.graph import forward_capture
from mindsummary_lightning.graph.capture import capture_example, capture_graph
from mindsummary_lightning.values import DataType, Graph, GraphNode, TensorType, TupleType
from tests.graph.models import KINDS, AwkwardNames, ConvNet, resnet_like, vit_like
from tests.graph.reader_rules import broken_rules, edges

_IS_OLD = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 6)


def captured(kind: str) -> Graph:
    torch.manual_seed(0)
    return capture_example(*KINDS[kind]())


def node(graph: Graph, full_name_part: str) -> GraphNode:
    found = [node for node in graph.nodes if full_name_part in node.full_name]
    assert len(found) == 1, f"{full_name_part} is in {[node.full_name for node in graph.nodes]}"
    return found[0]


def sources(graph: Graph, consumer: GraphNode) -> list[str]:
    """What feeds a node: types of nodes, names of parameters, values of constants."""
    named: dict[str, Any] = {node.name: node.op_type for node in graph.nodes}
    named |= {parameter.name: parameter.name for parameter in graph.parameters}
    named |= {constant.name: constant.value for constant in graph.constants}
    return [named[entry.name] for entry in consumer.inputs]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_model_gives_a_graph_that_keeps_the_readers_rules(kind: str) -> None:
    assert broken_rules(captured(kind)) == []


_NOT_ALL_WEIGHTS_BY_NAME = {"identity", "nonzero", "branch", "awkward-names"}


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - _NOT_ALL_WEIGHTS_BY_NAME))
def test_every_weight_is_connected(kind: str) -> None:
    model, _ = KINDS[kind]()
    weights = {name.replace("_orig_mod.", "") for name, _ in model.named_parameters()}

    graph = captured(kind)

    assert weights <= {source for source, _ in edges(graph)}


def test_every_weight_of_the_side_that_ran_is_connected() -> None:
    ran = {source for source, _ in edges(captured("branch"))}

    assert {"norm.weight", "norm.bias"} <= ran
    assert {"up.weight", "up.bias"} <= ran or {"down.weight", "down.bias"} <= ran


def test_every_weight_with_an_awkward_name_is_connected() -> None:
    graph = captured("awkward-names")
    weights = len(list(AwkwardNames().parameters())) + 1  # and a buffer

    assert len({source for source, _ in edges(graph)} & {entry.name for entry in graph.parameters} - {"x"}) == weights


def test_scopes_are_written_as_mindspore_writes_them() -> None:
    graph = captured("cnn")

    assert node(graph, "0-Block/conv1-Conv2d").full_name == (
        "Default/network-ConvNet/blocks-ModuleList/0-Block/conv1-Conv2d/Conv2d-op4"
    )


def test_operations_have_the_names_that_users_know() -> None:
    kinds = {node.op_type for kind in ("cnn", "lstm", "transformer", "bag") for node in captured(kind).nodes}

    assert {"Conv2d", "BatchNorm2d", "ReLU", "Linear", "LSTM", "LayerNorm", "EmbeddingBag", "Dropout"} <= kinds
    assert {"add", "mean", "scaled_dot_product_attention", "TupleGetItem"} <= kinds


def test_edges_carry_shapes_and_dtypes() -> None:
    convolution = node(captured("cnn"), "stem-Sequential/0-Conv2d")

    assert convolution.output_type == TensorType(DataType.FLOAT32, (2, 8, 8, 8))


def test_weights_and_inputs_are_parameters_with_dotted_names() -> None:
    graph = captured("cnn")

    assert sources(graph, node(graph, "stem-Sequential/0-Conv2d")) == ["x", "stem.0.weight", "stem.0.bias"]
    types = {parameter.name: parameter.type for parameter in graph.parameters}
    assert types["stem.0.weight"] == TensorType(DataType.FLOAT32, (8, 3, 3, 3))


def test_a_module_says_its_properties() -> None:
    attributes = {a.name: a.value for a in node(captured("cnn"), "1-Block/conv1").attributes}

    assert attributes["kernel_size"] == (3, 3)
    assert attributes["stride"] == (2, 2)
    assert attributes["out_channels"] == 16


def test_a_function_says_its_arguments() -> None:
    attributes = {a.name: a.value for a in node(captured("cnn"), "mean-op").attributes}

    assert attributes == {"dim": (2, 3)}


def test_numbers_in_the_place_of_tensors_are_constants() -> None:
    graph = capture_graph(Doubling(), (torch.ones(2),))

    assert sources(graph, graph.nodes[0]) == ["x", 2.5]


class Doubling(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2.5


def test_tied_weights_are_one_parameter() -> None:
    graph = captured("tied")

    assert sources(graph, node(graph, "Embedding-op"))[0] == "embed.weight"
    assert sources(graph, node(graph, "out-Linear"))[1] == "embed.weight"


def test_structured_inputs_are_named_by_their_place() -> None:
    names = {parameter.name for parameter in captured("dict").parameters}

    assert {"batch.image", "batch.text"} <= names


def test_an_operation_that_writes_through_a_view_is_followed_by_the_readers() -> None:
    graph = captured("in-place")

    (last,) = [node for node in graph.nodes if node.name == graph.outputs[0].name]
    assert last.op_type == "add_"
    assert sources(graph, last)[0] == "fill_"


def test_a_dimension_that_depends_on_data_is_minus_one() -> None:
    found = node(captured("nonzero"), "nonzero-op")

    assert found.output_type == TensorType(DataType.INT64, (-1, 2))
    assert ("output_is_dynamic_shape", True) in {(a.name, a.value) for a in found.attributes}


def test_a_dtype_unknown_to_mindinsight_is_told_as_an_attribute() -> None:
    found = node(captured("half"), "head-Linear")

    assert found.output_type == TensorType(DataType.BFLOAT16, (2, 10))
    assert ("output_dtype", "torch.bfloat16") in {(a.name, a.value) for a in found.attributes}


def test_several_outputs_have_a_tuple_type() -> None:
    found = node(captured("lstm"), "LSTM-op")

    assert isinstance(found.output_type, TupleType)
    assert len(found.output_type.elements) == 3


@pytest.mark.skipif(_IS_OLD, reason="torch.export refuses compiled modules")
def test_compiled_modules_leave_no_trace_in_names() -> None:
    plain, compiled = captured("cnn"), captured("compiled")

    assert [node.full_name for node in compiled.nodes] == [node.full_name for node in plain.nodes]
    assert [p.name for p in compiled.parameters] == [p.name for p in plain.parameters]


def test_wrappers_of_data_parallel_training_are_taken_off() -> None:
    class DistributedDataParallel(nn.Module):  # torch's needs a process group; it is known by its name
        def __init__(self, module: nn.Module) -> None:
            super().__init__()
            self.module = module

        def forward(self, *_args: object) -> None:
            raise AssertionError("a forward pass of the wrapper would wait for other processes")

    graph = capture_example(DistributedDataParallel(torch.compile(ConvNet(), backend="eager")), torch.ones(1, 3, 8, 8))

    assert node(graph, "head-Linear").scope == "Default/network-ConvNet/head-Linear"


def test_a_branch_on_data_falls_back_to_what_one_pass_ran() -> None:
    graph = captured("branch")

    assert [entry.op_type for entry in graph.nodes] == ["BatchNorm1d", "sum", "gt", "Linear", "cat"]
    assert sources(graph, graph.nodes[-1])[:2] == ["Linear", "BatchNorm1d"]


def test_a_module_called_twice_is_two_nodes_in_one_scope() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(self.layer(x))

    graph = capture_graph(Twice(), (torch.ones(1, 4),))

    assert [entry.scope for entry in graph.nodes] == ["Default/network-Twice/layer-Linear"] * 2


@pytest.mark.skipif(_IS_OLD, reason="torch.export hides what runs under autocast")
def test_operations_without_gradient_lie_among_the_others() -> None:
    class Mixed(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.enable_grad():
                y = x + 1.0
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return y @ y

    graph = capture_graph(Mixed(), (torch.ones(2, 2),))

    assert edges(graph) >= {("x", "1")}
    assert {entry.op_type for entry in graph.nodes} >= {"add", "matmul"}
    assert broken_rules(graph) == []


def test_inputs_are_moved_to_the_models_device_and_dtype() -> None:
    graph = capture_graph(nn.Linear(4, 4, device="meta", dtype=torch.float64), (torch.ones(2, 4),))

    assert graph.nodes[0].output_type == TensorType(DataType.FLOAT64, (2, 4))


@pytest.mark.parametrize(("build", "least"), [(resnet_like, 170), (vit_like, 400)], ids=["resnet", "vit"])
def test_models_of_torchvision_size_are_captured(build: Any, least: int) -> None:
    graph = capture_example(build(), torch.randn(1, 3, 224, 224))

    assert len(graph.nodes) >= least
    assert broken_rules(graph) == []


_ONE_BILLION = """
import resource, torch
from torch import nn
from mindsummary_lightning.graph.capture import capture_example
torch.set_num_threads(1)
capture_example(nn.Linear(4, 4), torch.ones(1, 4))  # what torch.export loads is not counted
part = lambda: nn.utils.skip_init(nn.Linear, 16_000, 16_000, bias=False)
model = nn.Sequential(part(), nn.ReLU(), part(), part(), part())
assert sum(weight.numel() for weight in model.parameters()) > 1e9
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
graph = capture_example(model, torch.ones(1, 16_000))
assert len(graph.nodes) == 5
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_a_billion_weights_are_neither_copied_nor_read() -> None:
    # Weights that are never written to have no memory yet, so a look at them would show in the resident size.
    output = subprocess.run([sys.executable, "-c", _ONE_BILLION], check=True, capture_output=True, text=True).stdout

    grown_kib = int(output.split()[-1])
    assert grown_kib < 200 * 1024


def test_a_model_without_memory_is_captured() -> None:
    with torch.device("meta"):
        model = nn.Sequential(*(nn.Linear(20_000, 20_000) for _ in range(3)))

    assert len(capture_example(model, torch.ones(1, 20_000)).nodes) == 3


def test_too_many_operations_are_refused_with_the_number() -> None:
    with pytest.raises(GraphCaptureError, match="more than 10 operations"):
        capture_example(ConvNet(), torch.ones(1, 3, 8, 8), max_nodes=10)


def test_too_long_a_capture_is_refused_with_the_limit() -> None:
    class Endless(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            while True:
                x = x + 1

    with pytest.raises(GraphCaptureError, match=r"took longer than 0\.2 s"):
        capture_example(Endless(), torch.ones(1), time_limit_s=0.2)


def test_a_forward_that_fails_is_told_with_its_own_words() -> None:
    with pytest.raises(GraphCaptureError, match=r"no graph of Linear: .*shapes cannot be multiplied"):
        capture_example(nn.Linear(4, 4), torch.ones(2, 3))


def test_a_lazy_model_that_never_ran_is_refused_and_stays_lazy() -> None:
    model = nn.LazyLinear(4)

    with pytest.raises(GraphCaptureError, match="no shape yet"):
        capture_example(model, torch.ones(2, 3))
    assert model.has_uninitialized_params()


def test_a_failed_export_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    captured("branch")

    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(not forward_capture._HOOKS_GET_KWARGS, reason="this torch does not tell hooks of keywords")
def test_a_real_pass_sees_what_a_module_gets_by_name() -> None:
    class ByName(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.sum() == 12345.0:  # torch.export refuses this
                return x
            return self.linear(input=x).relu()

    graph = capture_graph(ByName(), (torch.ones(2, 4),))

    assert "x" in sources(graph, node(graph, "linear-Linear/Linear"))
