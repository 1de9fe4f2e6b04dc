from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mindsummary_lightning.reading.lineage_text import RunLineage, lineage_fields, lineage_values
from mindsummary_lightning.values import (
    DatasetGraph,
    EvaluationInfo,
    Tensor,
    TrainInfo,
    UserDefinedInfo,
)
from tests.cli.command import mindsummary
from tests.reading.runs import values_at, write_lineage, write_summary


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"ckpt": "/data/\\"a\\"/last.ckpt"}', {"model_path": '/data/"a"/last.ckpt'}),
        ('{"ckpt": null}', {}),
        ("last.ckpt", {"model_path": "last.ckpt"}),
        ('["last.ckpt"]', {"model_path": '["last.ckpt"]'}),
        (None, {}),
    ],
)
def test_a_checkpoint_is_its_path_without_the_json_around_it(
    text: str | None, expected: dict[str, str]
) -> None:
    assert lineage_values(RunLineage(train=TrainInfo(epoch=1, model_path=text))) == {
        "epoch": 1,
        **expected,
    }


def test_a_setting_does_not_hide_the_recorded_value_of_its_name() -> None:
    train = TrainInfo(optimizer="Adam", learning_rate=float(np.float32(0.001)), epoch=5, loss=0.25)
    custom = UserDefinedInfo(
        {"loss": "MAE()", "optimizer": "adam", "learning_rate": 0.001, "hidden": 64}
    )

    assert lineage_values(RunLineage(train=train, custom=custom)) == {
        "optimizer": "Adam",
        "learning_rate": 0.001,
        "epoch": 5,
        "loss": 0.25,
        "user_defined/loss": "MAE()",
        "user_defined/optimizer": "adam",
        "hidden": 64,
    }


def test_every_door_says_the_number_that_was_typed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tenth = float(np.float32(0.1))
    path = write_summary(
        tmp_path / "run", [values_at(1, {"lr": tenth, "t": Tensor(np.array([[0.1, np.nan]]))})]
    )
    lineage = write_lineage(tmp_path / "run", [TrainInfo(learning_rate=tenth, loss=float("nan"))])

    answers = [
        mindsummary(capsys, *verb).out
        for verb in (("show", tmp_path / "run", "--json"), ("dump", path))
    ]
    answers.append(mindsummary(capsys, "dump", lineage).out)

    assert not any("0.1000000" in answer for answer in answers)
    shown = json.loads(answers[0])
    assert shown["scalars"]["lr"] == {
        "samples": 1,
        "last_step": 1,
        "last": 0.1,
        "min": 0.1,
        "max": 0.1,
    }
    assert shown["lineage"] == {"learning_rate": 0.1, "loss": "NaN"}
    *_, values = map(json.loads, answers[1].splitlines())
    assert [value["value"] for value in values["values"]] == [
        0.1,
        {"dims": [1, 2], "data_type": "FLOAT64", "data": [0.1, "NaN"]},
    ]
    assert json.loads(answers[2])["TrainLineage"] == {"learning_rate": 0.1, "loss": "NaN"}


def test_values_come_as_training_metrics_evaluation_data_pipeline_and_custom_data() -> None:
    source = DatasetGraph({"op_type": "MnistDataset"})
    lineage = RunLineage(
        TrainInfo(epoch=5, loss=0.25, model_path='{"ckpt": "last.ckpt"}'),
        EvaluationInfo('{"acc": 0.5, "per class": [1, 2]}', "/data/valid", 7),
        DatasetGraph({"op_type": "Batch"}, children=(DatasetGraph({}, children=(source,)), source)),
        UserDefinedInfo({"status": "success", "metric/acc": 0.25, "epoch": 5, "lr": 1 / 3}),
    )

    assert list(lineage_values(lineage).items()) == [
        ("epoch", 5),
        ("loss", 0.25),
        ("model_path", "last.ckpt"),
        ("metric/acc", 0.5),
        ("metric/per class", [1, 2]),
        ("valid_dataset_path", "/data/valid"),
        ("valid_dataset_size", 7),
        ("data", "Batch <- ? <- MnistDataset <- MnistDataset"),
        ("status", "finished"),
        ("user_defined/metric/acc", 0.25),
        ("lr", 1 / 3),
    ]
    assert lineage_fields(lineage)["lr"] == "0.333333"
    assert repr(lineage) == "RunLineage(train, evaluation, dataset, custom)"
    assert str(RunLineage()) == ""


def test_an_evaluation_without_metrics_shows_its_data() -> None:
    for metric in (None, ""):
        evaluation = EvaluationInfo(metric, "/data/valid", 7)

        assert lineage_values(RunLineage(evaluation=evaluation)) == {
            "valid_dataset_path": "/data/valid",
            "valid_dataset_size": 7,
        }


def test_what_other_programs_wrote_is_shown_as_it_is() -> None:
    lineage = RunLineage(
        evaluation=EvaluationInfo("no json"), custom=UserDefinedInfo({"status": "started"})
    )

    assert lineage_values(lineage) == {"metric": "no json", "status": "started"}


def test_nested_custom_data_has_the_names_of_the_table_of_lineage() -> None:
    custom = UserDefinedInfo({"model": {"layers": 3, "act": {"kind": "relu"}}})

    assert lineage_values(RunLineage(custom=custom)) == {
        "model/layers": 3,
        "model/act/kind": "relu",
    }
