"""One table of values through every place: what comes out is equal to what was recorded, or
counted.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mindsummary_lightning.export.parquet_dataset import export_parquet_dataset
from mindsummary_lightning.export.tables import export_csv
from mindsummary_lightning.export.tensorboard import export_tensorboard, import_tensorboard
from mindsummary_lightning.lineage.query import filter_summary_lineage
from mindsummary_lightning.lineage.table import lineage_records, lineage_to_pandas
from mindsummary_lightning.reading.summary_reader import SummaryReader
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from tests.cli.command import mindsummary
from tests.lineage.table_of_values import INT64, RECORDED, SETTINGS, condition_for, record_run
from tests.viewer.pages.asking import ask


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs: one with the table, and one that lacks it."""
    directory = tmp_path_factory.mktemp("runs")
    record_run(directory / "with")
    record_run(directory / "without", {"other": 1})
    return directory


def typed(value: Any) -> tuple[str, Any]:
    return type(value).__name__, value


def test_what_is_recorded_is_what_was_set_but_for_bools_and_what_is_not_finite() -> None:
    different = {
        name: value for name, value in RECORDED.items() if typed(value) != typed(SETTINGS[name])
    }

    assert different == {
        "amsgrad": 1, "nesterov": 0, "not a number": "nan", "infinite": "inf",
        "negative infinite": "-inf"
    }  # fmt: skip


def test_the_reader_gives_back_what_was_recorded(base: Path) -> None:
    custom = SummaryReader(str(base / "with")).lineage().custom

    assert custom is not None
    assert {name: typed(value) for name, value in custom.values.items()} == {
        name: typed(value) for name, value in RECORDED.items()
    }


def test_queries_and_tables_in_python_have_it(base: Path) -> None:
    rows = {row["run"]: row for row in lineage_records(base)}
    (found,) = filter_summary_lineage(base, {"summary_dir": {"eq": "./with"}})["object"]
    frame = lineage_to_pandas(base, {"summary_dir": {"eq": "./with"}})

    for name, value in RECORDED.items():
        assert typed(rows["with"][name]) == typed(value), name
        assert typed(found["model_lineage"]["user_defined"][name]) == typed(value), name
        assert frame[name].tolist() == [value], name
        condition = {f"user_defined/{name}": {"eq": value}}
        assert [
            run["summary_dir"] for run in filter_summary_lineage(base, condition)["object"]
        ] == ["./with"], name


