from __future__ import annotations

import csv
import json
import stat
from pathlib import Path

import numpy as np
import pytest

from mindsummary_lightning.conversion.histograms import to_histogram
from mindsummary_lightning.export.tables import export_csv, export_npy, export_parquet
from mindsummary_lightning.reading.summary_reader import SummaryReader
from mindsummary_lightning.values import Histogram, Tensor
from tests.cli.command import mindsummary
from tests.cli.demo_run import write_demo_run
from tests.reading.runs import histogram, values_at, write_parameter_run, write_summary
from tests.support import skip_without_packages


def test_csv_reads_back_to_the_same_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_demo_run(tmp_path / "run")

    answer = mindsummary(
        capsys, "export", tmp_path / "run", "--to", "csv", "--out", tmp_path / "out"
    )

    assert answer.code == 0
    *files, note = answer.out.splitlines()
    assert files == [str(tmp_path / "out" / name) for name in ("scalars.csv", "histograms.csv")]
    assert note.startswith("skipped because csv files do not hold them: 1 image, 1 tensor, ")
    with (tmp_path / "out" / "scalars.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["tag"] == "loss/auto"]
    series = SummaryReader(tmp_path / "run").scalars("loss/auto")
    assert [np.float32(row["value"]) for row in rows] == series.values.tolist()
    assert [float(row["wall_time"]) for row in rows] == series.wall_times.tolist()
    with (tmp_path / "out" / "histograms.csv").open(newline="", encoding="utf-8") as file:
        assert sum(int(row["count"]) for row in csv.DictReader(file)) == 6 * 864


def _rows(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_csv_has_a_row_for_every_sample_bucket_and_parameter(tmp_path: Path) -> None:
    some = Histogram(
        np.array([-1.5, 0.5]), np.array([2.0, 0.25]), np.array([3, 4]), 10,
        nan_count=1, pos_inf_count=2, neg_inf_count=0, min=-1.25, max=0.75, sum=0.1,
    )  # fmt: skip
    write_summary(
        tmp_path / "run",
        [
            values_at(1, {"b": 0.1, "a": 2.0, "h": some}, 1600000000.25),
            values_at(3, {"b": float("nan")}),
            values_at(4, {"g": to_histogram(np.array([np.inf, -np.inf], np.float32))}),
        ],
    )
    write_parameter_run(tmp_path / "table", ("first.weight", "last.weight"), has_loss=False)

    export_csv(str(tmp_path / "run"), str(tmp_path / "out"))
    export_csv(str(tmp_path / "table"), str(tmp_path / "parameters"))

    assert _rows(tmp_path / "out" / "scalars.csv") == [
        ["tag", "step", "wall_time", "value"],
        ["a", "1", "1600000000.25", "2.0"],
        ["b", "1", "1600000000.25", "0.1"],
        ["b", "3", "1700000003.0", "nan"],
    ]
    of_some = ["10", "1", "2", "0", "-1.25", "0.75", "0.1"]
    assert _rows(tmp_path / "out" / "histograms.csv") == [
        [
            *("tag", "step", "wall_time", "left", "width", "count", "elements", "nan_count"),
            *("pos_inf_count", "neg_inf_count", "min", "max", "sum"),
        ],
        ["g", "4", "1700000004.0", "", "", "0", "2", "0", "1", "1", "", "", ""],
        ["h", "1", "1600000000.25", "-1.5", "2.0", "3", *of_some],
        ["h", "1", "1600000000.25", "0.5", "0.25", "4", *of_some],
    ]
    header, *rows = _rows(tmp_path / "parameters" / "parameters.csv")
    table = SummaryReader(tmp_path / "table").parameter_statistics()
    assert header == ["parameter", "step", *table.columns]
    names = ["first.weight", "last.weight"]
    assert [row[:2] for row in rows] == [
        [name, str(s)] for s in (1, 10, 20, 30, 40) for name in names
    ]
    found = np.array([row[2:] for row in rows], float).reshape(table.values.shape)
    np.testing.assert_array_equal(found, table.values)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        *("scalars.csv", "histograms.csv", ".mindsummary-export")
    }


@pytest.mark.parametrize(
    ("form", "parts"), [("csv", 4), ("npy", 4), ("parquet", 2), ("tensorboard", 7)]
)
def test_the_progress_of_an_export_comes_to_the_size_of_the_runs_files(
    tmp_path: Path, form: str, parts: int
) -> None:
    skip_without_packages(form)
    from mindsummary_lightning.export.tensorboard import export_tensorboard

    # 3 + 1 samples of scalars, 2 histograms, 2 tensors
    tensor = Tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
    path = write_summary(
        tmp_path / "run",
        [
            values_at(1, {"a": 1.0, "b": 2.0, "h": histogram(1, 2)}),
            values_at(2, {"a": 1.0, "h": histogram(3), "t": tensor}),
            values_at(3, {"a": 1.0, "t": tensor}),
        ],
    )
    exports = {"csv": export_csv, "npy": export_npy, "parquet": export_parquet}
    steps: list[int] = []

    exports.get(form, export_tensorboard)(
        str(tmp_path / "run"), str(tmp_path / "out"), steps.append
    )

    assert (len(steps), sum(steps), min(steps) > 0) == (parts, path.stat().st_size, True)


def test_npy_holds_series_and_tensors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    write_summary(
        tmp_path / "run",
        [
            values_at(1, {"a/b": 0.5}),
            values_at(2, {"../t": Tensor(data)}),
            values_at(7, {"a/b": -2.5, "../t": Tensor(data.T)}),
        ],
    )

    answer = mindsummary(
        capsys, "export", tmp_path / "run", "--to", "npy", "--out", tmp_path / "out"
    )

    assert answer.code == 0
    series = np.load(tmp_path / "out" / "scalar" / "a%2Fb.npy")
    assert series.dtype.names == ("step", "wall_time", "value")
    assert series.tolist() == [(1, 1700000001.0, 0.5), (7, 1700000007.0, -2.5)]
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "tensor" / "..%2Ft_2.npy"), data)
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "tensor" / "..%2Ft_7.npy"), data.T)
    assert json.loads((tmp_path / "out" / "names.json").read_text(encoding="utf-8")) == {
        "scalar/a%2Fb.npy": "a/b",
        "tensor/..%2Ft_2.npy": "../t",
        "tensor/..%2Ft_7.npy": "../t",
    }


