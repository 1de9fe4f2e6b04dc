"""Rows 17 and 20: names and values that are not what anyone expects."""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import read_lineage, read_scalars, read_values

pytestmark = pytest.mark.faults
pytest.importorskip("lightning")

import lightning  # noqa: E402  (after the check that it is there)
import torch  # noqa: E402

from mindsummary_lightning import MindInsightLogger  # noqa: E402
from mindsummary_lightning.values import UserDefinedInfo  # noqa: E402

Figure = Callable[[int, str], None]

PARTS = [
    *("..", "/", "\\", "\0", "\n", "\r", "\t", "\ud800", "\udcff", "\u202e"),
    *("<", ">", '"', "'", "%", "&", " ", "损失", "C:", "~"),
]


def hostile_names(count: int) -> list[str]:
    draw = random.Random(17)
    fixed = [
        "",
        ".",
        "..",
        "/",
        "../../../etc/passwd",
        "a" * 4096,
        "\0",
        "CON",
        "$HOME",
        "~",
        "model.pb",
        "summary.1",
    ]
    return fixed + [
        "".join(draw.choices(PARTS, k=draw.randrange(1, 9))) + str(n)
        for n in range(count - len(fixed))
    ]


def outside(tmp_path: Path, run: Path) -> list[str]:
    found = [
        os.path.realpath(os.path.join(place, name))
        for place, _, names in os.walk(tmp_path)
        for name in names
    ]
    return [path for path in found if not path.startswith(os.path.realpath(run) + os.sep)]


@pytest.fixture
def logger(tmp_path: Path) -> Iterator[MindInsightLogger]:
    logger = MindInsightLogger(
        tmp_path / "runs", name="", version="run", export_options={"tensor_format": "npy"}
    )
    yield logger
    logger.finalize("success")


def test_hostile_tags_lead_nowhere_and_raise_nothing(
    tmp_path: Path, logger: MindInsightLogger, figure: Figure
) -> None:
    names = hostile_names(200)
    logger.log_metrics(dict.fromkeys(names, 1.0), 1)
    for name in names[1:]:
        logger.experiment.add_value("tensor", name, np.ones(1))
    logger.experiment.record(2)

    run = tmp_path / "runs" / "run"
    assert outside(tmp_path, run) == []
    shown = {tag for _, tag, _ in read_values(run)}
    assert {name for name in names[1:] if name.isprintable()} <= shown
    assert len(shown) == len(names) - 1  # all but the empty one
    figure(17, "200 hostile tags as scalars and exported tensors: 0 paths outside, 0 exceptions")


def test_hostile_hyper_parameter_names_lead_nowhere_and_raise_nothing(
    tmp_path: Path, logger: MindInsightLogger
) -> None:
    names = hostile_names(200)
    logger.log_hyperparams({name: name for name in names})
    logger.log_metrics({"a": 1.0}, step=0)

    run = tmp_path / "runs" / "run"
    recorded = [
        event.what for event in read_lineage(run) if isinstance(event.what, UserDefinedInfo)
    ]
    assert outside(tmp_path, run) == []
    assert len(recorded[0].values) >= len(names) - 1


