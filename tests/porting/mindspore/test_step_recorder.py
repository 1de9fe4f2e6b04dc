"""What ``StepRecorder`` recorded in a real MindSpore; ``nox -s parity`` makes the runs."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import pytest
import torch
from torch import nn

from mindsummary_lightning import SummaryCollector, SummaryReader, compare_runs
from mindsummary_lightning.reading.output_statistics import OutputStatistics

RUNS = os.environ.get("MINDSPORE_STEPS", "")
pytestmark = pytest.mark.skipif(
    not RUNS, reason="MINDSPORE_STEPS names no runs of MindSpore; `nox -s parity` makes them"
)

# as they finish
CELLS = ["conv", "bn", "relu", "flat", "body.0", "body.1", "body.2", "body", "relu", "fc", ""]
PARAMETERS = [
    "conv.weight",
    "bn.gamma",
    "bn.beta",
    "body.0.weight",
    "body.0.bias",
    "body.2.weight",
    "body.2.bias",
    "fc.weight",
    "fc.bias",
]


def _table(case: str) -> OutputStatistics:
    table = SummaryReader(Path(RUNS) / case).output_statistics()
    assert table is not None
    return table


def _column(case: str, link: str, column: str, step: int = 2, port: str = "") -> dict[str, float]:
    table = _table(case)
    rows, values = table.rows_at(step)
    place = table.columns.index(column)
    return {
        row.name: value
        for row, value in zip(rows, values[:, place], strict=True)
        if row.link == link and port in ("", row.port)
    }


@pytest.mark.parametrize(
    "case", ["model", "loop", "recomputed", "groups", "scaled", "own", "compiled", "graph"]
)
def test_the_weights_after_a_training_are_those_of_one_that_is_not_recorded(case: str) -> None:
    recorded, plain = (
        np.load(Path(RUNS) / f"{case}-{which}.npz") for which in ("recorded", "plain")
    )

    assert [name for name in plain if recorded[name].tobytes() != plain[name].tobytes()] == []
    assert len(plain.files) == 11


@pytest.mark.parametrize("case", ["model", "loop", "recomputed", "groups", "scaled", "own"])
def test_a_step_has_all_its_links_in_their_order(case: str) -> None:
    rows, values = _table(case).rows_at(2)

    assert [*dict.fromkeys(row.link for row in rows)] == [
        "data",
        "weights",
        "forward",
        "loss",
        "gradients",
        "settings",
        "update",
    ]
    assert [row.name for row in rows if row.link == "forward" and row.port == "output"] == CELLS
    assert [row.name for row in rows if row.link == "gradients"] == (
        sorted(PARAMETERS, key=lambda name: "bias" in name) if case == "groups" else PARAMETERS
    )
    assert Counter(row.kind for row in rows if row.link == "weights") == {
        "parameter": 9,
        "buffer": 2,
    }
    assert [row.name for row in rows if row.link == "data"] == (
        ["x", "y"] if case == "loop" else ["0", "1"]
    )
    assert values[:, 0].tolist() == [*range(len(rows))]


def test_the_recorded_steps_are_those_that_were_asked_for() -> None:
    assert _table("model").steps.tolist() == [2, 3]
    assert _table("loop").steps.tolist() == [1, 2]


def test_a_row_says_what_it_is_of() -> None:
    rows, _ = _table("model").rows_at(2)
    calls = [row for row in rows if (row.link, row.name, row.port) == ("forward", "relu", "output")]

    assert [(row.kind, row.call, row.shape, row.dtype) for row in calls] == [
        ("ReLU", 0, (8, 4, 8, 8), "float32"),
        ("ReLU", 1, (8, 16), "float32"),
    ]
    assert {row.line.rpartition(":")[0].rpartition("/")[2] for row in calls} == {
        "record_with_mindspore.py"
    }


@pytest.mark.parametrize("case", ["model", "loop"])
def test_the_loss_the_batch_and_the_weights_are_those_of_the_step(case: str) -> None:
    step, reader = 2, SummaryReader(Path(RUNS) / case)
    x = np.random.default_rng(1).normal(0, 1, (24, 1, 8, 8)).astype(np.float32)[8:16]
    batch = _column(case, "data", "rms")

    assert next(iter(batch.values())) == pytest.approx(
        np.sqrt(np.square(x.astype(np.float64)).mean()), rel=1e-6
    )
    losses = reader.scalars("loss/auto")
    assert [*_column(case, "loss", "mean").values()] == pytest.approx(
        losses.values[losses.steps == step], rel=1e-6
    )
    before, after = (_column(case, link, "sample_3") for link in ("weights", "update"))
    assert before["fc.weight"] != after["fc.weight"]
    if case == "model":
        assert _column(case, "weights", "sample_3", 3) == after


def test_gradients_are_without_the_scale_of_the_loss() -> None:
    expected, scaled = (_column(case, "gradients", "rms") for case in ("model", "scaled"))

    assert scaled == pytest.approx(expected, rel=1e-4)


def test_gradients_are_as_the_optimizer_gets_them() -> None:
    norms = _column("own", "gradients", "rms"), _column("own", "gradients", "elements")
    square = sum(norms[0][name] ** 2 * norms[1][name] for name in PARAMETERS)

    assert square**0.5 == pytest.approx(0.01, rel=1e-3)


def test_settings_are_those_of_the_step_and_of_what_the_optimizer_applies() -> None:
    def settings(case: str, port: str) -> list[float]:
        return [*_column(case, "settings", "mean", port=port).values()]

    rate = 0.01 + 0.5 * (0.1 - 0.01) * (1 + np.cos(np.pi / 4))  # the second step of the cosine
    assert settings("model", "lr") == pytest.approx([rate, rate], rel=1e-5)
    # MindSpore does not decay gamma and beta
    assert settings("model", "weight_decay") == pytest.approx([0.01, 0])
    assert settings("scaled", "weight_decay") == pytest.approx([0.01, 0])
    assert settings("model", "momentum") == pytest.approx([0.9, 0.9])
    assert settings("groups", "lr") == pytest.approx([0.01, 0.05])
    assert settings("groups", "weight_decay") == pytest.approx([0.1, 0])


def test_in_graph_mode_there_are_batch_weights_and_loss() -> None:
    rows, _ = _table("graph").rows_at(2)

    assert {row.link for row in rows} == {"data", "weights", "loss", "update"}


def test_what_is_compiled_is_recorded_from_outside() -> None:
    rows, _ = _table("compiled").rows_at(2)

    outputs = [row.name for row in rows if row.link == "forward" and row.port == "output"]
    assert outputs == ["conv", "bn", "relu", "flat", "body", "relu", "fc", ""]
    assert len([row for row in rows if row.link == "gradients"]) == len(PARAMETERS)


class Port(L.LightningModule):
    """The net of ``record_with_mindspore.py``."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.body, self.fc = (
            nn.Sequential(nn.Linear(256, 16), nn.ReLU(), nn.Linear(16, 16)),
            nn.Linear(16, 4),
        )
        for place, (name, weight) in enumerate(self.named_parameters()):
            value = np.random.default_rng(place).normal(
                1 if name == "bn.weight" else 0, 0.2, weight.shape
            )
            weight.data = torch.from_numpy(value).float()

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        hidden = self.body(self.bn(self.conv(batch[0])).relu().flatten(1))
        return nn.functional.cross_entropy(self.fc(hidden.relu()), batch[1])

    def configure_optimizers(self) -> Any:
        norms = [*self.bn.parameters()]
        others = [*self.conv.parameters(), *self.body.parameters(), *self.fc.parameters()]
        groups = [{"params": others, "weight_decay": 0.01}, {"params": norms}]
        optimizer = torch.optim.SGD(groups, 1.0, momentum=0.9)
        rates = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda at: 0.055 + 0.045 * np.cos(np.pi * at / 4)
        )
        return [optimizer], [{"scheduler": rates, "interval": "step"}]


@pytest.mark.parametrize("limit", [0.01, 0.02])
def test_the_limit_of_a_clipped_norm_is_compared_across_frameworks(
    limit: float, tmp_path: Path
) -> None:
    x = np.random.default_rng(1).normal(0, 1, (24, 1, 8, 8)).astype(np.float32)
    y = np.random.default_rng(2).integers(0, 4, 24)
    data = torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
    L.Trainer(
        accelerator="cpu",
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        gradient_clip_val=limit,
        callbacks=[SummaryCollector(tmp_path, collect_output_statistics=(1, 2))],
    ).fit(Port(), torch.utils.data.DataLoader(data, 8))

    first = compare_runs(Path(RUNS) / "own", tmp_path).first_difference
    if limit == 0.01:
        assert first is None
    else:
        assert first is not None
        assert (first.stage, first.step) == ("gradients", 1)
        ((_, ours, theirs),) = first.settings
        assert [*ours, *theirs] == pytest.approx([0.01, limit], rel=1e-3)
