"""Tensors that both runs recorded whole, and their statistics of every parameter, are compared like
histograms.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from mindsummary_lightning import MindInsightLogger, SummaryCollector, SummaryRecord, compare_runs
from tests.trainer.support import trainer

Change = Callable[[np.ndarray], np.ndarray]


def _write(
    directory: Path,
    different_from: int = 99,
    tag: str = "logits",
    change: Change = lambda values: values * 1.02,
) -> Path:
    with SummaryRecord(directory) as record:
        for step in range(1, 9):
            record.add_value("scalar", "loss", 1.0 / step)
            values = np.linspace(-1, 1, 50, dtype=np.float32)
            record.add_value("tensor", tag, change(values) if step >= different_from else values)
            record.record(step)
    return directory


def test_a_tensor_that_both_recorded_is_compared(tmp_path: Path) -> None:
    a = _write(tmp_path / "a")

    same = compare_runs(a, _write(tmp_path / "same", tag="net.logits/auto"))
    other = compare_runs(a, _write(tmp_path / "other", different_from=5))

    assert (same.verdict, same.whole_tensors) == ("same", {"logits": 0.0})
    first = other.first_difference
    assert first is not None
    assert (
        first.step,
        first.last_equal_step,
        first.stage,
        [tensor.baseline for tensor in first.tensors],
    ) == (
        5,
        4,
        None,
        ["logits"],
    )
    assert first.tensors[0].distance == pytest.approx(0.02 / 1.02, rel=1e-3)
    assert other.sentence.startswith(
        "from step 5, tensors recorded whole differ by up to 2.0e-02: logits"
    )


@pytest.mark.parametrize(
    ("change", "distance"),
    [
        (lambda x: np.linspace(-1, 1, 49, dtype=np.float32), np.inf),
        (lambda x: np.where(x == x[7], np.nan, x), np.inf),
        (lambda x: x * np.nan, np.inf),
        (lambda x: np.where(x == -1, x, np.abs(x)), 0.47),
    ],
    ids=["another size", "a number that is none", "no number", "another mean"],
)
def test_tensors_of_the_same_extremes_differ_by_the_rest(
    change: Change, distance: float, tmp_path: Path
) -> None:
    other = compare_runs(_write(tmp_path / "a"), _write(tmp_path / "b", 5, change=change))

    assert other.first_difference is not None
    assert (other.first_difference.step, other.first_difference.tensors[0].distance) == (
        5,
        pytest.approx(distance, 0.1),
    )


@pytest.mark.slow
def test_tensors_that_stand_in_the_middle_of_a_large_file_are_compared(tmp_path: Path) -> None:
    for name, factor in (("a", 1.0), ("b", 1.5)):
        with SummaryRecord(tmp_path / name) as record:
            for step in range(1, 31):
                record.add_value("scalar", "loss", 1.0 / step)
                record.add_value(
                    "image",
                    "input",
                    np.random.default_rng(step).random((1, 3, 300, 300), np.float32),
                )
                if 12 <= step < 18:
                    record.add_value(
                        "tensor", "logits", np.linspace(-1, 1, 50, dtype=np.float32) * factor
                    )
                record.record(step)

    comparison = compare_runs(tmp_path / "a", tmp_path / "b")

    assert (
        comparison.verdict,
        comparison.first_difference and comparison.first_difference.step,
    ) == ("different", 12)


def test_rounding_in_a_tensor_is_no_difference_and_is_stated(tmp_path: Path) -> None:
    comparison = compare_runs(
        _write(tmp_path / "a"),
        _write(tmp_path / "b", different_from=3, change=lambda x: x * 1.0001),
    )

    assert comparison.verdict == "same"
    assert comparison.whole_tensors["logits"] == pytest.approx(1e-4, rel=1e-2)


def test_of_tensors_recorded_whole_the_farthest_at_the_first_step_come_first(
    tmp_path: Path,
) -> None:
    for run, factor in (("a", 0.0), ("b", 1.0)):
        with SummaryRecord(tmp_path / run) as record:
            for step in range(1, 9):
                record.add_value("scalar", "loss", 1.0 / step)
                for tag, begin, far in (("logits", 5, 0.02), ("scores", 5, 0.1), ("late", 7, 0.5)):
                    if tag != "late" or step > 5:
                        values = np.linspace(-1, 1, 50, dtype=np.float32) * (
                            1 + factor * far * (step == begin)
                        )
                        record.add_value("tensor", tag, values)
                record.record(step)

    for tolerance, step, after, tensors in (
        (None, 5, 4, ["scores", "logits"]),
        (0.05, 5, 4, ["scores"]),
        (0.2, 7, 6, ["late"]),
        (0.4, None, None, None),
    ):
        comparison = compare_runs(tmp_path / "a", tmp_path / "b", tolerance=tolerance)
        first = comparison.first_difference
        assert [*comparison.whole_tensors] == ["late", "scores", "logits"]
        assert comparison.whole_tensors["late"] == pytest.approx(1 / 3)
        found = first and (
            first.step,
            first.last_equal_step,
            [tensor.baseline for tensor in first.tensors],
        )
        assert found == (step and (step, after, tensors))


def test_weights_decide_before_a_tensor_that_a_script_recorded() -> None:
    runs = Path(__file__).parents[2] / "oracle" / "mindspore_runs"

    # with other random scores at step 0
    comparison = compare_runs(runs / "momentum_0.01", runs / "momentum_0.05")

    assert comparison.first_difference is not None
    assert (comparison.first_difference.step, comparison.first_difference.stage) == (1, None)
    assert comparison.whole_tensors["scores"] > 0.1


def test_a_tensor_of_one_run_only_says_nothing(tmp_path: Path) -> None:
    comparison = compare_runs(_write(tmp_path / "a"), _write(tmp_path / "b", tag="another"))

    assert (comparison.verdict, comparison.whole_tensors, comparison.notes) == ("same", {}, ())
    assert (comparison.only_in_baseline.tensors, comparison.only_in_candidate.tensors) == ((), ())
    for run, step in (("early", 1), ("late", 2)):
        with SummaryRecord(tmp_path / run) as record:
            for at in (1, 2):
                record.add_value("scalar", "loss", 1.0 / at)
                record.record(at)
            record.add_value("tensor", "logits", np.ones(3, np.float32))
            record.record(2 + step)
    assert compare_runs(tmp_path / "early", tmp_path / "late").whole_tensors == {}


class Net(L.LightningModule):
    def __init__(self, decay: float) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first, self.last, self.decay = nn.Linear(4, 16), nn.Linear(16, 1), decay

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        return nn.functional.mse_loss(self.last(torch.tanh(self.first(batch[0])))[:, 0], batch[1])

    def configure_optimizers(self) -> Any:
        groups = [
            {"params": [*self.first.parameters()]},
            {"params": [self.last.weight], "weight_decay": self.decay},
        ]
        return torch.optim.SGD(groups, lr=0.05)


def _train(directory: Path, decay: float) -> Path:
    inputs = torch.randn(96, 4, generator=torch.Generator().manual_seed(2))
    specified = {"collect_metric": True, "histogram_regular": "first.weight"}
    collector = SummaryCollector(
        collect_freq=1, collect_specified_data=specified, keep_default_action=False,
        collect_tensor_freq=1,
        collect_parameter_statistics=True,
    )  # fmt: skip
    fitting = trainer(
        max_epochs=1,
        logger=MindInsightLogger(directory, name="", version=""),
        callbacks=[collector],
    )
    fitting.fit(Net(decay), DataLoader(TensorDataset(inputs, inputs.sum(1)), 8))
    return directory


@pytest.mark.slow
def test_statistics_show_what_no_histogram_was_recorded_of(tmp_path: Path) -> None:
    a = _train(tmp_path / "a", 0.0)

    same = compare_runs(a, _train(tmp_path / "same", 0.0))
    other = compare_runs(a, _train(tmp_path / "other", 0.1))

    assert (same.verdict, same.compared.tensors) == ("same", 3)
    first = other.first_difference
    assert first is not None
    assert (first.step, first.stage) == (1, None)
    assert [tensor.baseline for tensor in first.tensors] == ["last.weight (statistics)"]
