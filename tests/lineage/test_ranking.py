"""Runs from best to worst, and the columns of their table."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindsummary_lightning.errors import LineageSearchConditionParamError
from mindsummary_lightning.lineage.ranking import (
    Ranking,
    cell_text,
    rank,
    ranked_columns,
    status_text,
)
from mindsummary_lightning.lineage.run_rows import RunRow, RunRows
from mindsummary_lightning.reading.scalar_summaries import RunScalars, TagSummary
from mindsummary_lightning.values import EvaluationInfo, RunInfo, TrainInfo, UserDefinedInfo
from tests.reading.runs import values_at, write_lineage, write_summary


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs of four scalars; the last one has no metric."""
    directory = tmp_path_factory.mktemp("runs")
    for name, lr, losses, accuracies in (
        ("a", 0.1, (0.75, 0.25, 0.5), (0.25, 0.5, 0.75)),
        ("b", 0.2, (0.5, 0.375, 0.375), (0.5, 0.875, 0.125)),
        ("c", 0.3, (0.25, 0.5, 1.0), (0.0, 0.25, 0.5)),
    ):
        values = zip(losses, accuracies, strict=True)
        records = [
            values_at(
                step,
                {"val/loss": loss, "val/acc": acc, "top/speed": 8 * lr - step, "low/speed": lr},
            )
            for step, (loss, acc) in enumerate(values, 1)
        ]
        write_summary(directory / name, records)
        write_lineage(
            directory / name,
            [
                TrainInfo(network="Net", epoch=int(10 * lr), loss=lr),
                UserDefinedInfo({"lr": lr, "seed": 7, "optim": {"lr": lr, "beta": lr / 2}}),
                *([EvaluationInfo(f'{{"test/acc": {1 - lr}, "mse": {lr}}}')] if name < "c" else []),
            ],
        )
    return directory


@pytest.mark.parametrize(
    ("name", "column", "tag", "runs"),
    [
        ("val/loss", "min:val/loss", "val/loss", "acb"),
        ("loss", "loss", "", "abc"),  # the field of lineage
        ("acc", "max:val/acc", "val/acc", "bac"),
        ("last:val/loss", "last:val/loss", "val/loss", "bac"),
        ("last:val/acc", "last:val/acc", "val/acc", "acb"),
        ("min:val/acc", "min:val/acc", "val/acc", "cba"),
        ("max:val/loss", "max:val/loss", "val/loss", "cab"),
        ("test/acc", "metric/test/acc", "", "abc"),
        ("mse", "metric/mse", "", "abc"),
        ("metric/mse", "metric/mse", "", "abc"),
        ("lr", "lr", "", "cba"),
        ("beta", "optim/beta", "", "cba"),
    ],
)
def test_runs_are_ranked_by_what_the_name_means(
    base: Path, name: str, column: str, tag: str, runs: str
) -> None:
    ranking = rank(RunRows(str(base)), name)

    assert (ranking.column, ranking.tag) == (column, tag)
    assert "".join(row.run for row in ranking.rows) == runs


def test_only_runs_that_meet_the_conditions_are_ranked(base: Path) -> None:
    for where, runs in (([], "acb"), (["lr>0.1"], "cb"), (["lr>0.1", "last:val/loss<1"], "b")):
        assert "".join(row.run for row in rank(RunRows(str(base)), "val/loss", where).rows) == runs


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("speed", "no run has a scalar 'speed' itself. Name one of low/speed, top/speed"),
        ("val/lsos", "no run has a scalar 'val/lsos'; closest: 'val/loss'"),
    ],
)
def test_a_name_that_means_no_column_or_several_is_refused(
    base: Path, name: str, said: str
) -> None:
    with pytest.raises(LineageSearchConditionParamError) as refused:
        rank(RunRows(str(base)), name)

    assert said in str(refused.value)


def test_the_columns_of_a_ranking_are_its_scalar_then_settings_that_differ_then_metrics(
    base: Path,
) -> None:
    table = RunRows(str(base))
    metrics = ["metric/test/acc", "metric/mse"]

    for name, first in (
        ("val/loss", ["min:val/loss", "last:val/loss", "best_step:val/loss"]),
        ("last:val/loss", ["last:val/loss", "min:val/loss", "best_step:val/loss"]),
        ("acc", ["max:val/acc", "last:val/acc", "best_step:val/acc"]),
    ):
        ranking = rank(table, name)
        # the optimizer's rate is that of the setting; epoch and loss are results
        assert ranked_columns(ranking.rows, ranking) == [*first, "lr", "optim/beta", *metrics]
    by_metric = rank(table, "mse")
    assert ranked_columns(by_metric.rows, by_metric) == [
        *("metric/mse", "lr", "optim/beta", "metric/test/acc"),
    ]


