"""After each fault MindInsight's own loader shows what had been recorded: all of it, without waiting, nothing else."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mindsummary_lightning import SummaryRecord
from mindsummary_lightning.fileformat.framing import frame
from mindsummary_lightning.fileio.scan import cut_torn_tail
from mindsummary_lightning.run_writer import FileOptions, RunWriter
from mindsummary_lightning.values import TrainLineage
from tests.faults.processes import kill_victim, run_victim
from tests.fileio.faulty import FaultyWrites
from tests.oracle.mindinsight_server import PYTHON_VARIABLE
from tests.support import Clock, read_scalars, summary_paths


@pytest.fixture(scope="module")
def python() -> str:
    named = os.environ.get(PYTHON_VARIABLE)
    if not named:
        pytest.skip(f"{PYTHON_VARIABLE} names no Python with MindInsight 2.3.1; `nox -s mindinsight` makes one")
    return named


def shown(python: str, *runs: Path) -> list[dict[str, Any]]:
    script = Path(__file__).with_name("load_runs_there.py")
    environment = {**os.environ, "PYTHONPATH": ""}
    done = subprocess.run(
        [python, str(script), *map(str, runs)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=250,
        check=False,
    )
    assert not done.returncode, done.stderr
    answers: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return answers


def as_recorded(run: Path, tag: str) -> list[list[float]]:
    return [[step, float(np.float32(value))] for step, value in read_scalars(run, tag)]


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM])
def test_killed_runs_are_shown_to_their_last_record(python: str, tmp_path: Path, by: signal.Signals) -> None:
    draw = random.Random(1)
    runs = [tmp_path / str(trial) for trial in range(8)]
    last = [
        kill_victim("record_scalars", run, 10, after_steps=draw.randrange(1, 90), by=by) for run in runs
    ]  # below MindInsight's 20 tensors a tag
    for run in runs:
        cut_torn_tail(str(summary_paths(run)[0]))  # what Linux may leave of a record on its way (docs/reliability.md)

    for run, step, answer in zip(runs, last, shown(python, *runs), strict=True):
        assert (answer["is_done"], answer["is_integrity"]) == (True, True)
        assert answer["scalars"]["loss"] == as_recorded(run, "loss")
        assert len(answer["scalars"]["loss"]) >= min(step, 1000)
        assert all(shape == [10] for _, shape in answer["tensors"].get("weights", []))


def test_lineage_of_killed_runs_is_read(python: str, tmp_path: Path) -> None:
    draw = random.Random(12)
    runs = [tmp_path / str(trial) for trial in range(10)]
    last = [kill_victim("record_lineage", run, after_steps=draw.randrange(1, 40)) for run in runs]
    for run in runs:
        SummaryRecord(run).add_scalar("a", 1.0)  # the loader wants a summary file

    for epoch, answer in zip(last, shown(python, *runs), strict=True):
        assert answer["lineage"] in ([epoch], [epoch + 1])


def torn_run(path: Path, tail: bytes) -> Path:
    """A run of an earlier process, with something behind its last whole record."""
    writer = RunWriter(str(path), FileOptions())
    for step in range(3):
        writer.write_values(step, [("old", float(step))])
    writer.release()
    with summary_paths(path)[0].open("ab") as file:
        file.write(tail)
    return path


def test_a_torn_tail_really_hides_what_comes_after_it(python: str, tmp_path: Path) -> None:
    run = torn_run(tmp_path / "run", b"\x10\0\0")

    (answer,) = shown(python, run)
    assert (answer["is_done"], answer["is_integrity"]) == (False, False)


@pytest.mark.parametrize("tail", ["one byte", "a whole header", "zeros"])
def test_a_resumed_run_is_shown_without_waiting(python: str, tmp_path: Path, tail: str) -> None:
    record = b"".join(frame([b"a record that was on its way"]))
    run = torn_run(
        tmp_path / "run", {"one byte": record[:1], "a whole header": record[:20], "zeros": bytes(4096)}[tail]
    )
    with SummaryRecord(run) as resumed:
        resumed.add_scalar("new", 7.0, 7)

    (answer,) = shown(python, run)
    assert (answer["is_done"], answer["is_integrity"]) == (True, True)
    assert answer["scalars"] == {"old": [[0, 0.0], [1, 1.0], [2, 2.0]], "new": [[7, 7.0]]}


def test_a_run_that_met_a_full_disk_at_every_byte_is_shown_whole(python: str, tmp_path: Path) -> None:
    record = SummaryRecord(tmp_path)
    for room in range(45):
        with FaultyWrites(room, errno.ENOSPC):
            record.write_values(2 * room, [("a", float(room))])
        record.write_values(2 * room + 1, [("a", float(room))])

    (answer,) = shown(python, tmp_path)
    assert (answer["is_done"], answer["is_integrity"]) == (True, True)
    assert answer["scalars"]["a"] == as_recorded(tmp_path, "a")
    assert len(answer["scalars"]["a"]) >= 45


def test_a_run_that_met_a_limit_of_the_system_is_shown_whole(python: str, tmp_path: Path) -> None:
    assert not run_victim("size_limit", tmp_path, "scalar", 1).returncode

    (answer,) = shown(python, tmp_path)
    assert (answer["is_done"], answer["is_integrity"]) == (True, True)
    assert answer["scalars"]["a"] == as_recorded(tmp_path, "a")
    assert answer["lineage"] == [1000]


def test_a_run_whose_directory_was_deleted_is_shown_from_then_on(
    python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mindsummary_lightning.run_writer._DELETION_CHECK_S", 0.0)
    run = tmp_path / "run"
    record = SummaryRecord(run)
    record.add_scalar("a", 1.0, 1)
    record.write_lineage(TrainLineage(epoch=1))
    shutil.rmtree(run)
    record.add_scalar("a", 2.0, 2)
    record.write_lineage(TrainLineage(epoch=2))

    (answer,) = shown(python, run)
    assert (answer["scalars"], answer["lineage"]) == ({"a": [[2, 2.0]]}, [2])


def test_a_run_that_rotated_under_a_clock_set_back_is_shown_whole(python: str, tmp_path: Path) -> None:
    clock = Clock()
    writer = RunWriter(str(tmp_path), FileOptions(max_file_size=300), clock)
    for step in range(40):
        writer.write_values(step, [("a", float(step))])
        clock.now -= 100

    (answer,) = shown(python, tmp_path)
    assert (answer["is_done"], answer["is_integrity"]) == (True, True)
    assert answer["scalars"]["a"] == [[step, float(step)] for step in range(40)]


def test_a_run_with_forked_children_is_shown_without_a_word_of_theirs(python: str, tmp_path: Path) -> None:
    done = run_victim("load_data", tmp_path, 1)
    assert not done.returncode, done.stderr

    (answer,) = shown(python, tmp_path)
    assert answer["scalars"] == {"loss": as_recorded(tmp_path, "loss")}
