from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from mindsummary_lightning.lineage.query import filter_summary_lineage, get_summary_lineage
from mindsummary_lightning.values import (
    DatasetGraph,
    EvaluationInfo,
    Operation,
    TrainInfo,
    UserDefinedInfo,
)
from tests.lineage.lineage_tree import write_run

TRAIN = TrainInfo(network="LeNet5", loss=0.5)
EVALUATION = EvaluationInfo('{"accuracy": 0.9}', "/data/valid", 7)
CUSTOM = UserDefinedInfo({"seed": 1})


def model_lineage(base: Path) -> dict[str, Any]:
    (run,) = filter_summary_lineage(base)["object"]
    lineage: dict[str, Any] = run["model_lineage"]
    return lineage


def test_the_newest_event_of_a_kind_counts_and_custom_data_adds_up(tmp_path: Path) -> None:
    later = (
        TrainInfo(network="ResNet"),
        EvaluationInfo('{"loss": 1}'),
        UserDefinedInfo({"seed": 2, "note": "x"}),
    )
    write_run(tmp_path / "run", TRAIN, EVALUATION, UserDefinedInfo({"seed": 1, "kept": 5}), *later)

    lineage = model_lineage(tmp_path)

    assert (lineage["network"], lineage["loss"]) == ("ResNet", None)
    assert lineage["metric"] == {"loss": 1}
    assert lineage["user_defined"] == {"seed": 2, "kept": 5, "note": "x"}


def test_equal_pipelines_have_one_mark_in_whatever_order_they_name_their_parameters(
    tmp_path: Path,
) -> None:
    parameters = {"op_type": "Batch", "dataset_dir": "/data", "batch_size": 8, "num_samples": 2}
    for name, pairs in (
        ("a", [*parameters.items()]),
        ("b", [*reversed(parameters.items())]),
        ("c", [*parameters.items(), ("shuffle", True)]),
    ):
        write_run(tmp_path / name, DatasetGraph(dict(pairs)), mtime=100)

    assert [
        run["model_lineage"]["dataset_mark"] for run in filter_summary_lineage(tmp_path)["object"]
    ] == ["2", "2", "3"]


def test_a_file_of_custom_data_alone_is_passed_over(tmp_path: Path) -> None:
    write_run(tmp_path / "run", UserDefinedInfo({"alone": 1}), seconds=1)
    write_run(tmp_path / "run", TRAIN, CUSTOM, seconds=2)
    write_run(tmp_path / "run", UserDefinedInfo({"seed": 9}), seconds=3)
    write_run(tmp_path / "run", EVALUATION, seconds=4)

    lineage = model_lineage(tmp_path)

    assert (lineage["network"], lineage["metric"]) == ("LeNet5", {"accuracy": 0.9})
    assert lineage["user_defined"] == {"seed": 1}


def test_an_evaluation_in_a_later_file_is_laid_over_the_training(tmp_path: Path) -> None:
    write_run(tmp_path / "run", TRAIN, CUSTOM, seconds=1)
    write_run(tmp_path / "run", EVALUATION, UserDefinedInfo({"note": "x"}), seconds=2)

    lineage = model_lineage(tmp_path)

    assert (lineage["network"], lineage["metric"], lineage["test_dataset_count"]) == (
        "LeNet5",
        {"accuracy": 0.9},
        7,
    )
    assert lineage["user_defined"] == {"seed": 1, "note": "x"}


def test_custom_data_of_a_later_file_take_the_place_of_their_names(tmp_path: Path) -> None:
    write_run(tmp_path / "run", TRAIN, UserDefinedInfo({"seed": 1, "kept": 5}), seconds=1)
    write_run(tmp_path / "run", EVALUATION, UserDefinedInfo({"seed": 2}), seconds=2)

    assert model_lineage(tmp_path)["user_defined"] == {"seed": 2, "kept": 5}


@pytest.mark.parametrize("newer", [TrainInfo(epoch=3), DatasetGraph({"op_type": "BatchDataset"})])
def test_training_or_data_in_a_later_file_starts_the_run_anew(tmp_path: Path, newer: Any) -> None:
    write_run(tmp_path / "run", TRAIN, EVALUATION, CUSTOM, seconds=1)
    write_run(tmp_path / "run", newer, seconds=2)

    lineage = model_lineage(tmp_path)

    assert (lineage["network"], lineage["metric"], lineage["user_defined"]) == (None, {}, {})
    assert lineage["test_dataset_path"] is None


