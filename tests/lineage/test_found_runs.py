"""Which of the runs was best: the four questions, each in one line, against values computed by
hand.
"""

from __future__ import annotations

import datetime
import logging
import math
import os
from pathlib import Path

import numpy as np
import pandas
import pytest

from mindsummary_lightning import errors, find_runs, read_scalars, runs_to_pandas
from mindsummary_lightning.lineage.run_rows import RunRow, ordered_columns, scalar_cells, time_of
from mindsummary_lightning.reading.scalar_summaries import RunScalars, TagSummary
from mindsummary_lightning.values import EvaluationInfo, RunInfo, TrainInfo, UserDefinedInfo
from tests.lineage.sixty_runs import Run, by_best, by_last, write_sixty_runs
from tests.reading.runs import values_at, write_lineage, write_summary


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("sixty") / "runs"
    write_sixty_runs(directory)
    return directory


@pytest.fixture(scope="module")
def runs(base: Path) -> list[Run]:
    return write_sixty_runs(base)


@pytest.fixture(scope="module")
def table(base: Path) -> pandas.DataFrame:
    return runs_to_pandas(base)


def test_all_runs_are_one_table_with_what_is_true_of_each(
    table: pandas.DataFrame, runs: list[Run]
) -> None:
    assert list(table.index) == [run.name for run in runs]
    assert table.index.name == "run"
    assert list(table["status"]) == [run.status for run in runs]
    assert list(table["diverged"]) == [run.is_diverged for run in runs]
    assert list(table["steps"]) == [10] * len(runs)
    assert list(table["lr"]) == [run.lr for run in runs]
    assert list(table["seed"]) == [run.seed for run in runs]
    assert list(table["min:val/loss"]) == [run.best for run in runs]
    assert list(table["best_step:val/loss"]) == [run.best_step for run in runs]
    assert list(table["last:val/loss"].dropna()) == [
        run.last for run in runs if not run.is_diverged
    ]
    assert table["last:val/loss"].isna().sum() == sum(run.is_diverged for run in runs)


def test_the_duration_of_a_resumed_run_is_without_the_pause(
    table: pandas.DataFrame, runs: list[Run]
) -> None:
    expected = [22.0 if run.is_resumed else 18.0 for run in runs]  # 14 and 8 seconds in two parts

    assert list(table["duration"]) == expected
    assert str(table["started"].dtype).startswith("datetime64")


def test_a_metric_of_tested_and_untested_runs_is_one_column(
    table: pandas.DataFrame, runs: list[Run]
) -> None:
    has_value = [not run.is_diverged for run in runs]

    assert list(table["metric/val/loss"].notna()) == has_value
    assert list(table["metric/val/loss"][has_value]) == [
        run.last for run in runs if not run.is_diverged
    ]
    assert list(table["metric/test/acc"].notna()) == [run.is_tested for run in runs]
    assert "val/loss" not in table


def test_the_best_by_last_value_and_by_best_value_are_those_computed_by_hand(
    base: Path, runs: list[Run]
) -> None:
    assert find_runs(base, sort="last:val/loss")[0].run == by_last(runs)[0].name
    assert find_runs(base, sort="min:val/loss")[0].run == by_best(runs)[0].name
    assert list(runs_to_pandas(base, sort="last:val/loss").index[:5]) == [
        run.name for run in by_last(runs)[:5]
    ]
    assert list(runs_to_pandas(base, sort="min:val/loss").index[:5]) == [
        run.name for run in by_best(runs)[:5]
    ]


def test_runs_without_a_value_come_last_in_both_directions(base: Path, runs: list[Run]) -> None:
    diverged = {run.name for run in runs if run.is_diverged}
    for descending in (False, True):
        found = find_runs(base, sort="last:val/loss", descending=descending)
        assert {run.run for run in found[-len(diverged) :]} == diverged


def test_the_curves_of_the_top_five_have_the_names_of_the_table(
    base: Path, runs: list[Run]
) -> None:
    curves = read_scalars(find_runs(base, sort="min:val/loss")[:5], tags=["val/loss"])

    joined = curves.merge(runs_to_pandas(base), left_on="run", right_index=True)
    assert list(dict.fromkeys(joined["run"])) == [run.name for run in by_best(runs)[:5]]
    for run in by_best(runs)[:5]:
        values = joined["value"][joined["run"] == run.name]
        np.testing.assert_allclose(values, run.losses, rtol=1e-6, equal_nan=True)


@pytest.mark.parametrize(
    ("where", "is_found"),
    [
        ("status=killed", lambda run: run.is_killed),
        ("diverged=true", lambda run: run.is_diverged),
        ("lr<0.1 seed=2", lambda run: run.lr < 0.1 and run.seed == 2),
        ("user_defined/lr=0.1", lambda run: run.lr == 0.1),
        ("min:val/loss<0.2", lambda run: run.best < 0.2),
        ("test/acc>0.5", lambda run: run.is_tested and run.best < 0.5),
        ("sweep/run_1*", lambda run: 10 <= run.number < 20),
        (
            ["status!=finished", "learning_rate=0.01"],
            lambda run: run.status != "finished" and run.lr == 0.01,
        ),
    ],
)
def test_conditions_find_what_they_say(
    base: Path, runs: list[Run], where: str, is_found: object
) -> None:
    expected = [run.name for run in runs if is_found(run)]  # type: ignore[operator]

    assert [found.run for found in find_runs(base, where=where)] == expected
    assert expected


