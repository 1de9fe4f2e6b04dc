"""A real MindInsight shows every data pipeline as we read it, on the data graph and the data
lineage page.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mindsummary_lightning.recording.summary_record import SummaryRecord
from mindsummary_lightning.values import DatasetGraph, TrainInfo
from tests.oracle.browser import Browser
from tests.oracle.mindinsight_server import MindInsight

pytest.importorskip("torch")

from mindsummary_lightning.dataset.pipeline import dataset_graph
from tests.dataset.pipelines import PIPELINES

_DRAWN_ALWAYS = {"combined", "untouchable"}  # by Chromium; the others with --full


# One run after another, each newest when it is asked for: the server keeps no more than fifteen
# loaded.
@pytest.fixture(scope="module", params=PIPELINES)
def run(
    request: pytest.FixtureRequest, runs: Path, mindinsight: MindInsight
) -> tuple[str, DatasetGraph]:
    """A run and the pipeline recorded there."""
    name = f"data-{request.param}"
    graph = dataset_graph(PIPELINES[request.param](), None)
    assert graph is not None
    with SummaryRecord(str(runs / name)) as record:
        record.add_value("scalar", "loss", 0.5)
        record.add_value("dataset_graph", "pipeline", graph)
        record.add_value("train_lineage", "train", TrainInfo(network="Net", loss=0.5))
        record.record(1)
    mindinsight.wait_cached(f"./{name}")
    mindinsight.wait_lineage(f"./{name}")
    return f"./{name}", graph


def expected(graph: DatasetGraph) -> dict[str, Any]:
    """What the server makes of a stage: parameters beside each other, children and operations as
    lists.
    """
    shown: dict[str, Any] = {name: _value(value) for name, value in graph.parameter.items()}
    if graph.operations:
        shown["operations"] = [
            {n: _value(v) for n, v in entry.parameter.items()} for entry in graph.operations
        ]
    if graph.sampler is not None:
        shown["sampler"] = {name: _value(value) for name, value in graph.sampler.parameter.items()}
        if graph.sampler.weights:
            shown["sampler"]["weights"] = [
                pytest.approx(weight) for weight in graph.sampler.weights
            ]
    shown["children"] = [expected(child) for child in graph.children]
    return shown


def _value(value: Any) -> Any:
    if isinstance(value, tuple):
        return [element or None for element in value]
    return None if value == "None" else value


def test_the_server_answers_every_stage_with_its_operations_and_parameters(
    mindinsight: MindInsight, run: tuple[str, DatasetGraph]
) -> None:
    train_id, graph = run

    assert mindinsight.dataset_graph(train_id) == expected(graph)


@pytest.mark.parametrize(
    "run",
    [
        name if name in _DRAWN_ALWAYS else pytest.param(name, marks=pytest.mark.long)
        for name in PIPELINES
    ],
    indirect=True,
)
def test_chromium_draws_the_pipeline(browser: Browser, run: tuple[str, DatasetGraph]) -> None:
    train_id, graph = run

    browser.open("data graph", train_id)

    assert browser.wait_drawn(".cl-data-map svg g.node") >= 1 + len(graph.children)
    assert browser.errors() == []
    assert browser.placeholders() == []


@pytest.mark.parametrize("run", ["combined", "untouchable"], indirect=True)
def test_chromium_draws_the_lineage_of_pipelines(
    browser: Browser, run: tuple[str, DatasetGraph]
) -> None:
    train_id, _ = run

    browser.open("data lineage")

    assert train_id in browser.text()
    assert browser.errors() == []
