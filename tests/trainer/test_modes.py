"""Trainers that must not leave files, or not those.

Tuning, fast_dev_run, barebones, sanity checks, no logger.
"""

from __future__ import annotations

import gc
import logging
from pathlib import Path

import pytest
from lightning.pytorch.tuner import Tuner

from mindsummary_lightning import (
    EvalLineage,
    MindInsightLogger,
    SummaryCollector,
    SummaryReader,
    TrainLineage,
)
from tests.trainer.support import (
    NAMESPACES,
    Net,
    errors_of,
    files,
    loader,
    module_of,
    points,
    steps,
    trainer,
)


def _callbacks(directory: Path) -> list[object]:
    return [
        SummaryCollector(directory / "c"),
        TrainLineage(directory / "t"),
        EvalLineage(directory / "e"),
    ]


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_fast_dev_run_writes_nothing(tmp_path: Path, namespace: str) -> None:
    logger = MindInsightLogger(tmp_path / "logger")
    running = trainer(namespace, logger=logger, callbacks=_callbacks(tmp_path), fast_dev_run=2)
    running.fit(module_of(namespace), loader(), loader(2))
    running.test(module_of(namespace), loader(2), verbose=False)

    assert files(tmp_path) == []


def test_barebones_trains_without_the_logger_and_the_collector_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    running = trainer(
        barebones=True,
        callbacks=[SummaryCollector()],
        num_sanity_val_steps=None,
        log_every_n_steps=None,
        enable_progress_bar=None,
        enable_model_summary=None,
        enable_checkpointing=None,
        default_root_dir=tmp_path,
    )
    running.fit(Net(), loader())

    assert files(tmp_path) == []
    assert sum("records nothing" in record.message for record in caplog.records) == 1


def test_without_any_logger_the_collector_records_nothing_and_says_it_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    running = trainer(logger=False, callbacks=[SummaryCollector()], default_root_dir=tmp_path)
    running.fit(Net(), loader())
    running.validate(Net(), loader(), verbose=False)

    assert files(tmp_path) == []
    assert sum("records nothing" in record.message for record in caplog.records) == 1
    assert errors_of(caplog, tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("method", ["lr_find", "scale_batch_size"])
def test_a_tuner_leaves_no_files(
    tmp_path: Path, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    gc.collect()  # the loggers of other tests, which may have lost records
    caplog.clear()
    caplog.set_level(logging.WARNING)
    running = trainer(
        logger=MindInsightLogger(tmp_path / "logger"),
        callbacks=_callbacks(tmp_path),
        default_root_dir=tmp_path / "root",
    )
    tuner = Tuner(running)
    net = Net()
    if method == "lr_find":
        tuner.lr_find(net, loader(20), num_training=10, update_attr=False)
    else:
        net.batch_size = 2  # type: ignore[assignment]
        net.val_dataloader = net.train_dataloader = lambda: loader(4, net.batch_size)  # type: ignore
        tuner.scale_batch_size(net, max_trials=2, steps_per_trial=2)

    assert files(tmp_path) == []
    assert not [record for record in caplog.records if record.name.startswith("mindsummary")]


def test_a_run_after_tuning_is_recorded_from_its_first_step(tmp_path: Path) -> None:
    logger = MindInsightLogger(tmp_path / "logger")
    running = trainer(
        logger=logger,
        callbacks=[SummaryCollector(collect_freq=1)],
        default_root_dir=tmp_path / "root",
    )
    net = Net()
    Tuner(running).lr_find(net, loader(20), num_training=10, update_attr=False)
    running.fit(net, loader())

    assert steps(logger.log_dir, "loss/auto") == [1, 2, 3, 4, 5, 6]
    assert steps(logger.log_dir, "train/loss") == [0, 1, 2, 3, 4, 5]


def test_a_sanity_check_is_no_evaluation(tmp_path: Path) -> None:
    logger = MindInsightLogger(tmp_path)
    running = trainer(
        logger=logger,
        callbacks=[SummaryCollector(), EvalLineage(logger)],
        num_sanity_val_steps=2,
        limit_val_batches=2,
        check_val_every_n_epoch=5,
    )
    running.fit(Net(), loader(), loader(2))

    assert SummaryReader(logger.log_dir).lineage().evaluation is None
    assert "val/loss" not in SummaryReader(logger.log_dir).tags()["scalar"]


@pytest.mark.parametrize("namespace", ["lightning.fabric", "lightning_fabric"])
def test_fabric_logs_through_the_logger(tmp_path: Path, namespace: str) -> None:
    pytest.importorskip(namespace)
    fabric_class = __import__(namespace, fromlist=["Fabric"]).Fabric
    logger = MindInsightLogger(tmp_path)
    fabric = fabric_class(accelerator="cpu", devices=1, loggers=logger)
    fabric.launch()
    fabric.log("loss", 0.5, step=3)
    fabric.log_dict({"loss": 0.25, "accuracy": 1.0}, step=4)

    assert points(logger.log_dir, "loss") == [(3, 0.5), (4, 0.25)]
    assert points(logger.log_dir, "accuracy") == [(4, 1.0)]


def test_two_collectors_are_refused_before_anything_is_made(tmp_path: Path) -> None:
    running = trainer(
        logger=MindInsightLogger(tmp_path),
        callbacks=[SummaryCollector(), SummaryCollector(tmp_path / "other")],
    )

    with pytest.raises(ValueError, match="one SummaryCollector"):
        running.fit(Net(), loader())
    assert files(tmp_path) == []