def test_settings_that_differ_come_first_and_differing_leaves_out_the_others(base: Path) -> None:
    every, some = (list(runs_to_pandas(base, differing=one).columns) for one in (False, True))

    assert max(map(every.index, ("lr", "seed"))) < min(
        map(every.index, ("batch_norm", "optim/beta", "network"))
    )
    assert not {"batch_norm", "optim/beta", "network"}.intersection(some)
    assert {"lr", "seed", "learning_rate", "status", "last:val/loss"} <= set(some)


def test_an_unknown_field_is_refused_with_the_closest_name(base: Path) -> None:
    with pytest.raises(errors.LineageSearchConditionParamError, match="no field 'sede'"):
        find_runs(base, sort="sede")


def test_paths_begin_with_the_directory_and_can_be_pickled(base: Path) -> None:
    import pickle

    found = find_runs(os.path.relpath(base))[0]

    assert found == os.path.join(os.path.relpath(base), "sweep", "run_00")
    assert pickle.loads(pickle.dumps(found)).run == "sweep/run_00"


def test_a_damaged_run_keeps_its_settings_and_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("good", "bad"):
        path = write_summary(tmp_path / name, [values_at(step, {"loss": 1.0}) for step in (1, 2)])
        write_lineage(tmp_path / name, [TrainInfo(network="Net"), UserDefinedInfo({"lr": 0.1})])
    damaged = tmp_path / "bad" / path.name
    damaged.write_bytes(damaged.read_bytes()[:100] + b"x" + damaged.read_bytes()[101:])

    with caplog.at_level(logging.WARNING):
        table = runs_to_pandas(tmp_path, sort="last:loss", descending=True)

    assert list(table.index) == ["good", "bad"]
    assert list(table["last:loss"].isna()) == [False, True]
    assert list(table["lr"]) == [0.1, 0.1]
    assert [one.getMessage().split(":")[0] for one in caplog.records] == [
        "the scalars of bad are left out"
    ]


def test_a_setting_with_the_name_of_a_column_keeps_its_prefix(tmp_path: Path) -> None:
    settings = {"status": "mine", "loss": 3, "epoch": 5, "lr": 0.1, "last:loss": 7, "last:": 8}
    write_lineage(
        tmp_path / "a",
        [
            TrainInfo(loss=0.5, epoch=5),
            EvaluationInfo('{"loss": 0.25}'),
            UserDefinedInfo(settings),
            RunInfo({"status": "success"}),
        ],
    )

    row = runs_to_pandas(tmp_path).loc["a"].drop(["written", "path"])

    assert row.to_dict() == {
        "status": "finished",
        "metric/loss": 0.25,
        "loss": 0.5,
        "epoch": 5,  # the setting says the same
        "user_defined/status": "mine",
        "user_defined/loss": 3,
        "user_defined/last:loss": 7,
        "last:": 8,
        "lr": 0.1,
    }
    for where, number in (
        ("user_defined/status=mine", 1),
        ("user_defined/status=finished", 0),
        ("user_defined/loss=3 loss=0.5 user_defined/lr=0.1", 1),
    ):
        assert len(find_runs(tmp_path, where=where)) == number


def test_whole_numbers_stay_exact_where_a_run_has_none(tmp_path: Path) -> None:
    exact, limit = 2**53 + 1, 2**53
    settings = {"gap": exact, "low": -exact, "limit": limit, "mixed": exact, "huge": 2**63}
    write_lineage(tmp_path / "a", [TrainInfo(epoch=1), UserDefinedInfo({**settings, "all": exact})])
    write_lineage(tmp_path / "b", [TrainInfo(epoch=2), UserDefinedInfo({"mixed": 0.5, "all": 1})])
    write_lineage(tmp_path / "c", [TrainInfo(epoch=3), UserDefinedInfo({"gap": 7, "all": 2})])

    table = runs_to_pandas(tmp_path)

    assert {name: str(table[name].dtype) for name in ("gap", "low", "limit", "mixed", "all")} == {
        "gap": "Int64",
        "low": "Int64",
        "limit": "float64",
        "mixed": "float64",
        "all": "int64",
    }
    assert (table["gap"]["a"], table["low"]["a"], table["all"]["a"]) == (exact, -exact, exact)
    assert table["huge"]["a"] == 2**63


