"""Trainings in the style of real projects are the same with the pair beside them, and what it
records is right.
"""

from __future__ import annotations

import csv
import importlib
import logging
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import pytest
import torch
from lightning.pytorch.loggers import CSVLogger

from mindsummary_lightning import MindInsightLogger, SummaryCollector, SummaryReader
from tests.trainings.training import Training

pytestmark = pytest.mark.slow

_SCRIPTS = sorted(
    path.stem
    for path in Path(__file__).parent.glob("*.py")
    if path.stem not in ("__init__", "training", "test_trainings")
)
_EVERY_STEP = {"log_every_n_steps": 1}


@dataclass(frozen=True)
class _Outcome:
    metrics: list[dict[str, str]]
    weights: dict[str, torch.Tensor]
    random_state: tuple[Any, ...]
    new_files: set[str]


def _train(
    training: Training, folder: Path, working: Path, pair: list[Any], collector: list[L.Callback]
) -> _Outcome:
    before = {str(path) for path in working.rglob("*")}
    L.seed_everything(7)
    module, data = training.module(), training.data()
    csv_logger = CSVLogger(folder, name="csv", version="0")
    trainer = L.Trainer(
        accelerator="cpu",
        logger=[csv_logger, *pair],
        callbacks=[*training.callbacks(), *collector],
        default_root_dir=folder,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        **{**_EVERY_STEP, **training.trainer},
    )
    trainer.fit(module, **data)
    if training.tests:
        trainer.test(module, data["val_dataloaders"], verbose=False)
    path = Path(csv_logger.log_dir, "metrics.csv")
    metrics = list(csv.DictReader(path.open(encoding="utf-8"))) if path.exists() else []
    weights = {name: value.detach().clone() for name, value in module.state_dict().items()}
    state = (torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist())  # noqa: NPY002  # users' code draws from it
    return _Outcome(metrics, weights, state, {str(path) for path in working.rglob("*")} - before)


@pytest.mark.parametrize("name", _SCRIPTS)
def test_a_training_is_the_same_with_the_pair_and_its_scalars_are_recorded(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    training: Training = importlib.import_module(f"tests.trainings.{name}").TRAINING
    working = tmp_path / "working"
    working.mkdir()
    monkeypatch.chdir(working)
    alone = _train(training, tmp_path / "alone", working, [], [])
    printed_alone = capsys.readouterr()
    caplog.clear()
    logger = MindInsightLogger(tmp_path / "runs", name="run")
    collector = SummaryCollector(collect_freq=2, **training.collector)

    beside = _train(training, tmp_path / "beside", working, [logger], [collector])

    printed = capsys.readouterr()
    assert beside.metrics == alone.metrics
    assert beside.weights.keys() == alone.weights.keys()
    for key, value in alone.weights.items():
        assert torch.equal(beside.weights[key], value), key
    assert beside.random_state == alone.random_state
    assert beside.new_files == alone.new_files == set()
    assert len(printed.out.splitlines()) <= len(printed_alone.out.splitlines()) + 2
    said = [
        r.getMessage()
        for r in caplog.records
        if r.name.startswith("mindsummary") and r.levelno >= logging.WARNING
    ]
    assert len(said) <= 2, said
    assert _recorded(logger.log_dir) == _logged(alone.metrics)


def _recorded(log_dir: str) -> dict[tuple[str, int], np.float32]:
    """Every scalar of the run but the collector's own, by tag and step."""
    scalars = SummaryReader(log_dir).all_scalars()
    own = ("loss/auto", "gradient_norm")
    return {
        (tag, int(step)): value
        for tag, series in scalars.items()
        if tag not in own
        for step, value in zip(series.steps, series.values, strict=True)
    }


def _logged(metrics: list[dict[str, str]]) -> dict[tuple[str, int], np.float32]:
    return {
        (tag, int(row["step"])): np.float32(text)
        for row in metrics
        for tag, text in row.items()
        # Lightning adds both to what is logged; the epoch is not a curve
        if text and tag not in ("step", "epoch")
    }
