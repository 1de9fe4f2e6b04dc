"""A directory of runs as one Parquet data set."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindsummary_lightning.export.parquet_dataset import export_parquet_dataset
from mindsummary_lightning.values import EvaluationInfo, TrainInfo, UserDefinedInfo
from tests.cli.command import mindsummary
from tests.reading.runs import values_at, write_lineage, write_summary

pandas = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")


@pytest.fixture
def runs(tmp_path: Path) -> list[str]:
    names = ["a/version_0", "a/version_1", "b=c d"]
    for number, name in enumerate(names):
        run = tmp_path / "runs" / name
        write_summary(run, [values_at(step, {"loss": 1.0 / step}) for step in range(1, 4 + number)])
        custom = UserDefinedInfo({"seed": number if number else "none"})
        write_lineage(run, [TrainInfo(network="Net", batch_size=8), EvaluationInfo(f'{{"acc": 0.{number}}}'), custom])
    return [str(tmp_path / "runs" / name) for name in names]


def test_every_run_is_a_partition_and_a_row_of_lineage(tmp_path: Path, runs: list[str]) -> None:
    written = export_parquet_dataset(runs, str(tmp_path / "runs"), str(tmp_path / "out"))

    scalars = pandas.read_parquet(tmp_path / "out" / "scalars")
    lineage = pandas.read_parquet(tmp_path / "out" / "lineage.parquet")
    assert len(written) == 4
    assert scalars.groupby("run", observed=True).size().to_dict() == {"a/version_0": 3, "a/version_1": 4, "b=c d": 5}
    assert list(lineage["run"]) == ["a/version_0", "a/version_1", "b=c d"]
    assert list(lineage["metric acc"]) == [0.0, 0.1, 0.2]
    assert list(lineage["seed"]) == ["none", "1", "2"]  # of several types: text


def test_duckdb_reads_it_as_it_is(tmp_path: Path, runs: list[str]) -> None:
    duckdb = pytest.importorskip("duckdb")
    export_parquet_dataset(runs, str(tmp_path / "runs"), str(tmp_path / "out"))

    rows = duckdb.sql(
        f"""SELECT run, min(value) FROM read_parquet('{tmp_path}/out/scalars/*/*.parquet', hive_partitioning = true)
        JOIN '{tmp_path}/out/lineage.parquet' USING (run) WHERE "metric acc" > 0.05 GROUP BY run ORDER BY run"""
    ).fetchall()

    assert [(run, round(value, 4)) for run, value in rows] == [("a/version_1", 0.25), ("b=c d", 0.2)]


def test_the_command_takes_a_directory_of_runs(
    tmp_path: Path, runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    answer = mindsummary(capsys, "export", tmp_path / "runs", "--to", "parquet", "--out", tmp_path / "out")

    assert answer.code == 0
    assert answer.out.splitlines()[-1] == str(tmp_path / "out" / "lineage.parquet")


def test_other_formats_take_one_run(tmp_path: Path, runs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    answer = mindsummary(capsys, "export", tmp_path / "runs", "--to", "csv", "--out", tmp_path / "out")

    assert answer.code == 2
    assert "contains 3 runs" in answer.err