def test_a_column_without_a_value_is_left_out() -> None:
    rows = [RunRow("a", "runs/a", {"min:loss": 0.5, "last:loss": None, "best_step:loss": 3})]

    assert ranked_columns(rows, Ranking(rows, "min:loss", "loss")) == ["min:loss", "best_step:loss"]


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        ({}, "-"),
        ({"status": None, "diverged": False}, "-"),
        ({"status": "killed", "diverged": False}, "killed"),
        ({"diverged": True}, "diverged"),
        ({"status": "failed", "diverged": True}, "failed, diverged"),
    ],
)
def test_a_status_says_how_a_run_ended_and_whether_it_diverged(
    cells: dict[str, object], text: str
) -> None:
    assert str(status_text(RunRow("a", "runs/a", cells))) == text  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cell", "text"),
    [(None, "-"), (1 / 3, "0.333333"), (7_000_000_000, "7000000000"), (0, "0"), ("Adam", "Adam")],
)
def test_a_cell_is_a_short_text(cell: object, text: str) -> None:
    assert cell_text(cell) == text  # type: ignore[arg-type]


def test_metrics_that_older_versions_recorded_as_settings_are_one_column(tmp_path: Path) -> None:
    write_lineage(tmp_path / "new", [EvaluationInfo('{"acc": 0.5, "loss": 0.25}')])
    write_lineage(tmp_path / "old", [TrainInfo(), UserDefinedInfo({"acc": 0.75, "loss": 3})])
    write_lineage(
        tmp_path / "both", [EvaluationInfo('{"acc": 0.125}'), UserDefinedInfo({"acc": 0.625})]
    )

    cells = {row.run: row.cells for row in RunRows(str(tmp_path)).rows}

    assert {run: found.get("metric/acc") for run, found in cells.items()} == {
        "both": 0.125,
        "new": 0.5,
        "old": 0.75,
    }
    assert not any("acc" in found for found in cells.values())
    assert cells["old"]["user_defined/loss"] == 3  # a count is no metric


def test_scalars_that_the_caller_has_read_are_not_read_again(base: Path) -> None:
    table = RunRows(str(base), only=["a", "b"])
    given = RunScalars({"given": TagSummary(5.0, 4.0, 6.0, 2, 3)}, 7, 100.0, 20.0)

    table.take_scalars({"b": given, "c": given})

    assert [row.run for row in table.found("last:given=5")] == ["b"]
    assert table.found("last:val/loss>0") == []
    assert [row.cells.get("steps") for row in table.rows] == [None, 7]
    assert "last:given" in table.columns()


def test_a_run_that_cannot_be_read_is_a_problem_of_its_own(tmp_path: Path) -> None:
    for name in ("bad", "good"):
        path = write_summary(tmp_path / name, [values_at(1, {"loss": 1.0})])
    damaged = tmp_path / "bad" / path.name
    damaged.write_bytes(damaged.read_bytes()[:60] + b"x" + damaged.read_bytes()[61:])
    table = RunRows(str(tmp_path))

    ranking = rank(table, "loss")

    assert [row.run for row in ranking.rows] == ["good", "bad"]
    assert list(table.problems) == ["bad"]
    assert str(damaged) in table.problems["bad"]


def test_runs_are_chosen_by_name(base: Path) -> None:
    every = RunRows(str(base))
    every.read_scalars()
    some = RunRows(str(base), only={"a", "c", "nothing"})
    assert [row.run for row in some.rows] == ["a", "c"]

    assert [row.run for row in some.found("min:val/loss<1")] == ["a", "c"]
    assert some.problems == {}
    assert [row.cells for row in some.rows] == [every.rows[0].cells, every.rows[2].cells]


def test_the_status_of_a_run_is_that_of_the_time_asked_for(tmp_path: Path) -> None:
    write_summary(tmp_path / "run", [values_at(1, {"loss": 1.0})])
    path = write_lineage(tmp_path / "run", [TrainInfo(), RunInfo({"status": "started"})])
    now_s = path.stat().st_mtime

    for later_s, status in ((0.0, "running"), (3600.0, "killed")):
        (row,) = RunRows(str(tmp_path), now_s + later_s).rows
        assert row.cells["status"] == status
        assert row.cells["written"] == pytest.approx(now_s, abs=1.0)
