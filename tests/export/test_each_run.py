"""Many runs exported at once: each into a directory of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mindsummary_lightning.reading.summary_reader import SummaryReader
from tests.cli.command import mindsummary
from tests.reading.runs import values_at, write_summary

_RUNS = ("a", "a/below", "digits/version_0")
_ENDS = {"csv": "scalars.csv", "npy": "names.json", "tensorboard": "*tfevents*.mindsummary"}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for number, name in enumerate(_RUNS):
        write_summary(tmp_path / "runs" / name, [values_at(1, {"loss": float(number)})])
    return tmp_path / "runs"


def _with_files(out: Path, form: str) -> set[str]:
    return {path.parent.relative_to(out).as_posix() for path in out.rglob(_ENDS[form])}


@pytest.mark.parametrize("form", _ENDS)
def test_each_run_gets_a_directory_of_its_own(
    form: str, runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if form == "tensorboard":
        pytest.importorskip("tensorboard")
    out = tmp_path / "out"

    answer = mindsummary(capsys, "export", runs, "--to", form, "--out", out, "--json")

    assert (answer.code, answer.err) == (0, "")
    assert _with_files(out, form) == {*_RUNS}
    files = json.loads(answer.out)["files"]
    assert len(files) >= len(_RUNS)
    assert all(Path(file).is_file() for file in files)
    assert mindsummary(capsys, "export", runs, "--to", form, "--out", out).code == 1
    assert mindsummary(capsys, "export", runs, "--to", form, "--out", out, "--force").code == 0


def test_exported_boards_come_back_as_the_same_runs(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("tensorboard")
    mindsummary(capsys, "export", runs, "--to", "tensorboard", "--out", tmp_path / "boards")
    mindsummary(capsys, "import", tmp_path / "boards", "--out", tmp_path / "back")

    values = [
        SummaryReader(tmp_path / "back" / name.replace("/", "-")).scalars("loss").values.tolist()
        for name in _RUNS
    ]
    assert values == [[0.0], [1.0], [2.0]]


def test_what_is_below_a_run_that_is_named_is_left_out(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mindsummary(capsys, "export", runs / "a", "--to", "csv", "--out", tmp_path / "out")

    assert _with_files(tmp_path / "out", "csv") == {"."}


def test_a_damaged_run_is_named_and_the_others_are_exported(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = (runs / "digits" / "version_0").iterdir()
    path.write_bytes(b"\0" * 100)
    out = tmp_path / "out"

    answer = mindsummary(capsys, "export", runs, "--to", "csv", "--out", out)

    assert answer.code == 1
    assert "skipped because it cannot be read: digits/version_0: " in answer.out
    assert _with_files(out, "csv") == {"a", "a/below"}


def test_if_no_run_can_be_read_nothing_is_left(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in runs.rglob("*_MS"):
        path.write_bytes(b"\0" * 100)

    assert mindsummary(capsys, "export", runs, "--to", "csv", "--out", tmp_path / "out").code == 1
    assert not (tmp_path / "out").exists()