def test_a_file_with_custom_data_alone_adds_nothing(tmp_path: Path) -> None:
    write_run(tmp_path / "run", TRAIN, seconds=1)
    write_run(tmp_path / "run", CUSTOM, seconds=2)
    write_run(tmp_path / "other", CUSTOM)

    assert model_lineage(tmp_path)["user_defined"] == {}


def test_of_two_files_of_one_second_the_first_by_name_is_the_later_one(tmp_path: Path) -> None:
    for host in ("a", "b"):
        path = write_run(tmp_path / "run", TrainInfo(network=host))
        path.rename(path.with_name(path.name.replace("host", host)))

    assert model_lineage(tmp_path)["network"] == "a"


def test_float32_facts_come_back_with_the_digits_they_were_given(tmp_path: Path) -> None:
    write_run(tmp_path / "run", TrainInfo(learning_rate=0.01, loss=2.275288))

    lineage = model_lineage(tmp_path)

    assert (lineage["learning_rate"], lineage["loss"]) == (0.01, 2.275288)


def test_numbers_that_are_not_finite_become_text(tmp_path: Path) -> None:
    custom = UserDefinedInfo({"a": float("nan"), "b": float("-inf")})
    write_run(tmp_path / "run", TrainInfo(loss=float("nan"), learning_rate=float("inf")), custom)

    lineage = model_lineage(tmp_path)

    assert (lineage["loss"], lineage["learning_rate"]) == ("NaN", "Infinity")
    assert lineage["user_defined"] == {"a": "NaN", "b": "-Infinity"}


def test_nested_custom_data_stays_nested(tmp_path: Path) -> None:
    values: dict[str, Any] = {"optim": {"lr": 0.1, "betas": {"first": 0.9}}, "название": "сеть ✓"}
    write_run(tmp_path / "run", TRAIN, UserDefinedInfo(values))

    assert model_lineage(tmp_path)["user_defined"] == values


def test_a_pipeline_is_shown_with_operations_sampler_and_children(tmp_path: Path) -> None:
    crop = Operation({"tensor_op_name": "Crop", "params": "None"}, size=(8,), weights=(0.5,))
    source = DatasetGraph({"op_type": "MnistDataset"}, sampler=Operation({"num_shards": 2}))
    graph = DatasetGraph(
        {"op_type": "MapDataset", "columns": ("image", "")}, (crop,), Operation(), (source,)
    )
    write_run(tmp_path / "run", graph)

    assert filter_summary_lineage(tmp_path)["object"][0]["dataset_graph"] == {
        "op_type": "MapDataset",
        "columns": ["image", None],
        # The reader shows sizes and weights in one list, under both names.
        "operations": [
            {"tensor_op_name": "Crop", "params": None, "size": [8, 0.5], "weights": [8, 0.5]}
        ],
        "children": [{"op_type": "MnistDataset", "sampler": {"num_shards": 2}, "children": []}],
    }


@pytest.mark.parametrize("text", ["not json", "[1, 2]", '"text"', "3"])
def test_a_metric_that_is_no_object_costs_only_itself(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    # In MindInsight every run behind it, or every query on a metric, fails.
    write_run(tmp_path / "bad", TRAIN, EvaluationInfo(text, "/data/valid"))
    write_run(tmp_path / "good", EVALUATION)

    with caplog.at_level(logging.WARNING):
        found = filter_summary_lineage(tmp_path, {"metric/accuracy": {"eq": 0.9}})

    assert [run["summary_dir"] for run in found["object"]] == ["./good"]
    assert get_summary_lineage(tmp_path / "bad")["valid_dataset"] == {
        "valid_dataset_path": "/data/valid"
    }
    assert len(caplog.records) == 1
    assert "JSON text of an object" in caplog.text


def test_a_later_evaluation_without_a_metric_keeps_the_one_there_was(tmp_path: Path) -> None:
    # In MindInsight the whole query fails with a TypeError.
    write_run(tmp_path / "run", EVALUATION, seconds=1)
    write_run(tmp_path / "run", EvaluationInfo(None, "/data/other"), seconds=2)

    lineage = model_lineage(tmp_path)

    assert (lineage["metric"], lineage["test_dataset_path"]) == ({"accuracy": 0.9}, "/data/other")
    assert lineage["test_dataset_count"] is None


def test_an_empty_metric_of_a_later_file_empties_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_run(tmp_path / "run", EVALUATION, seconds=1)
    write_run(tmp_path / "run", EvaluationInfo(""), seconds=2)

    assert model_lineage(tmp_path)["metric"] == {}
    assert not caplog.records
