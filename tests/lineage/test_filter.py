from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import pytest

from mindsummary_lightning.errors import (
    LineageParamSummaryPathError,
    LineageParamTypeError,
    LineageSearchConditionParamError,
)
from mindsummary_lightning.lineage.query import filter_summary_lineage, get_summary_lineage
from mindsummary_lightning.lineage.table import lineage_records
from mindsummary_lightning.values import (
    DatasetGraph,
    EvaluationInfo,
    RunInfo,
    TrainInfo,
    UserDefinedInfo,
)
from tests.lineage.lineage_tree import MINDSPORE_RUNS, write_run
from tests.reading.runs import values_at, write_lineage, write_summary


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Three runs, ``./c`` the last one updated; ``./b`` has no metric, no loss and no
    custom data.
    """
    first = (
        TrainInfo(network="LeNet5", loss=0.5, epoch=10),
        UserDefinedInfo({"lr": 0.1, "kind": "x"}),
    )
    third = (TrainInfo(network="ResNet", loss=0.25, epoch=5), UserDefinedInfo({"lr": 1, "kind": 5}))
    write_run(tmp_path / "a", *first, EvaluationInfo('{"accuracy": 0.9}'), mtime=100)
    write_run(tmp_path / "b", TrainInfo(network="LeNet5", epoch=10), mtime=200)
    write_run(tmp_path / "c", *third, EvaluationInfo('{"accuracy": 1}'), mtime=300)
    return tmp_path


def found(base: Path, condition: dict[str, Any]) -> list[str]:
    return [run["summary_dir"][2:] for run in filter_summary_lineage(base, condition)["object"]]


def test_what_has_no_column_is_found_and_sorted_by_its_name(tmp_path: Path) -> None:
    for name, precision in (("a", "32-true"), ("b", "16-mixed"), ("c", "32-true")):
        write_run(tmp_path / name, TrainInfo(epoch=1), RunInfo({"precision": precision}), mtime=100)
    write_run(
        tmp_path / "d", TrainInfo(epoch=1), UserDefinedInfo({"precision": "32-true"}), mtime=50
    )

    assert sorted(found(tmp_path, {"user_defined/precision": {"eq": "32-true"}})) == ["a", "c", "d"]
    assert found(tmp_path, {"sorted_name": "user_defined/precision"})[0] == "b"
    assert [
        list(run["model_lineage"]["user_defined"])
        for run in filter_summary_lineage(tmp_path)["object"]
    ][:3] == ([[]] * 3)


@pytest.mark.parametrize(
    ("condition", "runs"),
    [
        ({}, ["c", "b", "a"]),
        ({"network": {"eq": "LeNet5"}}, ["b", "a"]),
        ({"network": {"not_in": ["LeNet5"]}}, ["c"]),
        ({"summary_dir": {"in": ["./a", "./c"]}}, ["c", "a"]),
        ({"loss": {"lt": 0.5}}, ["c"]),
        ({"loss": {"le": 0.5}}, ["c", "a"]),
        ({"loss": {"ge": 0.3, "lt": 1}}, ["a"]),
        ({"loss": {"in": [0.5, None]}}, ["b", "a"]),
        ({"loss": {"not_in": 0.5}}, []),
        ({"epoch": {"gt": 5}, "network": {"eq": "LeNet5"}}, ["b", "a"]),
        ({"metric/accuracy": {"eq": 1}}, ["c"]),
        ({"metric_accuracy": {"gt": 0.5}}, ["c", "a"]),
        ({"metric/other": {"lt": 1}}, []),
        ({"user_defined/kind": {"eq": "x"}}, ["a"]),
        ({"user_defined/kind": {"gt": 1}}, ["c"]),
        ({"user_defined/kind": {"in": "xyz"}}, ["a"]),
        ({"user_defined/kind": {"eq": None}}, ["b"]),
        ({"user_defined/kind": {"not_in": [5]}}, ["b", "a"]),
    ],
    ids=repr,
)
def test_finds_the_runs_that_meet_all_of_a_condition(
    base: Path, condition: dict[str, Any], runs: list[str]
) -> None:
    assert found(base, condition) == runs


@pytest.mark.parametrize(
    ("order", "runs"),
    [
        (("loss", "ascending"), ["b", "c", "a"]),
        (("loss", "descending"), ["a", "c", "b"]),
        (("loss", None), ["b", "c", "a"]),
        (("metric/accuracy", "ascending"), ["b", "a", "c"]),
        # runs that compare equal keep the order of the listing
        (("network", "descending"), ["c", "b", "a"]),
        (("epoch", "ascending"), ["c", "b", "a"]),
        # int before str, by the names of the types
        (("user_defined/kind", "ascending"), ["b", "c", "a"]),
        (("user_defined/kind", "descending"), ["a", "c", "b"]),
        (("tag", "descending"), ["c", "b", "a"]),
    ],
    ids=repr,
)
def test_sorts_missing_values_lowest(
    base: Path, order: tuple[str, str | None], runs: list[str]
) -> None:
    assert found(base, {"sorted_name": order[0], "sorted_type": order[1]}) == runs


def test_an_offset_is_the_number_of_a_page(tmp_path: Path) -> None:
    for number in range(12):
        write_run(tmp_path / f"{number:02d}", TrainInfo(epoch=number), mtime=100)

    assert found(tmp_path, {"limit": 5, "offset": 2}) == ["10", "11"]
    assert found(tmp_path, {"offset": 1}) == ["10", "11"]
    assert found(tmp_path, {"limit": 2}) == ["00", "01"]
    assert filter_summary_lineage(tmp_path, {"limit": 5, "offset": 2})["count"] == 12


def test_customized_names_the_columns_of_the_page_and_their_types(base: Path) -> None:
    def column(label: str, kind: str) -> dict[str, Any]:
        return {"label": label, "required": label.startswith("metric/"), "type": kind}

    everything = filter_summary_lineage(base)["customized"]
    page = filter_summary_lineage(base, {"limit": 1})["customized"]

    assert everything == {
        "metric/accuracy": column("metric/accuracy", "float"),
        "user_defined/lr": column("user_defined/lr", "float"),
        "user_defined/kind": column("user_defined/kind", "mixed"),
    }
    assert page["user_defined/kind"] == column("user_defined/kind", "int")


@pytest.mark.parametrize(
    ("lineage_type", "keys"),
    [
        ({"eq": "model"}, ["summary_dir", "model_lineage", "added_info"]),
        ({"eq": "dataset"}, ["summary_dir", "dataset_graph", "added_info"]),
        (
            {"in": ["dataset", "model"]},
            ["summary_dir", "model_lineage", "dataset_graph", "added_info"],
        ),
        ({"in": []}, ["added_info"]),
        # the later one counts,
        ({"eq": "model", "in": ["dataset"]}, ["summary_dir", "dataset_graph", "added_info"]),
        (
            {"in": ["model"], "eq": "dataset"},
            ["summary_dir", "model_lineage", "dataset_graph", "added_info"],
        ),  # or adds
    ],
    ids=repr,
)
def test_a_lineage_type_chooses_the_parts_returned(
    base: Path, lineage_type: Any, keys: list[str]
) -> None:
    (run,) = filter_summary_lineage(base, {"lineage_type": lineage_type, "limit": 1})["object"]

    assert list(run) == keys


def test_runs_with_the_same_pipeline_share_a_mark_and_marks_go_on_beyond_eight(
    tmp_path: Path,
) -> None:
    for number in range(12):
        graph = DatasetGraph({"op_type": "BatchDataset", "batch_size": number % 11})
        write_run(tmp_path / f"{number:02d}", graph, mtime=100)

    objects = filter_summary_lineage(tmp_path)["object"]
    marks = [run["model_lineage"]["dataset_mark"] for run in objects]

    # MindInsight gives "10" to the ninth pipeline and all that follow.
    assert marks == [*(str(mark) for mark in range(2, 13)), "2"]
    assert found(tmp_path, {"dataset_mark": {"eq": "12"}}) == ["10"]


def test_what_a_caller_changes_does_not_change_the_next_answer(base: Path) -> None:
    filter_summary_lineage(base)["object"][0]["model_lineage"]["metric"]["accuracy"] = "changed"

    assert filter_summary_lineage(base)["object"][0]["model_lineage"]["metric"] == {"accuracy": 1}


def test_reads_the_runs_of_a_real_mindspore(tmp_path: Path) -> None:
    for source in MINDSPORE_RUNS.glob("mindspore_*"):
        shutil.copytree(source, tmp_path / source.name)

    (run,) = filter_summary_lineage(
        tmp_path, {"summary_dir": {"eq": "./mindspore_train_and_eval"}}
    )["object"]
    lineage = run["model_lineage"]

    assert (lineage["network"], lineage["optimizer"], lineage["learning_rate"]) == (
        "TinyNet",
        "Adam",
        0.001,
    )
    assert (lineage["train_dataset_count"], lineage["test_dataset_count"]) == (64, 32)
    assert sorted(lineage["metric"]) == ["accuracy", "loss"]
    assert run["dataset_graph"]["op_type"] == "Batch"


def test_a_path_is_relative_to_the_working_directory_and_may_go_up(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(base / "a")

    assert filter_summary_lineage("..")["count"] == 3
    assert get_summary_lineage("../b")["summary_dir"] == str(base / "b")


def test_runs_that_lie_deeper_are_named_once_and_found_when_asked_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for version, loss in enumerate((0.5, 0.25)):
        write_run(tmp_path / "digits" / f"version_{version}", TrainInfo(loss=loss), mtime=100)

    assert filter_summary_lineage(tmp_path)["count"] == 0
    (message,) = caplog.messages
    assert "digits/version_0, digits/version_1. Pass recursive=True" in message
    assert filter_summary_lineage(tmp_path, {"loss": {"lt": 0.5}}, recursive=True)["count"] == 1
    assert [row["run"] for row in lineage_records(tmp_path)] == [
        "digits/version_0",
        "digits/version_1",
    ]
    condition = {"summary_dir": {"eq": str(tmp_path / "digits" / "version_1")}}
    assert [row["loss"] for row in lineage_records(tmp_path, condition)] == [0.25]
    assert lineage_records(tmp_path, recursive=False) == []


@pytest.mark.parametrize("path", ["", "no such directory", "a\0b", 5, ["runs"], b"runs"], ids=repr)
def test_refuses_what_is_no_path(path: Any) -> None:
    with pytest.raises(LineageParamSummaryPathError, match="summary_base_dir"):
        filter_summary_lineage(path)


def test_refuses_no_directory_at_all() -> None:
    with pytest.raises(LineageParamTypeError):
        filter_summary_lineage(None)  # type: ignore[arg-type]


def test_refuses_a_condition_even_if_there_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(LineageSearchConditionParamError):
        filter_summary_lineage(tmp_path, {"limit": 0})


def test_runs_of_one_pipeline_do_not_share_it_in_the_callers_hands(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_run(tmp_path / name, DatasetGraph({"op_type": "BatchDataset"}))

    first, second = filter_summary_lineage(tmp_path)["object"]
    first["dataset_graph"]["op_type"] = "changed"

    assert second["dataset_graph"]["op_type"] == "BatchDataset"
    assert [
        run["dataset_graph"]["op_type"] for run in filter_summary_lineage(tmp_path)["object"]
    ] == ["BatchDataset"] * 2
    assert {
        run["model_lineage"]["dataset_mark"] for run in filter_summary_lineage(tmp_path)["object"]
    } == {"2"}


def test_scalars_of_summary_files_are_compared_and_sorted_by(tmp_path: Path) -> None:
    for name, losses in {"a": [3.0, 1.0, 2.0], "b": [5.0, 0.5, 4.0], "c": [1.0, math.nan]}.items():
        write_summary(
            tmp_path / name,
            [values_at(step, {"train/loss": loss}) for step, loss in enumerate(losses)],
        )
        write_lineage(tmp_path / name, [TrainInfo()])

    assert found(tmp_path, {"last:train/loss": {"ge": 2}, "sorted_name": "min:train/loss"}) == [
        "b",
        "a",
    ]
    assert found(tmp_path, {"max:train/loss": {"eq": 1.0}}) == ["c"]
    with pytest.raises(LineageSearchConditionParamError, match="must be a number"):
        found(tmp_path, {"last:train/loss": {"ge": "2"}})
