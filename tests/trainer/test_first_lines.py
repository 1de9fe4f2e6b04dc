"""What is said of a training: where its files go, what lies there, and what is not recorded."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from mindsummary_lightning import MindInsightLogger, SummaryCollector
from tests.trainer.support import Net, loader, trainer


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Any:
    caplog.set_level(logging.INFO, "lightning.pytorch.utilities.rank_zero")
    return lambda part: [one.getMessage() for one in caplog.records if part in one.getMessage()]


def test_the_first_line_says_how_many_landscape_checkpoints_there_will_be_and_how_to_have_none(
    tmp_path: Path, said: Any
) -> None:
    trainer(logger=False, callbacks=[SummaryCollector(tmp_path / "run")]).fit(Net(), loader(30))

    (line,) = said("MindInsight files go to")
    saved = list((tmp_path / "run" / "ckpt_dir").glob("*.ckpt"))
    assert f"with {len(saved)} landscape checkpoints of 0.0 MB in all" in line
    assert "collect_specified_data={'collect_landscape': None} saves none" in line


def test_without_landscapes_the_first_line_says_nothing_of_them(tmp_path: Path, said: Any) -> None:
    collector = SummaryCollector(
        tmp_path / "run", collect_specified_data={"collect_landscape": None}
    )
    trainer(logger=False, callbacks=[collector]).fit(Net(), loader(30))

    (line,) = said("MindInsight files go to")
    assert "checkpoint" not in line
    assert not (tmp_path / "run" / "ckpt_dir").exists()


def test_metrics_that_no_logger_of_ours_records_are_named_in_one_line(
    tmp_path: Path, said: Any
) -> None:
    trainer(logger=False, callbacks=[SummaryCollector(tmp_path / "run")]).fit(
        Net(), loader(), loader(2)
    )

    (line,) = said("does not record logged metrics")
    assert "train/loss" in line
    assert "trainer.loggers = [*trainer.loggers, MindInsightLogger('runs')]" in line


def test_beside_a_logger_of_ours_there_is_no_such_line(tmp_path: Path, said: Any) -> None:
    logger = MindInsightLogger(tmp_path)
    trainer(logger=logger, callbacks=[SummaryCollector()]).fit(Net(), loader(), loader(2))

    assert said("does not record logged metrics") == []


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("log", "logger.log_metrics"),
        ("log_metric", "logger.log_metrics"),
        ("config", "logger.log_hyperparams"),
        ("log_param", "logger.log_hyperparams"),
        ("finish", "not needed"),
        ("log_artifact", "put the file into logger.log_dir"),
    ],
)
def test_a_call_of_another_tracker_is_answered_with_ours(
    tmp_path: Path, name: str, ours: str
) -> None:
    logger = MindInsightLogger(tmp_path)
    for of_whom in (logger.experiment, logger):
        with pytest.raises(AttributeError, match="another tracker has it") as caught:
            getattr(of_whom, name)
        assert ours in str(caught.value)
