"""Trainings of the Trainer that are the same training: resumed, with other threads, and in two parts of a batch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lightning as L
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from mindsummary_lightning import Comparison, MindInsightLogger, SummaryCollector, compare_runs
from tests.trainer.support import trainer

_EVERYTHING = {"collect_metric": True, "histogram_regular": ".*"}


class Regression(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.layers = nn.Sequential(nn.Linear(6, 32), nn.BatchNorm1d(32), nn.Tanh(), nn.Linear(32, 1))

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        return nn.functional.mse_loss(self.layers(batch[0])[:, 0], batch[1])

    def configure_optimizers(self) -> Any:
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


def _fit(directory: Path, epochs: int, **arguments: Any) -> L.Trainer:
    generator = torch.Generator().manual_seed(3)
    inputs = torch.randn(160, 6, generator=generator)
    collector = SummaryCollector(collect_freq=1, collect_specified_data=_EVERYTHING, keep_default_action=False)
    fitting = trainer(
        max_epochs=epochs, logger=MindInsightLogger(directory, name="", version=""), callbacks=[collector]
    )
    fitting.fit(Regression(), DataLoader(TensorDataset(inputs, inputs.sum(1)), 16), **arguments)
    return fitting


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    _fit(tmp_path / "whole", 4)
    return tmp_path / "whole"


@pytest.fixture
def two_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(threads)


def _is_same(comparison: Comparison) -> bool:
    return (comparison.verdict, comparison.mode, comparison.compared["steps"]) == ("same", "exact", 40)


def test_a_resumed_training_is_the_same_as_one_that_was_not_interrupted(whole: Path, tmp_path: Path) -> None:
    _fit(tmp_path / "resumed", 2).save_checkpoint(tmp_path / "half.ckpt")
    _fit(tmp_path / "resumed", 4, ckpt_path=tmp_path / "half.ckpt")

    assert _is_same(compare_runs(whole, tmp_path / "resumed"))


def test_a_training_with_more_threads_is_the_same(whole: Path, tmp_path: Path, two_threads: None) -> None:
    _fit(tmp_path / "threads", 4)

    assert _is_same(compare_runs(whole, tmp_path / "threads"))


def test_a_training_that_was_continued_without_its_optimizer_parts_where_it_was_continued(
    whole: Path, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "half.ckpt"
    _fit(tmp_path / "resumed", 2).save_checkpoint(checkpoint)
    content = torch.load(checkpoint, weights_only=False)
    for state in content["optimizer_states"]:
        state["state"] = {}
    torch.save(content, checkpoint)
    _fit(tmp_path / "resumed", 4, ckpt_path=checkpoint)

    first = compare_runs(whole, tmp_path / "resumed").first_difference
    assert first is not None
    assert (first.step, first.kind) == (21, "update")
