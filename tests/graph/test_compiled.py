"""Compiled modules, models and functions are one node each, and are compiled exactly as without a
collector.
"""

from __future__ import annotations

import copy
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo import eval_frame as compiler
from torch._dynamo.utils import counters
from torch.nn import functional as F

from mindsummary_lightning import SummaryReader
from mindsummary_lightning.values import Graph
from tests.graph.reader_rules import broken_rules, edges, sources
from tests.graph.training import RESULT_IS_UNSEEN, Trace, keeps_result, train
from tests.graph.zoo import Base, Training

pytestmark = pytest.mark.slow


def compiled(function: Any) -> Any:
    return torch.compile(function, backend="aot_eager")


@compiled
def smooth_loss(x: Tensor, y: Tensor) -> Tensor:
    return (x - y).pow(2).mean() + x.abs().mean()


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x) * self.scale


class Model(Base):
    """Something is compiled in it by the argument."""

    def __init__(self, compile_it: Callable[[Model], Any]) -> None:
        super().__init__()
        self.before, self.inner, self.after = nn.Linear(4, 4), Inner(), nn.Linear(4, 4)
        self.loss: Any = F.mse_loss
        compile_it(self)

    def forward(self, x: Tensor) -> Tensor:
        return self.after(self.inner(self.before(x)))

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        loss: Tensor = self.loss(self(batch[0]), batch[0])
        return loss


def compile_child(model: Model) -> None:
    model.inner = compiled(model.inner)


def compile_child_in_place(model: Model) -> None:
    model.inner.compile(backend="aot_eager")


def compile_method(model: Model) -> None:
    model.forward = compiled(model.forward)  # type: ignore[method-assign]


def compile_function(model: Model) -> None:
    model.loss = smooth_loss


def compile_whole(model: Model) -> None:
    """As Lightning does with the result of ``torch.compile(model)``."""
    model.forward = compiled(model.forward)  # type: ignore[method-assign]
    model.training_step = compiled(model.training_step)  # type: ignore[method-assign]


def compile_nested(model: Model) -> None:
    model.inner.layers[0] = compiled(model.inner.layers[0])
    model.inner = compiled(model.inner)
    model.after.compile(backend="aot_eager")


def compile_with_breaks(model: Model) -> None:
    inner = model.inner.forward

    def breaking(x: Tensor) -> Tensor:
        y = inner(x)
        torch._dynamo.graph_break()  # type: ignore[no-untyped-call]
        return y + len(model.inner.layers)

    model.inner.forward = breaking  # type: ignore[method-assign]
    model.inner = compiled(model.inner)


WAYS = [
    compile_child, compile_child_in_place, compile_method, compile_function, compile_whole,
    compile_nested,
    compile_with_breaks,
]  # fmt: skip


def run(way: Any, directory: Path | None, **options: Any) -> tuple[Trace, dict[str, Any]]:
    torch._dynamo.reset()
    counters.clear()
    trace = train(
        Training(lambda: Model(way), lambda: [torch.randn(6, 4)], is_hooked=False),
        directory,
        **options,
    )
    return trace, {name: dict(copy.deepcopy(values)) for name, values in counters.items()}


@pytest.fixture(scope="module", params=WAYS, ids=lambda way: way.__name__)
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    directory = tmp_path_factory.mktemp("run")
    plain, observed = run(request.param, None), run(request.param, directory)
    return plain, observed, SummaryReader(directory).graph()


def test_nothing_is_compiled_again_and_no_graph_breaks_that_would_not_without_us(runs: Any) -> None:
    (_, plain), (_, observed), _ = runs

    assert plain["stats"]["unique_graphs"] >= 1
    assert observed == plain


def test_the_training_is_bit_for_bit_the_one_without_a_collector(runs: Any) -> None:
    (plain, _), (observed, _), _ = runs

    assert observed.values() == plain.values()


def test_a_compiled_region_is_one_node_with_its_parameters(runs: Any) -> None:
    (plain, _), _, graph = runs

    assert broken_rules(graph) == []
    weights = {name.replace("_orig_mod.", "") for name, _ in plain.model.named_parameters()}
    assert weights <= {source for source, _ in edges(graph)}


def graph_of(way: Any, directory: Path) -> Graph:
    run(way, directory)
    graph = SummaryReader(directory).graph()
    assert graph is not None
    return graph


def test_a_compiled_child_is_a_node_of_its_class(tmp_path: Path) -> None:
    graph = graph_of(compile_child, tmp_path)

    assert [node.full_name for node in graph.nodes] == [
        "before-Linear/Linear-op1", "inner-Inner/Inner-op2", "after-Linear/Linear-op3",
        "MSELoss-op4"
    ]  # fmt: skip


needs_result = pytest.mark.skipif(not keeps_result(compiled(smooth_loss)), reason=RESULT_IS_UNSEEN)


@needs_result
def test_a_compiled_function_is_a_node_of_its_name(tmp_path: Path) -> None:
    graph = graph_of(compile_function, tmp_path)

    assert graph.nodes[-1].full_name.startswith("smooth_loss-op")
    assert sources(graph, graph.nodes[-1]) == ["Linear", "batch.0"]


@needs_result
def test_a_compiled_training_step_is_a_single_node(tmp_path: Path) -> None:
    graph = graph_of(compile_whole, tmp_path)

    assert [node.full_name for node in graph.nodes] == ["training_step-op1"]
    assert "batch.0" in sources(graph, graph.nodes[0])


def test_a_torch_without_the_private_function_is_not_observed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    plain = run(compile_function, None)
    other = ModuleType(compiler.__name__)  # torch itself keeps the functions that it has
    vars(other).update(vars(compiler))
    del other._maybe_set_eval_frame
    monkeypatch.setitem(sys.modules, compiler.__name__, other)

    with caplog.at_level(logging.INFO, "mindsummary_lightning"):
        observed = run(compile_function, tmp_path)

    assert observed[1] == plain[1]
    assert observed[0].values() == plain[0].values()
    assert SummaryReader(tmp_path).graph() is None
    assert [line for line in caplog.messages if "graph" in line and "regions" in line] != []
