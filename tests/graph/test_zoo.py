"""Trainings of many kinds: their graph is the training step that ran, and they train as without a
collector.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from mindsummary_lightning import SummaryReader
from mindsummary_lightning.graph.module_names import module_class_name, unwrapped
from mindsummary_lightning.values import Graph
from tests.graph.reader_rules import broken_rules, comes_from, edges, unconnected
from tests.graph.training import Trace, train
from tests.graph.zoo import ZOO

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=ZOO)
def trained(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Trace, Trace, Graph]:
    """A training without a collector, the same with one, and the graph that it recorded."""
    directory = tmp_path_factory.mktemp("run")
    plain, observed = train(ZOO[request.param], None), train(ZOO[request.param], directory)
    graph = SummaryReader(directory).graph()
    assert graph is not None
    return plain, observed, graph


def test_the_training_is_bit_for_bit_the_one_without_a_collector(
    trained: tuple[Trace, Trace, Graph],
) -> None:
    plain, observed, _ = trained

    assert observed.values() == plain.values()
    assert nn.Module.__call__.__name__ == "_wrapped_call_impl"
    assert torch._C._len_torch_function_stack() == 0
    assert "training_step" not in vars(observed.model)


def test_the_graph_keeps_the_readers_rules(trained: tuple[Trace, Trace, Graph]) -> None:
    assert broken_rules(trained[2]) == []


def test_every_called_leaf_module_and_each_of_its_trainable_parameters_is_there(
    trained: tuple[Trace, Trace, Graph],
) -> None:
    plain, _, graph = trained
    scopes = {node.scope for node in graph.nodes}
    sources = {source for source, _ in edges(graph)}
    for name in called_leaves(plain):
        assert scope_of(plain.model, name) in scopes
    names = {name for name, weight in plain.model.named_parameters() if weight.requires_grad}
    for name in names & {
        weight for weight in names if weight.rpartition(".")[0] in called_leaves(plain)
    }:
        assert name in sources


def test_no_operation_is_without_an_edge(trained: tuple[Trace, Trace, Graph]) -> None:
    assert unconnected(trained[2]) == set()


def test_what_the_step_returned_comes_from_the_batch(trained: tuple[Trace, Trace, Graph]) -> None:
    graph = trained[2]
    of_batch = {
        parameter.name for parameter in graph.parameters if parameter.name.startswith("batch")
    }

    losses = [output.name for output in graph.outputs] or [graph.nodes[-1].name]
    assert any(comes_from(graph, loss, of_batch) for loss in losses)


def called_leaves(trace: Trace) -> set[str]:
    """Names of the modules without children that the first training step called; of all if no hook
    could tell.
    """
    leaves = {name for name, part in trace.model.named_modules() if not part._modules}
    called = {call.removeprefix("before ") for call in trace.calls[0]}
    return leaves & called


def scope_of(model: Any, name: str) -> str:
    parts: list[str] = []
    for part in name.split("."):
        model = unwrapped(model.get_submodule(part))
        parts.append(f"{part}-{module_class_name(model)}")
    return "/".join(parts)


def test_what_lightning_and_the_optimizers_do_within_the_step_is_not_in_the_graph(
    tmp_path: Path,
) -> None:
    def operations(name: str) -> list[str]:
        train(ZOO[name], tmp_path / name)
        graph = SummaryReader(tmp_path / name).graph()
        return [node.op_type for node in graph.nodes]

    generator = ["Linear", "LeakyReLU", "Linear", "Tanh"]
    discriminator = ["Linear", "LeakyReLU", "Linear"]
    loss = "BCEWithLogitsLoss"

    assert operations("readme-autoencoder") == [
        "view", "Linear", "ReLU", "Linear", "Linear", "ReLU", "Linear", "MSELoss"
    ]  # fmt: skip
    assert operations("gan") == [
        *("randn", *generator, *discriminator, "ones", loss),
        *(
            *discriminator,
            "ones",
            loss,
            *generator,
            "detach",
            *discriminator,
            "zeros",
            loss,
            "add",
            "div",
        ),
    ]