def test_tags_that_only_their_ends_tell_apart_have_a_file_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tags = [f"{'layer/' * 60}{end}" for end in "ab"]
    write_summary(
        tmp_path / "run", [values_at(1, {tag: float(number) for number, tag in enumerate(tags)})]
    )

    answer = mindsummary(
        capsys, "export", tmp_path / "run", "--to", "npy", "--out", tmp_path / "out"
    )

    names = json.loads((tmp_path / "out" / "names.json").read_text(encoding="utf-8"))
    series = {
        tag: np.load(tmp_path / "out" / name)["value"].tolist() for name, tag in names.items()
    }
    assert series == {tag: [number] for number, tag in enumerate(tags)}
    assert answer.out.splitlines() == [
        str(tmp_path / "out" / name) for name in [*names, "names.json"]
    ]


@pytest.mark.parametrize(
    "begin", ["=", "+", "-", "@", "＝", "＋", "－", "＠", "\t", "\r", "\n", "'"]
)
def test_a_tag_is_not_a_formula_in_a_spreadsheet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], begin: str
) -> None:
    tag = f"{begin}cmd|' /C calc'!A0"
    write_summary(tmp_path / "run", [values_at(1, {tag: -0.5}), values_at(2, {tag: histogram(1)})])

    mindsummary(capsys, "export", tmp_path / "run", "--to", "csv", "--out", tmp_path / "out")

    for name in ("histograms.csv", "scalars.csv"):
        with (tmp_path / "out" / name).open(newline="", encoding="utf-8") as file:
            (row,) = csv.DictReader(file)
        assert row["tag"] == f"'{tag}"
    assert row["value"] == "-0.5"  # a number is no formula


