"""LightningCLI: the pair by class name and by path, in both namespaces."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import mindsummary_lightning
from mindsummary_lightning import SummaryReader
from tests.trainer.support import (
    NAMESPACES,
    Net,
    OtherNet,
    files,
    judge_points,
    kinds,
    loader,
    points,
)

pytestmark = pytest.mark.slow

_QUIET = (
    "--trainer.enable_progress_bar=false",
    "--trainer.enable_model_summary=false",
    "--trainer.accelerator=cpu",
)
_SHORT = ("--trainer.max_steps=2", "--trainer.limit_val_batches=0", "--trainer.log_every_n_steps=1")


class CliNet(Net):
    """A Net that brings its data."""

    def train_dataloader(self) -> Any:
        return loader(3)

    def val_dataloader(self) -> Any:
        return loader(2)

    def test_dataloader(self) -> Any:
        return loader(2)


class OtherCliNet(OtherNet):
    """The same for the other namespace."""

    def train_dataloader(self) -> Any:
        return loader(3)


def _run(namespace: str, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Any:
    """A script with the two lines of docs/logger.md that put the config into the run directory."""
    cli = importlib.import_module(f"{namespace}.cli")

    class SaveConfigInRun(cli.SaveConfigCallback):  # type: ignore[misc, name-defined]
        def save_config(self, trainer: Any, pl_module: Any, stage: str) -> None:
            os.makedirs(trainer.logger.log_dir, exist_ok=True)
            path = os.path.join(trainer.logger.log_dir, "config.yaml")
            self.parser.save(self.config, path, skip_none=False, overwrite=True)

    monkeypatch.setattr(sys, "argv", ["train.py", *arguments])
    return cli.LightningCLI(
        CliNet if namespace == "lightning.pytorch" else OtherCliNet,
        seed_everything_default=1,
        save_config_callback=SaveConfigInRun,
        save_config_kwargs={"save_to_log_dir": False},
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("namespace", "path"),
    [
        pytest.param(NAMESPACES[0], "", id="by name"),
        pytest.param(NAMESPACES[-1], "mindsummary_lightning.", id="by path"),
    ],
)
def test_fit_runs_twice_in_one_save_dir(
    tmp_path: Path, namespace: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a class name is found once its class was imported
    assert mindsummary_lightning.SummaryCollector
    arguments = (
        "fit",
        *_QUIET,
        *_SHORT,
        f"--trainer.logger={path}MindInsightLogger",
        f"--trainer.logger.save_dir={tmp_path}",
        "--trainer.logger.name=exp",
        f"--trainer.callbacks+={path}SummaryCollector",
        "--trainer.callbacks.collect_freq=1",
        '--trainer.callbacks.collect_specified_data={"histogram_regular": "first.*"}',
    )
    for _ in range(2):
        _run(namespace, monkeypatch, *arguments)

    for version in ("version_0", "version_1"):
        run = tmp_path / "exp" / version
        assert kinds(run) == ["MS", "lineage"]
        assert (run / "config.yaml").is_file()
        assert os.listdir(run / "checkpoints")
    assert {name.split("/")[0] for name in files(tmp_path)} == {"exp"}


def test_several_runs_of_one_program_are_numbered_as_tensorboards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, judge = tmp_path / "ours", tmp_path / "judge"
    loggers = [
        {"class_path": "MindInsightLogger", "init_args": {"save_dir": str(ours), "name": ""}},
        {"class_path": "TensorBoardLogger", "init_args": {"save_dir": str(judge), "name": ""}},
    ]
    for verb in ("fit", "validate", "fit", "test"):
        short = _SHORT[:1] * (verb == "fit") + _SHORT[2:] * (verb == "fit")
        arguments = (verb, *_QUIET, *short, f"--trainer.logger={json.dumps(loggers)}")
        _run("lightning.pytorch", monkeypatch, *arguments)

    assert sorted(os.listdir(ours)) == sorted(os.listdir(judge))
    for run in ours.iterdir():
        assert (run / "config.yaml").is_file()
        for tag in SummaryReader(run).tags()["scalar"]:
            assert points(run, tag) == judge_points(judge / run.name, tag)


def test_a_printed_config_can_be_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = (
        *_QUIET,
        *_SHORT,
        "--trainer.logger=MindInsightLogger",
        f"--trainer.logger.save_dir={tmp_path}",
        "--trainer.callbacks+=SummaryCollector",
        "--trainer.callbacks.custom_lineage_data={'fold': 3}",
    )
    with pytest.raises(SystemExit):
        _run("lightning.pytorch", monkeypatch, "fit", *arguments, "--print_config")
    config = tmp_path / "config.yaml"
    config.write_text(capsys.readouterr().out, encoding="utf-8")
    written = yaml.safe_load(config.read_text(encoding="utf-8"))["trainer"]
    assert written["logger"]["class_path"].endswith("MindInsightLogger")
    assert written["callbacks"][0]["init_args"]["collect_freq"] == 10

    _run("lightning.pytorch", monkeypatch, "fit", f"--config={config}")

    assert kinds(tmp_path / "lightning_logs" / "version_0") == ["MS", "lineage"]


@pytest.mark.parametrize(
    "argument",
    [
        "--trainer.logger.nope=1",
        "--trainer.logger.max_file_size=text",
        "--trainer.logger.log_graph=maybe",
    ],
)
def test_a_wrong_argument_is_refused_on_the_command_line(
    tmp_path: Path,
    argument: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as error:
        _run(
            "lightning.pytorch",
            monkeypatch,
            "fit",
            "--trainer.logger=MindInsightLogger",
            f"--trainer.logger.save_dir={tmp_path}",
            argument,
        )

    assert error.value.code == 2
    assert argument.split("=")[0].rpartition(".")[2] in capsys.readouterr().err
    assert files(tmp_path) == []


def test_the_help_explains_every_argument(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        _run("lightning.pytorch", monkeypatch, "fit", "--trainer.logger.help=MindInsightLogger")
    text = capsys.readouterr().out

    for argument in (
        "save_dir",
        "name",
        "version",
        "prefix",
        "sub_dir",
        "max_file_size",
        "raise_exception",
    ):
        assert f"--trainer.logger.{argument}" in text
    assert "directory of all runs" in text


def test_a_file_mode_of_a_config_is_octal_as_in_the_docs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {
        "logger": {
            "class_path": "MindInsightLogger",
            "init_args": {"save_dir": str(tmp_path), "file_mode": "0o640"},
        }
    }
    (tmp_path / "config.yaml").write_text(
        yaml.safe_dump({"trainer": config}).replace("'", ""), encoding="utf-8"
    )
    _run(NAMESPACES[0], monkeypatch, "fit", "-c", str(tmp_path / "config.yaml"), *_QUIET, *_SHORT)

    (summary,) = tmp_path.rglob("*_MS")
    assert summary.stat().st_mode & 0o777 == 0o640