@pytest.mark.parametrize("name", RECORDED)
def test_each_value_is_found_in_the_shell_and_on_the_page(
    base: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    answer = mindsummary(capsys, "lineage", base, "--json", "--where", condition_for(name))
    body = json.dumps({"query": condition_for(name)}).encode()
    on_the_page = ask(LoadedRuns(str(base)), "run-table/search", body=body)

    (run,) = json.loads(answer.out)["object"]
    assert run["summary_dir"] == "./with"
    assert typed(run["model_lineage"]["user_defined"][name]) == typed(RECORDED[name])
    assert (on_the_page["train_ids"], on_the_page["problem"]) == (["./with"], None)


@pytest.mark.parametrize(
    ("query", "is_found"),
    [
        ("n_params>=7e9", True),
        ("n_params<7e9", False),
        ("seed=3000000000", True),
        ("not exact=9007199254740993", True),
        ("not exact=9007199254740992", False),
        ("beyond int64>1e21", True),
        ("amsgrad=True", True),
        ("nesterov=false", True),
        ("not a number=NaN", True),
        ("infinite>1e308", True),
        ("number as text>=3e9", True),
        ("true as text=true", True),
        ("star=a*", True),
        ("case=8 Case=7 CASE=9", True),
        ("学习率=10", True),
    ],
)
def test_questions_of_people_have_one_answer_in_the_shell_and_on_the_page(
    base: Path, capsys: pytest.CaptureFixture[str], query: str, is_found: bool
) -> None:
    answer = mindsummary(capsys, "lineage", base, "--json", "--where", query)
    on_the_page = ask(
        LoadedRuns(str(base)), "run-table/search", body=json.dumps({"query": query}).encode()
    )

    expected = ["./with"] if is_found else []
    assert [run["summary_dir"] for run in json.loads(answer.out)["object"]] == expected
    assert (on_the_page["train_ids"], on_the_page["problem"]) == (expected, None)


def test_the_table_of_runs_has_it_and_exact_digits_as_text_where_a_browser_has_none(
    base: Path,
) -> None:
    answer = ask(LoadedRuns(str(base)), "run-table")
    row = answer["train_ids"].index("./with")

    for name, value in RECORDED.items():
        is_exact = not isinstance(value, int) or abs(value) <= 2**53
        assert typed(answer["columns"][name][row]) == typed(value if is_exact else str(value)), name


@pytest.fixture(scope="module")
def lineage_parquet(base: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    pytest.importorskip("pyarrow")
    out = tmp_path_factory.mktemp("parquet") / "out"
    exported = export_parquet_dataset(
        [str(base / "with"), str(base / "without")], str(base), str(out)
    )
    text = (
        "columns of lineage.parquet have another name, because DuckDB does not distinguish "
        "upper and lower case"
    )
    assert exported.changed == {f"{text}: case is case (2), CASE is CASE (3)": 2}
    return str(out / "lineage.parquet")


def _in_parquet(name: str) -> tuple[str, Any]:
    """The column's name and its value: an int beyond 64 bits is text there."""
    value = RECORDED[name]
    column = {"case": "case (2)", "CASE": "CASE (3)"}.get(name, name)
    return column, value if not isinstance(value, int) or value in INT64 else str(value)


def test_pandas_reads_it_from_parquet(lineage_parquet: str) -> None:
    pandas = pytest.importorskip("pandas")

    rows = pandas.read_parquet(lineage_parquet).set_index("run")

    for column, value in map(_in_parquet, RECORDED):
        assert rows[column]["with"] == value, column
        assert pandas.isna(rows[column]["without"]), column


@pytest.mark.slow
def test_polars_reads_it_from_parquet(lineage_parquet: str) -> None:
    polars = pytest.importorskip("polars")

    (row,) = polars.read_parquet(lineage_parquet).filter(polars.col("run") == "with").to_dicts()

    assert {column: typed(row[column]) for column, _ in map(_in_parquet, RECORDED)} == {
        column: typed(value) for column, value in map(_in_parquet, RECORDED)
    }


@pytest.mark.slow
def test_duckdb_reads_it_from_parquet(lineage_parquet: str) -> None:
    duckdb = pytest.importorskip("duckdb")

    for column, value in map(_in_parquet, RECORDED):
        quoted = '"' + column.replace('"', '""') + '"'
        found = duckdb.sql(
            f"SELECT {quoted} FROM '{lineage_parquet}' WHERE run = 'with'"
        ).fetchall()
        assert [typed(one) for (one,) in found] == [typed(value)], column


def test_csv_files_count_what_they_do_not_hold(base: Path, tmp_path: Path) -> None:
    assert export_csv(str(base / "with"), str(tmp_path / "out")).skipped["lineage"] == 1


def test_tensorboard_and_back_gives_equal_values_or_counts_them(base: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    exported = export_tensorboard(str(base / "with"), str(tmp_path / "events"))
    import_tensorboard(str(tmp_path / "events"), str(tmp_path / "back"))

    custom = SummaryReader(str(tmp_path / "back")).lineage().custom
    assert custom is not None
    different = {
        name: custom.values.get(name)
        for name, value in RECORDED.items()
        if custom.values.get(name) != value
    }
    texts = [
        name for name, value in RECORDED.items() if isinstance(value, int) and abs(value) > 2**53
    ]
    assert different == {name: str(RECORDED[name]) for name in texts}
    assert exported.changed == {"hparams: a whole number beyond 2^53, written as text": len(texts)}