def test_a_histogram_without_buckets_has_one_row_in_csv(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nothing = to_histogram(np.full(3, np.nan))
    write_summary(tmp_path / "run", [values_at(1, {"gone": nothing})])

    mindsummary(capsys, "export", tmp_path / "run", "--to", "csv", "--out", tmp_path / "out")

    with (tmp_path / "out" / "histograms.csv").open(newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert (row["tag"], row["left"], row["width"], row["count"]) == ("gone", "", "", "0")
    assert (row["elements"], row["nan_count"]) == ("3", "3")


@pytest.mark.parametrize("form", ["csv", "npy", "tensorboard", "parquet"])
@pytest.mark.parametrize(
    ("mode", "exported"), [(0o600, 0o600), (0o640, 0o640), (0o750, 0o640), (0o440, 0o640)]
)
def test_who_cannot_read_the_run_cannot_read_the_export_and_nobody_runs_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str, mode: int, exported: int
) -> None:
    skip_without_packages(form)
    write_demo_run(tmp_path / "run")
    for path in (tmp_path / "run").iterdir():
        path.chmod(mode)

    assert (
        mindsummary(
            capsys, "export", tmp_path / "run", "--to", form, "--out", tmp_path / "out"
        ).code
        == 0
    )

    written = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert written
    assert {stat.S_IMODE(path.stat().st_mode) for path in written} == {exported}


def test_parquet_holds_the_scalars(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow")
    import pandas

    write_demo_run(tmp_path / "run")

    answer = mindsummary(
        capsys, "export", tmp_path / "run", "--to", "parquet", "--out", tmp_path / "out"
    )

    assert answer.code == 0
    frame = pandas.read_parquet(tmp_path / "out" / "scalars")
    assert frame["value"].tolist() == SummaryReader(tmp_path / "run").to_pandas()["value"].tolist()


def test_parquet_without_its_packages_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    write_demo_run(tmp_path / "run")

    answer = mindsummary(
        capsys, "export", tmp_path / "run", "--to", "parquet", "--out", tmp_path / "out"
    )

    assert (answer.code, "pip install pyarrow" in answer.err) == (1, True)


def test_a_run_with_nothing_to_export_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_summary(tmp_path / "run", [])

    answer = mindsummary(
        capsys, "export", tmp_path / "run", "--to", "csv", "--out", tmp_path / "out"
    )

    assert (answer.code, "contains nothing that csv files can hold" in answer.out) == (0, True)
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("has_loss", [True, False])
def test_statistics_of_parameters_are_exported_with_their_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], has_loss: bool
) -> None:
    write_parameter_run(
        tmp_path / "run", ("=first.weight", "first.bias", "last.weight"), has_loss=has_loss
    )
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    for form in ("csv", "npy", "parquet"):
        assert (
            mindsummary(
                capsys, "export", tmp_path / "run", "--to", form, "--out", tmp_path / form
            ).code
            == 0
        )

    with (tmp_path / "csv" / "parameters.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 15
    assert (rows[0]["parameter"], rows[0]["step"]) == ("'=first.weight", "1")
    assert float(rows[13]["gradient_rms"]) == pytest.approx(1e-2, rel=1e-6)
    names = json.loads((tmp_path / "npy" / "parameter_statistics.json").read_text(encoding="utf-8"))
    array = np.load(tmp_path / "npy" / "tensor" / "parameter_statistics_30.npy")
    assert array.shape == (len(names["rows"]), len(names["columns"]))
    frame = pandas.read_parquet(tmp_path / "parquet" / "parameters")
    assert frame.columns.tolist() == ["run", *rows[0]]
    assert (frame["run"].unique().tolist(), frame["parameter"][0]) == (["run"], "=first.weight")
    expected = SummaryReader(tmp_path / "run").parameter_statistics().to_pandas().reset_index()
    pandas.testing.assert_frame_equal(frame.drop(columns="run")[expected.columns], expected)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_statistics_of_parameters_that_are_written_are_not_called_skipped(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if form == "parquet":
        pytest.importorskip("pyarrow")
    write_parameter_run(tmp_path / "run", ("first.weight", "last.weight"))
    alone = mindsummary(
        capsys, "export", tmp_path / "run", "--to", form, "--out", tmp_path / "alone"
    )
    write_summary(
        tmp_path / "other",
        [values_at(1, {"parameter_statistics": Tensor(np.zeros((2, 3), np.float32))})],
    )
    users_own = mindsummary(
        capsys, "export", tmp_path / "other", "--to", form, "--out", tmp_path / "other out"
    )

    assert "tensor" not in alone.out
    assert "1 tensor" in users_own.out
