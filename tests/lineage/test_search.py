"""Answers to queries over runs, as wholes."""

from __future__ import annotations

from typing import Any

import pytest

from mindsummary_lightning.lineage.conditions import parse_condition
from mindsummary_lightning.lineage.merge import FIELDS
from mindsummary_lightning.lineage.query_language import parse_conditions
from mindsummary_lightning.lineage.scalar_statistics import ScalarStatistics
from mindsummary_lightning.lineage.search import (
    Query,
    query_lineage,
    recorded_fields,
    search_lineage,
)
from mindsummary_lightning.reading.run_tree import RunDirectory, list_train_jobs
from mindsummary_lightning.values import (
    DatasetGraph,
    EvaluationInfo,
    RunInfo,
    TrainInfo,
    UserDefinedInfo,
)
from tests.lineage.lineage_tree import write_run
from tests.reading.runs import values_at, write_summary

_EXACT = 2**53


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[RunDirectory]:
    """Three runs, the last one updated first; ``a`` has no metric."""
    base = tmp_path_factory.mktemp("runs")
    graph = DatasetGraph({"op_type": "Batch", "batch_size": 8})
    nested = {"optim": {"lr": 0.1, "betas": {"first": 0.9}}, "a/b": 5, "exact": _EXACT}
    noted = RunInfo({"status": "success", "precision": "32-true", "seed": 3})
    beyond = {"deep": {"low": -_EXACT - 1, "kept": -_EXACT}, "seed": 4}
    big = UserDefinedInfo({"big": _EXACT + 1})
    write_run(base / "a", TrainInfo(epoch=1), UserDefinedInfo(nested), noted, mtime=100.5)
    write_run(
        base / "b",
        TrainInfo(epoch=2, network="Net"),
        EvaluationInfo('{"acc": 0.5, "top": 1}'),
        UserDefinedInfo(beyond),
        graph,
        mtime=200,
    )
    write_run(base / "c", TrainInfo(epoch=3), EvaluationInfo('{"acc": 1}'), big, graph, mtime=300)
    write_summary(base / "b", [values_at(step, {"loss": 1 / step}) for step in (2, 4)], 1)
    return list_train_jobs(str(base))


def _shown(name: str, mark: str, fields: dict[str, Any], **parts: Any) -> dict[str, Any]:
    graph, added = parts.pop("dataset_graph", {}), parts.pop("added_info", {})
    sections = {"metric": {}, "user_defined": {}, **parts}
    model = {**dict.fromkeys(FIELDS), **fields, "dataset_mark": mark, **sections}
    shown = {"summary_dir": name, "model_lineage": model, "dataset_graph": graph}
    return {**shown, "added_info": added}


def test_an_answer_has_every_part_of_each_run_and_what_users_added(
    runs: list[RunDirectory],
) -> None:
    graph = {"op_type": "Batch", "batch_size": 8, "children": []}
    added = {"./a": {"tag": 1, "remark": "x"}, "./c": {"tag": 5}}
    condition = parse_condition({"sorted_name": "tag", "sorted_type": "descending"}, "/")

    answer = search_lineage(runs, condition, added)

    assert answer["object"] == [
        _shown(
            *("./c", "2", {"epoch": 3}),
            metric={"acc": 1},
            user_defined={"big": _EXACT + 1},
            dataset_graph=graph,
            added_info={"tag": 5},
        ),
        _shown(
            *("./a", "3", {"epoch": 1}),
            user_defined={
                "optim": {"lr": 0.1, "betas": {"first": 0.9}},
                "a/b": 5,
                "exact": _EXACT,
            },
            added_info={"tag": 1, "remark": "x"},
        ),
        _shown(
            *("./b", "2", {"epoch": 2, "network": "Net"}),
            metric={"acc": 0.5, "top": 1},
            user_defined={"deep": {"low": -_EXACT - 1, "kept": -_EXACT}, "seed": 4},
            dataset_graph=graph,
        ),
    ]
    assert answer["count"] == 3
    assert {
        label: (one["type"], one["required"]) for label, one in answer["customized"].items()
    } == {
        "metric/acc": ("float", True),
        "metric/top": ("int", True),
        "user_defined/optim": ("dict", False),
        "user_defined/a/b": ("int", False),
        "user_defined/exact": ("int", False),
        "user_defined/big": ("int", False),
        "user_defined/deep": ("dict", False),
        "user_defined/seed": ("int", False),
    }
    assert all(one["label"] == label for label, one in answer["customized"].items())


