"""Many runs exported at once: each into a directory of its own."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from mindsummary_lightning.export.each_run import export_each
from mindsummary_lightning.export.tensorboard import export_tensorboard
from mindsummary_lightning.reading.summary_reader import SummaryReader
from mindsummary_lightning.values import Histogram, LossLandscape, Points
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


def test_counts_files_and_progress_are_those_of_all_runs_together(
    runs: Path, tmp_path: Path
) -> None:
    pytest.importorskip("tensorboard")
    whole = Histogram(np.zeros(1), np.ones(1), np.array([2]), 3, pos_inf_count=1)
    for number, name in enumerate(_RUNS):
        samples = {f"h{step}": whole for step in range(number)}
        landscape = LossLandscape(Points(np.arange(2), np.arange(3), np.ones((3, 2))))
        values = [values_at(step, {"x": 1.0}) for step in range(number)]
        write_summary(runs / name, [*values, values_at(1, {**samples, "landscape": landscape})], 5)
    (runs / "damaged").mkdir()
    damaged = write_summary(runs / "damaged", [values_at(1, {"loss": 1.0})])
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    paths, steps = [str(runs / name) for name in (*_RUNS, "damaged")], []
    out = tmp_path / "out"

    exported = export_each(export_tensorboard, paths, str(runs), str(out), steps.append)

    assert [os.path.relpath(os.path.dirname(path), out) for path in exported] == list(_RUNS)
    assert all(os.path.isfile(path) for path in exported)
    assert exported.written == {"scalar": 6, "histogram": 3}
    assert exported.skipped == {"loss_landscape": 3}
    assert exported.changed == {"histogram: infinite elements count as NaN": 3}
    assert list(exported.damaged) == ["damaged"]
    assert "record at byte" in exported.damaged["damaged"]
    sizes = [path.stat().st_size for name in _RUNS for path in (runs / name).glob("*_MS")]
    assert sum(steps) == sum(sizes)


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