def test_columns_are_facts_then_metrics_then_settings_then_scalars(tmp_path: Path) -> None:
    for name, lr in (("a", 0.1), ("b", 0.2)):
        write_summary(tmp_path / name, [values_at(step, {"loss": lr / step}) for step in (1, 2)])
        settings = UserDefinedInfo({"seed": 1, "lr": lr, "steps/metric/": 3})
        train = [TrainInfo(network="Net", epoch=5 if lr == 0.1 else None)]
        write_lineage(tmp_path / name, [*train, settings, EvaluationInfo('{"acc": 0.5}')])

    os.utime(tmp_path / "b" / "events.out.events.summary.1700000000.0.h_MS", (5_000, 5_000))
    table = runs_to_pandas(tmp_path)
    assert table["started"].tolist() == [pandas.Timestamp(1700000001, unit="s", tz="UTC")] * 2
    assert table["written"]["b"] == pandas.Timestamp(5_000, unit="s", tz="UTC")
    facts = ["diverged", "started", "duration", "steps", "written", "metric/acc"]
    scalars = ["last:loss", "min:loss", "max:loss", "best_step:loss", "path"]
    assert list(runs_to_pandas(tmp_path)) == [
        *facts,
        *("epoch", "lr", "network", "seed", "steps/metric/"),
        *scalars,
    ]
    assert list(runs_to_pandas(tmp_path, differing=True)) == [*facts, "epoch", "lr", *scalars]
    # of a single run every setting is shown
    assert list(runs_to_pandas(tmp_path / "a", differing=True)) == [
        *facts,
        *("network", "epoch", "seed", "lr", "steps/metric/"),
        *scalars,
    ]


def test_the_cells_of_scalars_have_no_value_where_no_value_is_finite() -> None:
    tags = {
        "loss": TagSummary(math.inf, 0.25, 3.0, 4, 1),
        "acc": TagSummary(0.5, 0.125, 0.75, 1, 3),
        "nan/loss": TagSummary(math.inf, math.nan, math.nan, None, None),
    }

    assert scalar_cells(RunScalars(tags, 5, 100.0, 20.0)) == {
        "diverged": True,
        "started": 100.0,
        "duration": 20.0,
        "steps": 5,
        "last:loss": math.inf,
        "min:loss": 0.25,
        "max:loss": 3.0,
        "best_step:loss": 4,
        "last:acc": 0.5,
        "min:acc": 0.125,
        "max:acc": 0.75,
        "best_step:acc": 3,
        "last:nan/loss": math.inf,
        "min:nan/loss": None,
        "max:nan/loss": None,
        "best_step:nan/loss": None,
    }


def test_the_end_of_a_tag_means_the_last_value_of_the_scalar(tmp_path: Path) -> None:
    for name, values in (("a", (0.25, 0.75)), ("b", (0.875, 0.5))):
        write_summary(
            tmp_path / name, [values_at(step, {"val/acc": acc}) for step, acc in enumerate(values)]
        )

    for acc in ("acc", "val/acc", "last:val/acc"):
        assert [run.run for run in find_runs(tmp_path, where=f"{acc}<0.75")] == ["b"]
        assert [run.run for run in find_runs(tmp_path, sort=acc)] == ["b", "a"]
    assert [run.run for run in find_runs(tmp_path, sort="max:val/acc")] == ["a", "b"]


def test_the_status_that_a_run_notes_is_no_setting(tmp_path: Path) -> None:
    noted = RunInfo({"status": "success", "precision": "32-true"})
    write_lineage(tmp_path, [TrainInfo(epoch=1), noted])

    table = runs_to_pandas(tmp_path).drop(columns=["written", "path"])

    assert table.to_dict("list") == {
        "status": ["finished"],
        "epoch": [1],
        "precision": ["32-true"],
    }


def test_a_run_that_records_no_end_has_no_status(tmp_path: Path) -> None:
    write_summary(tmp_path / "by_hand", [values_at(1, {"loss": 1.0})])
    write_lineage(tmp_path / "by_hand", [TrainInfo(network="Net"), RunInfo({"note": "x"})])

    assert "status" not in runs_to_pandas(tmp_path)


def test_a_time_is_one_in_utc() -> None:
    assert time_of(0.5) == datetime.datetime(1970, 1, 1, 0, 0, 0, 500_000, datetime.timezone.utc)
    assert (time_of(None), time_of("5")) == (None, None)


def test_every_column_is_listed_once() -> None:
    rows = [
        RunRow("a", "runs/a", {"lr": 0.1, "status": "killed", "last:x": 1.0, "seed": 1, "n": None}),
        RunRow("b", "runs/b", {"seed": 1, "metric/x": 5, "lr": 0.2, "extra": "only here"}),
    ]

    every = ["status", "metric/x", "lr", "extra", "seed", "last:x"]
    assert ordered_columns(rows) == every
    assert ordered_columns(rows, differing=True) == [name for name in every if name != "seed"]
    assert ordered_columns(rows[1:], differing=True) == ["metric/x", "seed", "lr", "extra"]


@pytest.mark.parametrize("seconds", [253_402_300_800.0, -1e300, math.inf, math.nan])
def test_a_time_that_no_calendar_has_is_missing(seconds: float) -> None:
    assert time_of(seconds) is None