def test_a_browser_gets_ints_that_it_would_round_as_texts(runs: list[RunDirectory]) -> None:
    condition = parse_condition({"user_defined/big": {"eq": str(_EXACT + 1)}}, "/")

    every = search_lineage(runs, parse_condition({}, "/"), is_for_browser=True)["object"]

    assert [run["model_lineage"]["user_defined"] for run in every] == [
        {"big": str(_EXACT + 1)},
        {"deep": {"low": str(-_EXACT - 1), "kept": -_EXACT}, "seed": 4},
        {"optim": {"lr": 0.1, "betas": {"first": 0.9}}, "a/b": 5, "exact": _EXACT},
    ]
    assert search_lineage(runs, condition, is_for_browser=True)["count"] == 1
    assert search_lineage(runs, condition)["count"] == 0


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("user_defined/optim/lr", [None, None, 0.1]),
        ("user_defined/optim/betas/first", [None, None, 0.9]),
        ("user_defined/a/b", [None, None, 5]),
        ("user_defined/seed", [None, 4, 3]),  # the user's own comes first
        ("user_defined/precision", [None, None, "32-true"]),
        ("user_defined/optim/lr/x", [None, None, None]),
        ("metric/acc", [1, 0.5, None]),
        ("dataset_mark", ["2", "2", "3"]),
        ("summary_dir", ["./c", "./b", "./a"]),
        ("status", [None, None, "finished"]),
        ("user_defined/status", [None, None, "finished"]),
        ("written", [300.0, 200.0, 100.5]),
        ("epoch", [3, 2, 1]),
        ("last:loss", [None, 0.25, None]),
        ("best_step:loss", [None, 4, None]),
        ("steps", [None, 4, None]),
        ("nothing", [None, None, None]),
    ],
)
def test_a_field_of_a_query_has_its_value(
    runs: list[RunDirectory], field: str, values: list[object]
) -> None:
    query = Query(parse_conditions(f"{field}!=-1"), "epoch", is_descending=True)

    answer = query_lineage(runs, query, ScalarStatistics([field]))

    assert [run["asked"] for run in answer["object"]] == [
        {field: value, "epoch": epoch} for value, epoch in zip(values, (3, 2, 1), strict=True)
    ]


def test_the_run_updated_last_comes_first_whatever_the_order_of_the_listing(
    runs: list[RunDirectory],
) -> None:
    answer = search_lineage([runs[1], runs[2], runs[0]], parse_condition({}, ""))

    assert [run["summary_dir"] for run in answer["object"]] == ["./c", "./b", "./a"]


def test_a_query_keeps_the_order_of_the_listing_and_shows_what_runs_note(
    runs: list[RunDirectory],
) -> None:
    query = Query(parse_conditions("user_defined/seed>=3"))

    answer = query_lineage(runs, query, ScalarStatistics(()))

    assert query.fields == ("user_defined/seed",)
    assert [run["run_info"] for run in answer["object"]] == [
        {"status": None},
        {"status": "finished", "precision": "32-true", "seed": 3},
    ]
    assert answer["count"] == 2


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("net", ["./b"]),
        ('"optim/betas/first=0.9"', ["./a"]),
        ("kept", ["./b"]),
        ("{", []),
        ("none", []),
        ("dataset_mark=2 -net", ["./c"]),
        ('"precision=32"', ["./a"]),
    ],
)
def test_words_are_looked_for_in_the_values_that_runs_recorded(
    runs: list[RunDirectory], words: str, found: list[str]
) -> None:
    answer = query_lineage(runs, Query(parse_conditions(words)), ScalarStatistics(()))

    assert [run["summary_dir"] for run in answer["object"]] == found


def test_the_fields_that_runs_recorded_are_listed_with_their_paths(
    runs: list[RunDirectory],
) -> None:
    settings = ("optim", "optim/lr", "optim/betas", "optim/betas/first", "a/b", "exact", "status")
    others = ("precision", "seed", "big", "deep", "deep/low", "deep/kept")

    assert recorded_fields(runs) == {
        *("epoch", "network", "metric/acc", "metric/top"),
        *(f"user_defined/{name}" for name in (*settings, *others)),
    }
