"""Real libraries' models train as without a collector, and their graph is whole; ``nox -s
libraries`` installs them.
"""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("darts")
pytest.importorskip("neuralforecast")
pytest.importorskip("pytorch_forecasting")
pytest.importorskip("torch_geometric")

from mindsummary_lightning import SummaryCollector, SummaryReader
from mindsummary_lightning.values import Graph
from tests.graph.library_models import LIBRARY_MODELS
from tests.graph.reader_rules import broken_rules, comes_from, edges, unconnected

_QUIET = {
    "accelerator": "cpu", "devices": 1, "logger": False, "enable_progress_bar": False,
    "enable_model_summary": False,
    "enable_checkpointing": False,
}  # fmt: skip


@pytest.fixture(scope="module", params=LIBRARY_MODELS)
def trained(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[torch.nn.Module, torch.nn.Module, Graph]:
    """The model trained without a collector, the same with one, and the graph that it recorded."""
    fit, directory = LIBRARY_MODELS[request.param], tmp_path_factory.mktemp("run")
    plain = fit(dict(_QUIET))
    observed = fit({**_QUIET, "callbacks": [SummaryCollector(directory, collect_freq=2)]})
    graph = SummaryReader(directory).graph()
    assert graph is not None
    return plain, observed, graph


def test_the_weights_are_bit_for_bit_those_without_a_collector(
    trained: tuple[torch.nn.Module, torch.nn.Module, Graph],
) -> None:
    plain, observed, _ = trained

    found = {name: value.numpy().tobytes() for name, value in observed.state_dict().items()}
    assert found == {name: value.numpy().tobytes() for name, value in plain.state_dict().items()}


def test_the_graph_keeps_the_readers_rules(
    trained: tuple[torch.nn.Module, torch.nn.Module, Graph],
) -> None:
    assert broken_rules(trained[2]) == []


def test_every_parameter_with_a_gradient_and_every_operation_has_an_edge(
    trained: tuple[torch.nn.Module, torch.nn.Module, Graph],
) -> None:
    _, model, graph = trained
    sources = {source for source, _ in edges(graph)}

    assert {name for name, weight in model.named_parameters() if weight.grad is not None} <= sources
    assert unconnected(graph) == set()


def test_the_loss_comes_from_the_batch(
    trained: tuple[torch.nn.Module, torch.nn.Module, Graph],
) -> None:
    _, model, graph = trained
    of_batch = {parameter.name for parameter in graph.parameters} - model.state_dict().keys()

    assert [comes_from(graph, output.name, of_batch) for output in graph.outputs] == [True]
