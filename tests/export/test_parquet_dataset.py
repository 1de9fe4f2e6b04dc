"""A directory of runs as one Parquet data set."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from mindsummary_lightning import SummaryRecord, runs_to_pandas
from mindsummary_lightning.export import parquet_dataset
from mindsummary_lightning.export.parquet_dataset import export_parquet, export_parquet_dataset
from mindsummary_lightning.values import EvaluationInfo, TrainInfo, UserDefinedInfo
from tests.cli.command import mindsummary
from tests.reading.runs import histogram, values_at, write_lineage, write_summary

pandas = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

COLUMNS = ["run", "tag", "step", "wall_time", "value"]


@pytest.fixture
def runs(tmp_path: Path) -> list[str]:
    names = ["a/version_0", "a/version_1", "b=c d"]
    for number, name in enumerate(names):
        run = tmp_path / "runs" / name
        write_summary(run, [values_at(step, {"loss": 1.0 / step}) for step in range(1, 4 + number)])
        custom = UserDefinedInfo({"seed": number if number else "none"})
        write_lineage(
            run,
            [
                TrainInfo(network="Net", batch_size=8),
                EvaluationInfo(f'{{"acc": 0.{number}}}'),
                custom,
            ],
        )
    return [str(tmp_path / "runs" / name) for name in names]


def test_every_run_is_a_partition_and_a_row_of_lineage(tmp_path: Path, runs: list[str]) -> None:
    written = export_parquet_dataset(runs, str(tmp_path / "runs"), str(tmp_path / "out"))

    scalars = pandas.read_parquet(tmp_path / "out" / "scalars")
    lineage = pandas.read_parquet(tmp_path / "out" / "lineage.parquet")
    assert len(written) == 4
    assert scalars.groupby("run", observed=True).size().to_dict() == {
        "a/version_0": 3,
        "a/version_1": 4,
        "b=c d": 5,
    }
    assert list(lineage["run"]) == ["a/version_0", "a/version_1", "b=c d"]
    assert list(lineage["metric/acc"]) == [0.0, 0.1, 0.2]
    assert list(lineage["seed"]) == ["none", "1", "2"]  # of several types: text


@pytest.mark.slow
def test_duckdb_reads_it_as_it_is(tmp_path: Path, runs: list[str]) -> None:
    duckdb = pytest.importorskip("duckdb")
    export_parquet_dataset(runs, str(tmp_path / "runs"), str(tmp_path / "out"))

    rows = duckdb.sql(
        f"""SELECT run, min(value)
        FROM read_parquet('{tmp_path}/out/scalars/*/*.parquet', hive_partitioning = true)
        JOIN '{tmp_path}/out/lineage.parquet' USING (run)
        WHERE "metric/acc" > 0.05 GROUP BY run ORDER BY run"""
    ).fetchall()

    assert [(run, round(value, 4)) for run, value in rows] == [
        ("a/version_1", 0.25),
        ("b=c d", 0.2),
    ]


def test_the_command_takes_a_directory_of_runs(
    tmp_path: Path, runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    answer = mindsummary(
        capsys, "export", tmp_path / "runs", "--to", "parquet", "--out", tmp_path / "out"
    )

    assert answer.code == 0
    assert answer.out.splitlines()[-1] == str(tmp_path / "out" / "lineage.parquet")


def test_one_run_has_the_layout_of_many(tmp_path: Path, runs: list[str]) -> None:
    (run, *_) = runs
    written = export_parquet(run, str(tmp_path / "out"))

    assert written == [
        str(tmp_path / "out" / "scalars" / "version_0" / "part-0.parquet"),
        str(tmp_path / "out" / "lineage.parquet"),
    ]
    assert pandas.read_parquet(tmp_path / "out" / "scalars").columns.tolist() == COLUMNS
    assert pandas.read_parquet(tmp_path / "out" / "lineage.parquet")["run"].tolist() == [
        "version_0"
    ]


def test_runs_whose_names_are_numbers_or_dates_stay_text_for_every_reader(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    names = ["007", "1e3", "2026-01-01", "_3", ".4", os.fsdecode(b"\xff")]
    for name in names:
        write_summary(tmp_path / "runs" / name, [values_at(1, {"loss": 1.0})])
    root, out = tmp_path / "runs", tmp_path / "out"
    export_parquet_dataset([str(root / name) for name in names], str(root), str(out))

    rows = duckdb.sql(
        f"SELECT run FROM '{out}/scalars/*/*.parquet' JOIN '{out}/lineage.parquet' USING (run)"
    )

    names[-1] = r"\udcff"  # not UTF-8
    assert sorted(row[0] for row in rows.fetchall()) == sorted(names)
    assert sorted(pandas.read_parquet(out / "scalars")["run"]) == sorted(names)


def test_a_run_that_is_gone_leaves_the_data_set(tmp_path: Path, runs: list[str]) -> None:
    export_parquet_dataset(runs, str(tmp_path / "runs"), str(tmp_path / "out"))
    export_parquet_dataset(runs[:2], str(tmp_path / "runs"), str(tmp_path / "out"), force=True)

    assert set(pandas.read_parquet(tmp_path / "out" / "scalars")["run"]) == {
        "a/version_0",
        "a/version_1",
    }


def test_a_damaged_run_costs_itself_only(
    tmp_path: Path, runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (damaged,) = Path(runs[1]).glob("*_MS")
    data = bytearray(damaged.read_bytes())
    data[-6] ^= 1
    damaged.write_bytes(data)

    answer = mindsummary(
        capsys, "export", tmp_path / "runs", "--to", "parquet", "--out", tmp_path / "out"
    )

    assert answer.code == 1
    head = "skipped because it cannot be read: a/version_1: "
    (note,) = (line for line in answer.out.splitlines() if line.startswith(head))
    assert f"of {damaged}: payload CRC is" in note
    assert set(pandas.read_parquet(tmp_path / "out" / "lineage.parquet")["run"]) == {
        "a/version_0",
        "b=c d",
    }
    assert set(pandas.read_parquet(tmp_path / "out" / "scalars")["run"]) == {"a/version_0", "b=c d"}


def test_nan_and_infinities_of_histograms_leave(tmp_path: Path) -> None:
    pyarrow_parquet = pytest.importorskip("pyarrow.parquet")
    with SummaryRecord(tmp_path / "run") as record:
        for step, data in enumerate(
            ([1.0, 2.0], [np.nan, 1.0, np.inf, -np.inf, np.nan], [np.nan] * 3, [])
        ):
            record.add_value("histogram", "h", np.array(data, np.float32))
            record.record(step)
    export_parquet(str(tmp_path / "run"), str(tmp_path / "out"))

    table = pyarrow_parquet.read_table(tmp_path / "out" / "histograms")
    rows = table.to_pylist()

    types = {field.name: str(field.type) for field in table.schema if field.name != "run"}
    assert types == {
        "tag": "string",
        **dict.fromkeys(("step", "count", "elements"), "int64"),
        **dict.fromkeys(("nan_count", "pos_inf_count", "neg_inf_count"), "int64"),
        **dict.fromkeys(("wall_time", "left", "width", "min", "max", "sum"), "double"),
    }
    assert [row["count"] for row in rows] == [1, 1, 0, 1, 0, 0]
    assert [row["left"] is None for row in rows] == [False] * 4 + [True] * 2
    counts = (
        "step",
        "elements",
        "nan_count",
        "pos_inf_count",
        "neg_inf_count",
        "min",
        "max",
        "sum",
    )
    assert [[row[name] for name in counts] for row in rows[::2]] == [
        [0, 2, 0, 0, 0, 1.0, 2.0, 3.0],
        [1, 5, 2, 1, 1, 1.0, 1.0, 1.0],
        [2, 3, 3, 0, 0, None, None, None],
    ]
    assert (rows[5]["step"], rows[5]["elements"], rows[5]["nan_count"]) == (3, 0, 0)


def test_rows_of_many_blocks_are_written_once_and_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyarrow_parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(parquet_dataset, "_BLOCK_ROWS", 3)
    records = [
        values_at(step, {"loss": 1.0 / step, "h": histogram(*range(1, step + 1))})
        for step in (1, 2, 3)
    ]
    write_summary(
        tmp_path / "run", [*records, values_at(4, {"acc": 0.5}), values_at(5, {"b": 2.0, "z": 3.0})]
    )
    export_parquet(str(tmp_path / "run"), str(tmp_path / "out"))

    scalars = pyarrow_parquet.ParquetFile(tmp_path / "out" / "scalars" / "run" / "part-0.parquet")
    rows = [tuple(row.values()) for row in scalars.read().to_pylist()]
    assert rows == [
        ("run", "acc", 4, 1700000004.0, 0.5),
        ("run", "b", 5, 1700000005.0, 2.0),
        ("run", "loss", 1, 1700000001.0, 1.0),
        ("run", "loss", 2, 1700000002.0, 0.5),
        ("run", "loss", 3, 1700000003.0, np.float32(1 / 3)),
        ("run", "z", 5, 1700000005.0, 3.0),
    ]
    groups = [scalars.metadata.row_group(at).num_rows for at in range(scalars.num_row_groups)]
    assert groups == [5, 1]
    histograms = pyarrow_parquet.read_table(tmp_path / "out" / "histograms").to_pylist()
    assert [tuple(row.values())[:7] for row in histograms] == [
        ("run", "h", 1, 1700000001.0, 0.0, 1.0, 1),
        *(("run", "h", 2, 1700000002.0, float(left), 1.0, left + 1) for left in range(2)),
        *(("run", "h", 3, 1700000003.0, float(left), 1.0, left + 1) for left in range(3)),
    ]
    assert [row["elements"] for row in histograms] == [1, 3, 3, 6, 6, 6]


def test_columns_that_differ_in_case_get_numbers_that_are_free(tmp_path: Path) -> None:
    settings = {"Lr": 1, "lr": 2, "LR": 3, "lr (2)": 4, "Epoch": 5}
    write_summary(tmp_path / "run", [])
    write_lineage(tmp_path / "run", [TrainInfo(epoch=7), UserDefinedInfo(settings)])
    exported = export_parquet(str(tmp_path / "run"), str(tmp_path / "out"))

    (row,) = pandas.read_parquet(tmp_path / "out" / "lineage.parquet").to_dict("records")
    expected = {"Lr": 1, "lr (3)": 2, "LR (4)": 3, "lr (2)": 4, "epoch": 7, "Epoch (2)": 5}
    assert {name: row[name] for name in row if name.lower()[:2] in ("lr", "ep")} == expected
    ((text, number),) = exported.changed.items()
    assert number == 3
    assert text.partition(": ")[2] == "lr is lr (3), LR is LR (4), Epoch is Epoch (2)"


def test_a_column_has_one_type_and_loses_no_digit(tmp_path: Path) -> None:
    big = 2**53 + 1
    cells = {
        "mixed": [1, 0.5, None],
        "exact": [big, 0.5, 2],
        "words": ["a", 3, None],
        "whole": [big, None, -3],
        "texts": ["x", None, "y"],
    }
    for run in range(3):
        own = {name: values[run] for name, values in cells.items() if values[run] is not None}
        write_summary(tmp_path / "runs" / str(run), [])
        write_lineage(tmp_path / "runs" / str(run), [TrainInfo(epoch=1), UserDefinedInfo(own)])
    runs = [str(tmp_path / "runs" / str(run)) for run in range(3)]
    export_parquet_dataset(runs, str(tmp_path / "runs"), str(tmp_path / "out"))

    frame = pandas.read_parquet(tmp_path / "out" / "lineage.parquet")
    found = {name: [None if pandas.isna(cell) else cell for cell in frame[name]] for name in cells}
    assert found == {
        "mixed": [1.0, 0.5, None],
        "exact": [str(big), "0.5", "2"],
        "words": ["a", "3", None],
        "whole": [big, None, -3],
        "texts": ["x", None, "y"],
    }
    assert str(frame["whole"].dtype) == "Int64"
    assert str(frame["mixed"].dtype) == "float64"


def test_custom_data_called_run_stands_beside_the_run(tmp_path: Path) -> None:
    write_summary(tmp_path / "run", [])
    write_lineage(
        tmp_path / "run", [TrainInfo(epoch=1), UserDefinedInfo({"lr": 0.5, "run": "mine"})]
    )
    export_parquet(str(tmp_path / "run"), str(tmp_path / "out"))

    (row,) = pandas.read_parquet(tmp_path / "out" / "lineage.parquet").to_dict("records")
    assert {name: row[name] for name in ("run", "epoch", "lr", "user_defined/run")} == (
        {"run": "run", "epoch": 1, "lr": 0.5, "user_defined/run": "mine"}
    )


def test_the_table_of_runs_is_that_of_pandas(tmp_path: Path, runs: list[str]) -> None:
    export_parquet_dataset(runs, str(tmp_path / "runs"), str(tmp_path / "out"))

    written = pandas.read_parquet(tmp_path / "out" / "lineage.parquet").set_index("run")
    expected = runs_to_pandas(tmp_path / "runs")
    assert list(written.columns) == list(expected.columns)
    assert list(written.index) == list(expected.index)
    for name in expected.columns.difference(["seed", "path", "started", "written"]):
        assert list(written[name]) == list(expected[name])
    assert list(written["started"].dt.floor("us")) == list(expected["started"].dt.floor("us"))


def test_a_number_of_a_diverged_run_is_a_number_and_none_is_rounded(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    settings = [(0.1, 0.1, 3), (float("nan"), 0.2, None), (float("inf"), None, 7)]
    root = tmp_path / "runs"
    for number, (loss, rate, seed) in enumerate(settings):
        custom = UserDefinedInfo({"other": 1} if seed is None else {"seed": seed})
        write_summary(root / str(number), [])
        train = TrainInfo(loss=loss, learning_rate=rate, model_size=2**62 + number)
        write_lineage(root / str(number), [train, custom])
    export_parquet_dataset(
        [str(root / str(number)) for number in range(3)], str(root), str(tmp_path / "out")
    )

    table = f"'{tmp_path}/out/lineage.parquet'"
    assert duckdb.sql(f"SELECT run FROM {table} WHERE learning_rate = 0.1").fetchall() == [("0",)]
    assert duckdb.sql(f"SELECT run FROM {table} WHERE isnan(loss)").fetchall() == [("1",)]
    assert duckdb.sql(f"SELECT seed, model_size - {2**62} FROM {table}").fetchall() == [
        (3, 0),
        (None, 1),
        (7, 2),
    ]
