"""Where a logger's files lie: versions, names, directories and what ``Trainer.log_dir`` says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from lightning.pytorch.callbacks import ModelCheckpoint

from mindsummary_lightning import MindInsightLogger, SummaryCollector
from mindsummary_lightning.trainer.version_numbers import next_version
from tests.trainer.support import Net, files, loader, trainer


def test_the_next_version_is_the_one_after_the_highest(tmp_path: Path) -> None:
    for name in ("version_0", "version_7", "version_x", "version_12_old", "other"):
        (tmp_path / "exp" / name).mkdir(parents=True)

    assert MindInsightLogger(tmp_path, "exp").version == 8
    assert MindInsightLogger(tmp_path, "new").version == 0


def test_asking_for_the_version_makes_nothing(tmp_path: Path) -> None:
    logger = MindInsightLogger(tmp_path / "not there")

    assert (logger.version, logger.version) == (0, 0)
    assert files(tmp_path) == []


def test_a_version_keeps_its_number_when_another_run_takes_the_next(tmp_path: Path) -> None:
    first = MindInsightLogger(tmp_path)
    first.log_metrics({"a": 1.0}, step=0)
    second = MindInsightLogger(tmp_path)

    assert (first.version, second.version) == (0, 1)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"version": 3}, "lightning_logs/version_3"),
        ({"version": "first"}, "lightning_logs/first"),
        ({"name": "exp", "version": 0}, "exp/version_0"),
        ({"name": "", "version": "run"}, "run"),
        ({"name": None, "version": "run"}, "run"),
        ({"name": "", "version": 2}, "version_2"),
        ({"name": "", "version": ""}, ""),
        ({"name": "a/b", "version": "c", "sub_dir": "d"}, "a/b/c/d"),
    ],
    ids=str,
)
def test_the_log_dir_is_made_of_save_dir_name_and_version(
    tmp_path: Path, arguments: dict[str, str | int | None], expected: str
) -> None:
    logger = MindInsightLogger(tmp_path, **arguments)  # type: ignore[arg-type]
    logger.log_metrics({"a": 1.0}, step=0)

    assert logger.log_dir == str(tmp_path / expected) if expected else str(tmp_path)
    assert {os.path.dirname(path) for path in files(tmp_path)} == {expected}


def test_user_and_variables_are_filled_into_the_save_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("EXPERIMENTS", str(tmp_path / "experiments"))

    assert MindInsightLogger("~/runs").save_dir == str(tmp_path / "runs")
    assert MindInsightLogger("$EXPERIMENTS/x").save_dir == str(tmp_path / "experiments" / "x")


def test_a_symbolic_link_as_save_dir_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    logger = MindInsightLogger(tmp_path / "link")
    logger.log_metrics({"a": 1.0}, step=0)

    assert len(files(tmp_path / "real")) == 1


def test_the_trainers_own_files_lie_in_the_run_directory(tmp_path: Path) -> None:
    logger = MindInsightLogger(tmp_path, name="exp")
    running = trainer(logger=logger, callbacks=[ModelCheckpoint()], limit_train_batches=1, enable_checkpointing=True)
    running.fit(Net(), loader())

    assert running.log_dir == logger.log_dir
    checkpoint = running.checkpoint_callback.best_model_path
    assert os.path.dirname(os.path.dirname(checkpoint)) == logger.log_dir


def test_a_collector_of_its_own_directory_leaves_the_loggers_alone(tmp_path: Path) -> None:
    logger = MindInsightLogger(tmp_path / "logger")
    collector = SummaryCollector(tmp_path / "collector")
    trainer(logger=logger, callbacks=[collector], limit_train_batches=1).fit(Net(), loader())

    assert len(files(tmp_path / "collector")) > 0
    assert {name.rpartition("_")[2] for name in files(logger.log_dir)} == {"MS", "lineage"}


def test_a_launched_rank_takes_the_version_that_its_launcher_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINDSUMMARY_VERSIONS", "")
    assert next_version(str(tmp_path), rank=0) == 0
    (tmp_path / "version_0").mkdir()  # rank zero was faster

    assert next_version(str(tmp_path), rank=1) == 0
    assert next_version(str(tmp_path), rank=1) == 1  # the next logger of the script is another run


def test_what_a_launcher_inherited_itself_is_not_taken_for_its_own_decision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINDSUMMARY_VERSIONS", f"{tmp_path}\n0")
    (tmp_path / "version_0").mkdir()
    assert next_version(str(tmp_path), rank=0) == 1

    assert next_version(str(tmp_path), rank=1) == 1
