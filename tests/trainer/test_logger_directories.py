"""Where a logger's files are: versions, names, directories and ``Trainer.log_dir``."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from lightning.pytorch.callbacks import ModelCheckpoint

from mindsummary_lightning import EvalLineage, MindInsightLogger, SummaryCollector, TrainLineage
from mindsummary_lightning.trainer.run_version import RunVersion
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


def test_runs_that_start_at_one_moment_have_a_directory_each(tmp_path: Path) -> None:
    loggers = [MindInsightLogger(tmp_path) for _ in range(20)]
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda logger: logger.log_metrics({"a": 1.0}, step=0), loggers))

    assert {logger.version for logger in loggers} == {*range(20)}


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

    assert logger.log_dir == str(tmp_path / expected)
    name = arguments.get("name", "lightning_logs") or ""
    assert (logger.name, logger.root_dir) == (name, str(tmp_path / str(name)))
    assert {os.path.dirname(path) for path in files(tmp_path)} == {expected}


def test_user_and_variables_are_expanded_in_the_save_dir(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_checkpoints_are_in_the_run_directory(tmp_path: Path) -> None:
    logger = MindInsightLogger(tmp_path, name="exp")
    running = trainer(
        logger=logger,
        callbacks=[ModelCheckpoint()],
        limit_train_batches=1,
        enable_checkpointing=True,
    )
    running.fit(Net(), loader())

    checkpoint = running.checkpoint_callback.best_model_path
    assert os.path.dirname(os.path.dirname(checkpoint)) == logger.log_dir


def test_the_trainers_log_dir_is_the_save_dir_as_with_every_logger_lightning_does_not_know(
    tmp_path: Path,
) -> None:
    running = trainer(logger=MindInsightLogger(tmp_path, name="exp"))

    assert running.log_dir == str(tmp_path)


def test_a_collector_of_its_own_directory_leaves_the_loggers_alone(tmp_path: Path) -> None:
    logger = MindInsightLogger(tmp_path / "logger")
    collector = SummaryCollector(tmp_path / "collector")
    trainer(logger=logger, callbacks=[collector], limit_train_batches=1).fit(Net(), loader())

    assert len(files(tmp_path / "collector")) > 0
    assert {name.rpartition("_")[2] for name in files(logger.log_dir)} == {"MS", "lineage"}


def _claimed(root: Path) -> RunVersion:
    version = RunVersion(str(root), None)
    version.claim()
    return version


def test_a_claim_that_was_not_used_is_removed_with_its_logger(tmp_path: Path) -> None:
    version = _claimed(tmp_path / "exp")
    if not os.fork():
        version.release_unused()
        os._exit(0)
    os.wait()
    assert os.listdir(tmp_path) == ["exp"]  # a forked child leaves it to its parent
    del version

    assert os.listdir(tmp_path) == []


def test_a_directory_with_files_stays_claimed(tmp_path: Path) -> None:
    version = _claimed(tmp_path)
    (tmp_path / "version_0" / "config.yaml").touch()
    version.release_unused()
    version.claim()

    assert version.value == 0
    assert _claimed(tmp_path).value == 1


def test_a_given_version_makes_no_directory(tmp_path: Path) -> None:
    version = RunVersion(str(tmp_path), 3)
    version.claim()

    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("is_link", [False, True], ids=["a file", "a dangling link"])
def test_a_root_that_cannot_be_made_is_left_to_the_first_record(
    tmp_path: Path, is_link: bool
) -> None:
    root = tmp_path / "root"
    if is_link:
        root.symlink_to(tmp_path / "nowhere")
    else:
        root.touch()

    assert _claimed(root).value == 0


@pytest.mark.parametrize(
    "path", ["s3://bucket/runs", Path("gs://bucket/runs"), "$STORE/runs"], ids=str
)
def test_a_remote_save_dir_is_refused(path: str | Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORE", "s3://bucket")

    with pytest.raises(ValueError, match=r"save_dir must be a local path.* copy it afterwards"):
        MindInsightLogger(path)
    with pytest.raises(ValueError, match=r"summary_dir must be a local path"):
        SummaryCollector(path)


@pytest.mark.parametrize("path", ["C:/runs", "a:b/c", "runs"])
def test_what_only_looks_like_a_scheme_is_a_path(path: str) -> None:
    assert MindInsightLogger(path).save_dir == os.path.abspath(path)


@pytest.mark.parametrize("kind", ["logger", SummaryCollector, TrainLineage, EvalLineage])
@pytest.mark.parametrize("below", ["", "runs/deeper"])
def test_a_directory_that_is_a_file_is_refused_before_anything_is_trained(
    tmp_path: Path, kind: Any, below: str
) -> None:
    place = tmp_path / "taken"
    place.touch()
    refusal = f"{place} is not a directory.*give another directory"
    if kind != "logger":
        with pytest.raises(NotADirectoryError, match=refusal):
            kind(place / below)
    place.unlink()
    logger = MindInsightLogger(place / below) if kind == "logger" else False
    callbacks = [] if kind == "logger" else [kind(place / below)]
    place.touch()
    running = trainer(logger=logger, callbacks=callbacks)

    with pytest.raises(NotADirectoryError, match=refusal):
        running.fit(Net(), loader(2))
    assert running.global_step == 0
