"""What is recorded of other libraries' trainings is what they did, and they train as without us.

``nox -s libraries`` installs them; without one, its tests are skipped.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any, NamedTuple

import lightning as L
import numpy as np
import pytest
from lightning.pytorch.loggers import TensorBoardLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from mindsummary_lightning import MindInsightLogger, SummaryCollector, SummaryReader
from mindsummary_lightning.conversion.histograms import to_histogram
from tests.graph.reader_rules import broken_rules, edges, unconnected
from tests.trainer.foreign_scripts import SCRIPTS, Script

pytestmark = pytest.mark.slow

# TensorBoardLogger writes it beside hyper-parameters that come without a metric
_PLACEHOLDER = "hp_metric"


class Witness(L.Callback):
    """What happened in a training."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.samples: list[int] = []
        self.epochs = 0
        self.weights: dict[str, Any] = {}
        self.gradients: set[str] = set()

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        self.samples.append(self.script.samples(batch))

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        self.gradients |= {
            name for name, weight in pl_module.named_parameters() if weight.grad is not None
        }

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        self.epochs += 1

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self.weights = {
            name: weight.detach().clone()
            for name, weight in pl_module.named_parameters()
            if weight.requires_grad
        }


class Trained(NamedTuple):
    script: Script
    plain: Any
    observed: Any
    witness: Witness
    run: SummaryReader


@pytest.fixture(scope="module", params=SCRIPTS)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    if importlib.util.find_spec(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    script, folder = SCRIPTS[request.param], tmp_path_factory.mktemp("run")
    quiet: dict[str, Any] = {
        "accelerator": "cpu", "devices": 1, "logger": False, "enable_progress_bar": False,
        "enable_model_summary": False, "enable_checkpointing": False,
    }  # fmt: skip
    witness = Witness(script)
    collector = SummaryCollector(
        folder, collect_freq=2, collect_specified_data={"histogram_regular": ".*"}
    )
    L.seed_everything(5, verbose=False)
    plain = script.fit(dict(quiet))
    L.seed_everything(5, verbose=False)
    observed = script.fit({**quiet, "callbacks": [witness, collector]})
    return Trained(script, plain, observed, witness, SummaryReader(folder))


def bits(module: Any) -> dict[str, bytes]:
    return {name: value.numpy().tobytes() for name, value in module.state_dict().items()}


def test_the_weights_are_bit_for_bit_those_without_us(trained: Trained) -> None:
    assert bits(trained.observed) == bits(trained.plain)


def test_sizes_are_those_of_the_batches_or_none(trained: Trained) -> None:
    train = trained.run.lineage().train
    samples = trained.witness.samples
    an_epoch = sum(samples[: len(samples) // trained.witness.epochs])

    expected = (samples[0], an_epoch) if trained.script.has_sizes else (None, None)
    assert (train.batch_size, train.train_dataset_size) == expected


def test_the_loss_function_is_the_one_that_was_called(trained: Trained) -> None:
    train = trained.run.lineage().train

    assert train.loss_function == trained.script.loss_function


def test_the_last_histograms_are_those_of_the_weights(trained: Trained) -> None:
    weights = trained.witness.weights
    for name, weight in weights.items():
        *_, (_, _, histogram) = trained.run.histograms(f"{name}/auto")
        np.testing.assert_array_equal(
            histogram.counts, to_histogram(weight.reshape(-1)).counts, name
        )


def test_the_graph_keeps_the_readers_rules_and_has_every_parameter_with_a_gradient(
    trained: Trained,
) -> None:
    graph = trained.run.graph()

    assert graph is not None
    assert broken_rules(graph) == []
    assert unconnected(graph) == set()
    assert {name.replace(" ", "_") for name in trained.witness.gradients} <= {
        source for source, _ in edges(graph)
    }


class AddLogger(L.Callback):
    """The recipe for a library that makes its loggers itself."""

    def __init__(self, logger: MindInsightLogger) -> None:
        self.logger = logger

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        if self.logger not in trainer.loggers:
            trainer.loggers = [*trainer.loggers, self.logger]


@pytest.mark.parametrize("way", ["given", "added by a callback"])
@pytest.mark.parametrize("name", SCRIPTS)
def test_every_scalar_is_that_of_a_tensorboard_logger_beside_it(
    tmp_path: Path, name: str, way: str
) -> None:
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    board = TensorBoardLogger(str(tmp_path / "board"))
    ours = MindInsightLogger(tmp_path / "ours")
    loggers = [board, ours] if way == "given" else [board]
    callbacks = [] if way == "given" else [AddLogger(ours)]
    L.seed_everything(1)
    options = {"enable_checkpointing": False, "log_every_n_steps": 1, "enable_progress_bar": False}
    SCRIPTS[name].fit({"logger": loggers, "callbacks": callbacks, **options})

    events = EventAccumulator(board.log_dir, size_guidance={"scalars": 0})
    events.Reload()
    found = SummaryReader(ours.log_dir).all_scalars()
    tags = set(events.Tags()["scalars"]) - {"epoch", _PLACEHOLDER}
    assert tags
    assert set(found) == tags
    for tag in tags:
        theirs = events.Scalars(tag)
        assert found[tag].steps.tolist() == [one.step for one in theirs]
        np.testing.assert_array_equal(found[tag].values, np.float32([one.value for one in theirs]))