def odd_values() -> dict[str, tuple[Any, float | None]]:
    """Values as a training step may log them, and what is recorded: a number, or nothing (one
    warning).
    """
    one = torch.tensor([1.5])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some of these kinds are old, some too new
        quantised = torch.quantize_per_tensor(one, 0.5, 0, torch.qint8)
        nested = torch.nested.nested_tensor([torch.ones(1)])
    return {
        "nan": (float("nan"), np.nan),
        "inf": (float("inf"), np.inf),
        "beyond float32": (1e40, np.inf),
        "int": (2**40, 2.0**40),
        "huge int": (10**400, None),
        "bool": (True, 1.0),
        "None": (None, None),
        "text": ("0.5", None),
        "empty list": ([], None),
        "empty tensor": (torch.empty(0), None),
        "two elements": (torch.ones(2), None),
        "0-d": (torch.tensor(1.5), 1.5),
        "one element of three dimensions": (one.reshape(1, 1, 1), 1.5),
        "with gradient": (one.clone().requires_grad_(), 1.5),
        "bfloat16": (one.bfloat16(), 1.5),
        "float8": (one.to(torch.float8_e4m3fn), 1.5),
        "half": (one.half(), 1.5),
        "complex": (torch.tensor(1 + 2j), None),
        "python complex": (1 + 2j, None),
        "sparse": (torch.tensor([[1.5]]).to_sparse(), 1.5),
        "meta": (torch.ones((), device="meta"), None),
        "quantised": (quantised, 1.5),
        "nested": (nested, None),
        "object array": (np.array([object()]), None),
        "text array": (np.array("x"), None),
        "date": (np.datetime64("2026-01-01"), None),
        "masked": (np.ma.masked_array([1.0], mask=[True]), None),
        "longdouble": (np.longdouble(1.5), 1.5),
        "big-endian": (np.array([1.5], ">f4"), 1.5),
        "object": (object(), None),
        "function": (odd_values, None),
        "set": ({1.0}, None),
        "mapping that holds nothing": ({}, None),
    }


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", odd_values())
def test_an_odd_value_is_recorded_or_left_out_and_never_ends_training(
    tmp_path: Path, logger: MindInsightLogger, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    value, expected = odd_values()[name]
    for step in (1, 2):
        logger.log_metrics({"odd": value, "even": float(step)}, step)
    said = sum("is skipped" in text for text in caplog.messages)
    assert said == (expected is None and name != "mapping that holds nothing")
    logger.log_hyperparams({"odd": value})

    run = tmp_path / "runs" / "run"
    recorded = read_scalars(run, "odd")
    assert [step for step, _ in recorded] == ([] if expected is None else [1, 2])
    np.testing.assert_array_equal([number for _, number in recorded], [expected] * len(recorded))
    assert read_scalars(run, "even") == [(1, 1.0), (2, 2.0)]
    read_lineage(run)


def test_a_tensor_inside_a_transform_is_recorded(
    tmp_path: Path, logger: MindInsightLogger, figure: Figure
) -> None:
    def loss(weight: torch.Tensor) -> torch.Tensor:
        result = (weight * 3).sum()
        logger.log_metrics({"inside": result}, 1)
        return result

    torch.func.grad(loss)(torch.ones(1))

    assert read_scalars(tmp_path / "runs" / "run", "inside") == [(1, 3.0)]
    figure(
        20,
        (
            f"{len(odd_values()) + 1} odd kinds of value: 0 exceptions, each recorded or left "
            "out with 1 warning"
        ),
    )


class Ends:
    """A value that ends the process when it is read."""

    def __float__(self) -> float:
        raise SystemExit("ended by a value")

    def __repr__(self) -> str:
        raise SystemExit("ended by a value")


class LogsWhatCannotBeShown(lightning.LightningModule):
    """Logs, in every step, what the logger refuses."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def training_step(self, batch: torch.Tensor, index: int) -> torch.Tensor:
        logger = self.logger
        assert isinstance(logger, MindInsightLogger)
        logger.log_image("image", [torch.ones(3, 3, 3, 3, 3)], index)
        logger.log_image("words", ["no such file"], index)
        logger.log_histogram("histogram", ["text"], index)
        logger.log_tensor("tensor", torch.ones(2, dtype=torch.complex64), index)
        logger.log_tensor("giant", torch.ones((), dtype=torch.bool).expand(10_000_001), index)
        logger.log_metrics(None, index)  # type: ignore[arg-type]
        logger.log_metrics({"ends": Ends(), "even": float(index)}, index)  # type: ignore[dict-item]
        logger.log_hyperparams({"ends": Ends(), "kept": 1})
        loss: torch.Tensor = self.layer(batch).sum()
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.01)


def test_values_that_cannot_be_shown_do_not_end_a_training(
    tmp_path: Path, logger: MindInsightLogger, caplog: pytest.LogCaptureFixture, figure: Figure
) -> None:
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_epochs=1,
        logger=logger,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
    )
    trainer.fit(LogsWhatCannotBeShown(), torch.utils.data.DataLoader(torch.ones(5, 1)))

    run = tmp_path / "runs" / "run"
    assert read_scalars(run, "even") == [(step, float(step)) for step in range(5)]
    assert not {"ends", "tensor", "giant", "histogram"} & {tag for _, tag, _ in read_values(run)}
    ours = [line for line in caplog.records if line.name.startswith("mindsummary_lightning")]
    assert 4 <= len(ours) <= 8  # one for each kind, not one for each step
    figure(
        37, f"8 refused values in each of 5 steps of a training: none raises, {len(ours)} warnings"
    )
