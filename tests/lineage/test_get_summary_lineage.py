from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from mindsummary_lightning.errors import (
    LineageFileNotFoundError,
    LineageParamSummaryPathError,
    LineageParamTypeError,
    LineageParamValueError,
    LineageQuerySummaryDataError,
    MindSummaryError,
)
from mindsummary_lightning.lineage.query import get_summary_lineage
from mindsummary_lightning.values import DatasetGraph, EvaluationInfo, TrainInfo, UserDefinedInfo
from tests.lineage.lineage_tree import write_run

KEYS = [
    "metric",
    "hyper_parameters",
    "algorithm",
    "train_dataset",
    "model",
    "valid_dataset",
    "dataset_graph",
]


def test_returns_every_part_under_its_documented_name(tmp_path: Path) -> None:
    train = TrainInfo(
        "Adam",
        0.01,
        "MSELoss",
        5,
        "stand_alone",
        1,
        32,
        "/train",
        100,
        "Net",
        0.5,
        '{"ckpt": "a"}',
        9,
    )
    evaluation = EvaluationInfo('{"accuracy": 0.9}', "/valid", 10)
    write_run(
        tmp_path,
        train,
        evaluation,
        DatasetGraph({"op_type": "BatchDataset"}),
        UserDefinedInfo({"seed": 1}),
    )

    assert get_summary_lineage(tmp_path) == {
        "summary_dir": str(tmp_path.resolve()),
        "metric": {"accuracy": 0.9},
        "hyper_parameters": {
            "optimizer": "Adam",
            "learning_rate": 0.01,
            "loss_function": "MSELoss",
            "epoch": 5,
            "parallel_mode": "stand_alone",
            "device_num": 1,
            "batch_size": 32,
        },
        "algorithm": {"network": "Net", "loss": 0.5},
        "train_dataset": {"train_dataset_path": "/train", "train_dataset_size": 100},
        "model": {"path": '{"ckpt": "a"}', "size": 9},
        "valid_dataset": {"valid_dataset_path": "/valid", "valid_dataset_size": 10},
        "dataset_graph": {"op_type": "BatchDataset", "children": []},
    }


def test_shows_only_what_was_recorded(tmp_path: Path) -> None:
    write_run(tmp_path, TrainInfo(epoch=0))

    lineage = get_summary_lineage(tmp_path)

    assert lineage.pop("hyper_parameters") == {"epoch": 0}
    assert lineage == {
        "summary_dir": str(tmp_path.resolve()),
        **{key: {} for key in KEYS if key != "hyper_parameters"},
    }


@pytest.mark.parametrize("keys", [[], ["metric"], ["model", "algorithm"], KEYS])
def test_returns_the_parts_asked_for(tmp_path: Path, keys: list[str]) -> None:
    write_run(tmp_path, TrainInfo(epoch=1))

    assert list(get_summary_lineage(tmp_path, keys)) == ["summary_dir", *keys]


def test_a_run_whose_files_say_nothing_is_empty(tmp_path: Path) -> None:
    write_run(tmp_path)

    assert get_summary_lineage(tmp_path) == {}


@pytest.mark.parametrize("keys", ["metric", ("metric",), [1], {"metric"}, 5], ids=repr)
def test_keys_must_be_a_list_of_str(tmp_path: Path, keys: Any) -> None:
    write_run(tmp_path, TrainInfo(epoch=1))

    with pytest.raises(LineageParamTypeError, match="keys"):
        get_summary_lineage(tmp_path, keys)


@pytest.mark.parametrize("key", ["user_defined", "Metric", ""])
def test_an_unknown_key_is_refused(tmp_path: Path, key: str) -> None:
    write_run(tmp_path, TrainInfo(epoch=1))

    with pytest.raises(LineageParamValueError, match="hyper_parameters"):
        get_summary_lineage(tmp_path, [key])


@pytest.mark.parametrize(
    "path", ["", "runs/run1", "/no such directory", "a\0b", ["/tmp"], 5], ids=repr
)
def test_a_directory_that_is_none_is_refused(path: Any) -> None:
    with pytest.raises(LineageParamSummaryPathError, match="summary_dir") as refused:
        get_summary_lineage(path)

    is_relative = path == "runs/run1"
    assert (f"(the working directory is {os.getcwd()})" in str(refused.value)) == is_relative


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    with pytest.raises(LineageParamSummaryPathError):
        get_summary_lineage(write_run(tmp_path, TrainInfo(epoch=1)))


def test_a_directory_without_lineage_says_so(tmp_path: Path) -> None:
    (tmp_path / "events.out.events.summary.100.0.host_MS").touch()

    with pytest.raises(LineageFileNotFoundError, match="_lineage"):
        get_summary_lineage(tmp_path)


def test_a_directory_that_cannot_be_listed_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", refuse)

    with pytest.raises(LineageQuerySummaryDataError, match="Permission denied"):
        get_summary_lineage(tmp_path)


@pytest.mark.parametrize(
    "error",
    [
        LineageFileNotFoundError,
        LineageParamSummaryPathError,
        LineageParamTypeError,
        LineageParamValueError,
        LineageQuerySummaryDataError,
    ],
)
def test_all_errors_are_one_family(error: type[Exception]) -> None:
    assert issubclass(error, MindSummaryError)
