"""Runs below a directory, and their scalars as one table."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mindsummary_lightning import SummaryReader, find_runs, read_scalars
from mindsummary_lightning.errors import DamagedFileError
from tests.reading.runs import values_at, write_summary


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for version, loss in enumerate((0.5, 0.25)):
        steps = [values_at(step, {"loss": loss / step, f"only_{version}": 1.0}) for step in (1, 2)]
        write_summary(tmp_path / "runs" / "digits" / f"version_{version}", steps)
    return tmp_path / "runs"


def test_runs_are_found_at_any_depth_by_paths_that_begin_as_the_one_given(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(runs.parent)

    assert find_runs("runs") == ["runs/digits/version_0", "runs/digits/version_1"]
    assert find_runs(runs / "digits" / "version_1") == [str(runs / "digits" / "version_1")]
    with pytest.raises(FileNotFoundError):
        find_runs("nowhere")


def test_scalars_of_all_runs_are_one_table_with_a_column_for_the_run(runs: Path) -> None:
    pytest.importorskip("pandas")
    table = read_scalars(runs, tags=["loss"])

    assert [str(kind) for kind in table.dtypes] == [
        "category",
        "category",
        "int64",
        "float64",
        "float32",
    ]
    assert list(table) == ["run", "tag", "step", "wall_time", "value"]
    assert table.to_numpy().tolist() == [
        ["digits/version_0", "loss", 1, 1700000001.0, 0.5],
        ["digits/version_0", "loss", 2, 1700000002.0, 0.25],
        ["digits/version_1", "loss", 1, 1700000001.0, 0.25],
        ["digits/version_1", "loss", 2, 1700000002.0, 0.125],
    ]
    assert set(read_scalars(runs)["tag"]) == {"loss", "only_0", "only_1"}
    assert len(read_scalars(runs, tags=[])) == 0


def test_runs_that_are_named_keep_their_names_and_may_be_readers(runs: Path) -> None:
    pytest.importorskip("pandas")
    reader = SummaryReader(runs / "digits" / "version_1")

    table = read_scalars([reader, runs / "digits" / "version_0"], tags=["loss"])

    assert list(table["run"].unique()) == [os.fspath(reader), str(runs / "digits" / "version_0")]
    assert table["value"].tolist() == [0.25, 0.125, 0.5, 0.25]


def test_a_damaged_run_is_left_out_and_named(runs: Path, caplog: pytest.LogCaptureFixture) -> None:
    (path,) = (runs / "digits" / "version_0").iterdir()
    path.write_bytes(path.read_bytes()[:60] + b"x" + path.read_bytes()[61:])

    tables = [read_scalars(runs, ["loss"]), read_scalars(find_runs(runs), ["loss"])]

    assert [list(table["run"].unique()) for table in tables] == [["digits/version_1"]] * 2
    assert [one.getMessage().partition(" is left out: ")[0] for one in caplog.records] == [
        "digits/version_0"
    ] * 2


def test_a_text_is_no_collection_of_tags_and_a_number_no_runs(runs: Path) -> None:
    with pytest.raises(TypeError, match=r"tags must be a collection of names, not 'loss'"):
        read_scalars(runs, tags="loss")
    with pytest.raises(TypeError, match="runs must be a path, not 5"):
        read_scalars(5)  # type: ignore[arg-type]


def test_runs_that_are_all_damaged_are_an_error(runs: Path) -> None:
    for path in runs.glob("digits/*/*"):
        path.write_bytes(path.read_bytes()[:60] + b"x" + path.read_bytes()[61:])

    with pytest.raises(DamagedFileError):
        read_scalars(runs)


def test_runs_that_were_found_keep_the_names_of_the_table(runs: Path) -> None:
    assert set(read_scalars(find_runs(runs))["run"]) == set(read_scalars(runs)["run"])
