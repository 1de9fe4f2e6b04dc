"""Where conversions write: a directory that is empty, or holds what an earlier one left and is to
be replaced.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from pathlib import Path

import numpy as np
import pytest

from mindsummary_lightning.export.output_directory import (
    ExportedFiles,
    OutputDirectory,
    mode_of_runs,
)
from mindsummary_lightning.reading.summary_reader import SummaryReader
from mindsummary_lightning.values import Image, Tensor, TrainInfo
from tests.cli.command import mindsummary
from tests.cli.demo_run import write_demo_run
from tests.reading.runs import values_at, write_lineage, write_summary

FORMS = ["csv", "npy", "parquet", "tensorboard"]
LIST = ".mindsummary-export"


def _files(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


def _export(
    capsys: pytest.CaptureFixture[str], run: Path, form: str, out: Path, *options: str
) -> int:
    pytest.importorskip({"parquet": "pyarrow", "tensorboard": "tensorboard"}.get(form, "numpy"))
    return mindsummary(capsys, "export", run, "--to", form, "--out", out, *options).code


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    """One run with everything, and one with a scalar only that began at another second on another
    machine.
    """
    write_demo_run(tmp_path / "full")
    write_summary(tmp_path / "small", [values_at(1, {"a": 1.0}, 1600000000.0)], host="another")
    return tmp_path / "full", tmp_path / "small"


@pytest.mark.parametrize("form", FORMS)
def test_a_second_export_is_refused_and_by_force_leaves_nothing_of_the_first(
    tmp_path: Path, runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str], form: str
) -> None:
    full, small = runs
    assert _export(capsys, full, form, tmp_path / "out") == 0
    first = _files(tmp_path / "out")
    assert _export(capsys, small, form, tmp_path / "out") == 1
    assert _files(tmp_path / "out") == first

    assert _export(capsys, small, form, tmp_path / "out", "--force") == 0
    assert _export(capsys, small, form, tmp_path / "fresh") == 0
    assert _files(tmp_path / "out") == _files(tmp_path / "fresh")


@pytest.mark.parametrize("name", ["scalars.csv", "notes.txt", "deep/er/notes.txt", LIST])
@pytest.mark.parametrize("options", [(), ("--force",)])
def test_what_somebody_else_put_there_is_refused_and_stays(
    tmp_path: Path,
    runs: tuple[Path, Path],
    capsys: pytest.CaptureFixture[str],
    name: str,
    options: tuple[str, ...],
) -> None:
    mine = tmp_path / "out" / name
    mine.parent.mkdir(parents=True)
    mine.write_bytes(b"mine")

    assert _export(capsys, runs[1], "csv", tmp_path / "out", *options) == 1

    assert (_files(tmp_path / "out"), mine.read_bytes()) == ({name}, b"mine")


def test_a_file_that_somebody_added_to_an_export_keeps_it_from_being_replaced(
    tmp_path: Path, runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert _export(capsys, runs[1], "npy", tmp_path / "out") == 0
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out" / "scalar" / "mine").symlink_to(tmp_path / "elsewhere")

    answer = mindsummary(
        capsys, "export", runs[0], "--to", "npy", "--out", tmp_path / "out", "--force"
    )

    assert (answer.code, os.path.join("scalar", "mine") in answer.err) == (1, True)
    assert _files(tmp_path / "out") == {LIST, "names.json", "scalar/a.npy"}


@pytest.mark.parametrize(
    "text", ['["../precious.csv", "notes.txt"]', "[" * 100_000, "7", '{"a": 1}', "\udcff"]
)
def test_a_list_of_files_that_somebody_forged_removes_nothing_outside(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / "precious.csv").write_text("mine")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / LIST).write_bytes(text.encode("utf-8", "surrogateescape"))

    with contextlib.suppress(FileExistsError):
        _written(tmp_path / "out", "a.csv")

    assert (tmp_path / "precious.csv").read_text(encoding="utf-8") == "mine"


def _written(out: Path, *names: str) -> None:
    with OutputDirectory(str(out), force=True) as directory:
        for name in names:
            with directory.file(name) as file:
                file.write(name.encode())
                if name == "failing":
                    raise ZeroDivisionError


def test_an_export_that_fails_leaves_the_earlier_one(tmp_path: Path) -> None:
    _written(tmp_path, "one.csv")

    with pytest.raises(ZeroDivisionError):
        _written(tmp_path, "two.csv", "failing")

    assert _files(tmp_path) == {LIST, "one.csv"}


def test_an_export_that_fails_leaves_no_directory_that_it_made(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        _written(tmp_path / "new", "failing")

    assert not (tmp_path / "new").exists()


def test_what_a_killed_export_left_is_removed_by_the_next_and_that_of_a_running_one_is_not(
    tmp_path: Path, runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    killed, running = (
        tmp_path / "out" / f".mindsummary-{pid}-0a1b2c3d.tmp" for pid in (99999999, os.getppid())
    )
    (killed / "files").mkdir(parents=True)
    (killed / "files" / "scalars.csv").touch()
    assert _export(capsys, runs[1], "csv", tmp_path / "out") == 0
    assert _files(tmp_path / "out") == {LIST, "scalars.csv"}

    running.write_bytes(bytes(100))
    assert _export(capsys, runs[1], "csv", tmp_path / "out", "--force") == 1
    assert running.exists()


def test_the_current_directory_can_be_exported_into(
    tmp_path: Path,
    runs: tuple[Path, Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path / "out")

    assert _export(capsys, runs[1], "csv", Path(".")) == 0

    assert _files(tmp_path / "out") == {LIST, "scalars.csv"}


def test_an_export_without_a_file_leaves_an_empty_directory(tmp_path: Path) -> None:
    _written(tmp_path, "one.csv", "folder/two.csv")
    _written(tmp_path)

    assert list(tmp_path.iterdir()) == []


def test_the_files_and_the_list_of_them_are_those_of_the_last_export(tmp_path: Path) -> None:
    with OutputDirectory(str(tmp_path), 0o640) as out:
        for name in ("one.csv", "folder/two.csv"):
            with out.file(name) as file:
                file.write(name.encode())
    assert out.files == [str(tmp_path / "one.csv"), str(tmp_path / "folder" / "two.csv")]
    assert [Path(path).read_bytes() for path in out.files] == [b"one.csv", b"folder/two.csv"]
    assert {
        stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*") if path.is_file()
    } == {0o640}

    _written(tmp_path, "three.csv")
    assert _files(tmp_path) == {LIST, "three.csv"}
    assert json.loads((tmp_path / LIST).read_text(encoding="utf-8")) == ["three.csv"]


def test_a_file_that_is_not_completed_is_no_file(tmp_path: Path) -> None:
    with OutputDirectory(str(tmp_path)) as out:
        with pytest.raises(ZeroDivisionError), out.file("half.csv"):
            raise ZeroDivisionError
        with out.file("half.csv") as file:
            file.write(b"whole")

    assert (tmp_path / "half.csv").read_bytes() == b"whole"
    assert out.files == [str(tmp_path / "half.csv")]


def test_only_values_that_there_are_count_as_skipped(tmp_path: Path) -> None:
    image = Image(1, 1, b"png", 3)
    values = {"i": image, "j": image, "t": Tensor(np.zeros((2, 3), np.float32))}
    write_summary(tmp_path / "run", [values_at(step, values) for step in (1, 2)])
    write_lineage(tmp_path / "run", [TrainInfo(network="LeNet")])
    exported = ExportedFiles(["a", "b"])

    exported.skip(
        SummaryReader(tmp_path / "run"), "image", "tensor", "graph", "lineage", "histogram"
    )
    exported.skip(SummaryReader(tmp_path / "run"), "image")

    assert exported == ["a", "b"]
    assert exported.skipped == {"image": 4, "tensor": 1, "lineage": 1}


@pytest.mark.parametrize(
    ("modes", "common"),
    [((), 0o600), ((0o644,), 0o644), ((0o664, 0o646), 0o644), ((0o440, 0o777), 0o640)],
)
def test_an_export_has_the_permissions_that_all_files_of_the_runs_share(
    tmp_path: Path, modes: tuple[int, ...], common: int
) -> None:
    for number, mode in enumerate(modes):
        write_summary(tmp_path / str(number), []).chmod(mode)
    directories = [*(str(tmp_path / str(number)) for number in range(2)), str(tmp_path / "gone")]

    assert mode_of_runs(directories) == common


def test_a_name_that_is_written_twice_is_refused_as_where_case_does_not_count(
    tmp_path: Path,
) -> None:
    with pytest.raises(FileExistsError, match="upper and lower case"):
        _written(tmp_path, "scalar/loss.npy", "scalar/loss.npy")
