"""Directories that are exported into twice: what is ours is replaced, what is not is refused, nothing stays behind."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from mindsummary_lightning.export.output_directory import OutputDirectory, distinct_names
from mindsummary_lightning.values import Tensor
from tests.cli.command import mindsummary
from tests.cli.demo_run import write_demo_run
from tests.reading.runs import values_at, write_summary

FORMS = ["csv", "npy", "parquet", "tensorboard"]


def _files(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


def _export(capsys: pytest.CaptureFixture[str], run: Path, form: str, out: Path) -> int:
    pytest.importorskip({"parquet": "pyarrow", "tensorboard": "tensorboard"}.get(form, "numpy"))
    return mindsummary(capsys, "export", run, "--to", form, "--out", out).code


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    """One run with everything, and one with a scalar only that began at another second on another machine."""
    write_demo_run(tmp_path / "full")
    write_summary(tmp_path / "small", [values_at(1, {"a": 1.0}, 1600000000.0)], host="another")
    return tmp_path / "full", tmp_path / "small"


@pytest.mark.parametrize("form", FORMS)
def test_a_second_export_leaves_nothing_of_the_first(
    tmp_path: Path, runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str], form: str
) -> None:
    for run in runs:
        assert _export(capsys, run, form, tmp_path / "out") == 0
    assert _export(capsys, runs[1], form, tmp_path / "fresh") == 0

    assert _files(tmp_path / "out") == _files(tmp_path / "fresh")


@pytest.mark.parametrize("form", FORMS)
def test_an_export_by_another_process_is_replaced_too(
    tmp_path: Path,
    runs: tuple[Path, Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    form: str,
) -> None:
    _export(capsys, runs[0], form, tmp_path / "out")
    before = _files(tmp_path / "out")
    monkeypatch.setattr(os, "getpid", lambda: 1)
    assert _export(capsys, runs[0], form, tmp_path / "out") == 0

    assert _files(tmp_path / "out") == before


@pytest.mark.parametrize(
    ("form", "name"),
    [
        ("csv", "histograms.csv"),
        ("npy", "tensor/mine.npy"),
        ("parquet", "scalars/mine.parquet"),
        ("parquet", "histograms/another/part-0.parquet"),
        ("parquet", "lineage.parquet"),
        ("tensorboard", "events.out.tfevents.1700000000.host"),
    ],
)
def test_what_somebody_else_put_there_is_refused_and_stays(
    tmp_path: Path, runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str], form: str, name: str
) -> None:
    mine = tmp_path / "out" / name
    mine.parent.mkdir(parents=True)
    mine.write_bytes(b"mine")

    assert _export(capsys, runs[1], form, tmp_path / "out") == 1

    assert (_files(tmp_path / "out"), mine.read_bytes()) == ({name}, b"mine")


def test_exports_of_several_forms_and_other_files_share_a_directory(
    tmp_path: Path, runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    for form in ("csv", "npy", "csv"):
        assert _export(capsys, runs[1], form, tmp_path / "out") == 0

    names = {"notes.txt", ".mindsummary-export", "scalars.csv", "names.json", "scalar/a.npy"}
    assert _files(tmp_path / "out") == names


def test_a_list_of_files_that_somebody_forged_removes_nothing(tmp_path: Path) -> None:
    (tmp_path / "precious.csv").write_text("mine")
    (tmp_path / "out" / "scalar").mkdir(parents=True)
    (tmp_path / "out" / "notes.txt").write_text("mine")
    lines = ["../precious.csv", "scalar/../../precious.csv", "notes.txt", str(tmp_path / "precious.csv"), "scalar/", ""]
    text = "".join(json.dumps(["csv", line]) + "\n" for line in lines) + "[" * 100_000 + '\n"torn'
    (tmp_path / "out" / ".mindsummary-export").write_text(text)

    with OutputDirectory(str(tmp_path / "out"), "csv", {"": r"scalars\.csv", "scalar": ".*"}):
        pass

    assert _files(tmp_path) == {"precious.csv", "out/notes.txt"}


def test_an_export_that_fails_leaves_the_earlier_one(tmp_path: Path) -> None:
    for text in ("one", "two"):
        try:
            with OutputDirectory(str(tmp_path), "csv", {"": r".*\.csv"}) as out:
                with out.file(f"{text}.csv") as file:
                    file.write(text.encode())
                assert text == "one"
        except AssertionError:
            pass
    assert _files(tmp_path) == {".mindsummary-export", "one.csv", "two.csv"}

    with OutputDirectory(str(tmp_path), "csv", {"": r".*\.csv"}) as out, out.file("three.csv"):
        pass
    assert _files(tmp_path) == {".mindsummary-export", "three.csv"}


@pytest.mark.parametrize("form", FORMS)
def test_what_a_killed_export_left_unfinished_is_removed_by_the_next(
    tmp_path: Path, runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str], form: str
) -> None:
    _export(capsys, runs[0], form, tmp_path / "out")
    folders = {path.parent for path in (tmp_path / "out").rglob("*") if path.is_file()}
    for folder in folders:
        (folder / ".mindsummary-99999999-0a1b2c3d.tmp").write_bytes(bytes(100))  # of no process that runs
    running = tmp_path / "out" / f".mindsummary-{os.getppid()}-0a1b2c3d.tmp"
    running.write_bytes(bytes(100))

    assert _export(capsys, runs[0], form, tmp_path / "out") == 0

    assert [path.name for path in (tmp_path / "out").rglob("*.tmp")] == [running.name]


def test_names_are_files_on_every_file_system() -> None:
    texts = ["Loss", "loss", "con", "NUL.txt", "com1", "console", "a/b", ".", "..", "x" * 300, "_x", "b~"]

    names = distinct_names(texts, hidden="._")

    assert len({name.casefold() for name in names.values()}) == len(texts)
    quoted = ["%63on", "%4EUL.txt", "%63om1", "console", "%5Fx"]
    assert [names[text] for text in ("con", "NUL.txt", "com1", "console", "_x")] == quoted
    assert not any(name.startswith((".", "_")) or "/" in name or len(name) > 200 for name in names.values())


def test_a_tag_that_is_a_device_on_windows_has_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_summary(tmp_path / "run", [values_at(1, {"con": 1.0, "aux": Tensor([[1.0]])})])  # type: ignore[arg-type]

    assert _export(capsys, tmp_path / "run", "npy", tmp_path / "out") == 0

    names = json.loads((tmp_path / "out" / "names.json").read_text())
    assert names == {"scalar/%63on.npy": "con", "tensor/%61ux_1.npy": "aux"}
