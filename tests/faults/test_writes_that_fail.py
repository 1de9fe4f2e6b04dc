"""Rows 4, 14, 15, 18 and 22: disks that are full, gone, slow or not ours to write."""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from mindsummary_lightning import SummaryRecord
from mindsummary_lightning.conversion.numeric import to_tensor
from mindsummary_lightning.recording.summary_record import recorder_of
from mindsummary_lightning.values import Image, TrainInfo
from tests.faults.processes import run_victim
from tests.fileio.faulty import FaultyWrites
from tests.support import read_events, read_lineage, read_scalars, read_values

pytestmark = pytest.mark.faults

Times = Callable[[int, int], int]
Figure = Callable[[int, str], None]

ERRORS = [errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT, None]


@pytest.mark.parametrize(
    "error", ERRORS, ids=lambda error: errno.errorcode.get(error, "nothing written")
)
@pytest.mark.parametrize("at_most", [1 << 60, 3], ids=["whole writes", "short writes"])
def test_a_write_that_fails_at_any_byte_costs_that_record_alone(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    figure: Figure,
    error: int | None,
    at_most: int,
) -> None:
    record = SummaryRecord(tmp_path)
    record.add_scalar("a", 0.0, 0)
    size = os.path.getsize(record.log_dir)
    record.add_scalar("a", 1.0, 1)
    size = os.path.getsize(record.log_dir) - size
    expected = [0, 1]
    for room in range(size + 2):
        for step in (100 + 2 * room, 101 + 2 * room):
            with FaultyWrites(room if step % 2 == 0 else 1 << 60, error, at_most):
                if recorder_of(record).write_values(step, [("a", float(step))]):
                    expected.append(step)
        # no torn tail, none lost
        assert read_scalars(tmp_path, "a") == [(step, float(step)) for step in expected]
        assert expected[-1] == 101 + 2 * room  # there was room again
    record.close()

    assert recorder_of(record).policy.lost + len(expected) == 2 + 2 * (size + 2)
    assert len(caplog.records) == 2  # the first loss and the total
    assert all(line.levelno == logging.ERROR for line in caplog.records)
    name = errno.errorcode[error] if error else "a write of nothing"
    how = "short writes, " if at_most == 3 else ""
    figure(
        4,
        (
            f"{how}{name} at each of {size + 2} bytes: training goes on, file whole each time, "
            "recording resumes"
        ),
    )


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "stride"), [("scalar", 1), ("tensor", 9973)])
@pytest.mark.skipif(sys.platform == "win32", reason="needs RLIMIT_FSIZE")
def test_a_limit_of_the_system_is_met_at_any_byte(
    tmp_path: Path, kind: str, stride: int, figure: Figure
) -> None:
    done = run_victim("size_limit", tmp_path, kind, stride)
    assert not done.returncode, done.stderr
    counts = json.loads(done.stdout)

    assert counts["lost"] == counts["refused"] + counts["lineage"]
    assert counts["refused"] > 0
    assert counts["lineage"] > 0
    read_events(tmp_path)
    read_lineage(tmp_path)
    assert done.stderr.count("could not be recorded in") <= 2
    assert f"{counts['lost']} records of" in done.stderr
    assert len(list(tmp_path.iterdir())) == 2
    figure(
        4,
        (
            f"RLIMIT_FSIZE, {kind} record of {counts['size']} bytes: {counts['refused']} "
            "refused, 0 torn, total said"
        ),
    )


@pytest.mark.slow
def test_an_exception_out_of_a_signal_leaves_no_part_of_a_record(
    tmp_path: Path, times: Times, figure: Figure
) -> None:
    done = run_victim("interrupted", tmp_path, times(3000, 100_000))
    assert not done.returncode, done.stderr
    told = json.loads(done.stdout)

    steps = [step for step, _ in read_scalars(tmp_path, "a")]
    assert set(told["returned"]) <= set(steps)
    assert steps == sorted(set(steps))
    assert told["interrupted"] > 0
    figure(
        4,
        f"a signal handler raised in {told['interrupted']} writes: 0 torn, 0 returned records lost",
    )


@pytest.mark.parametrize(
    "error", [errno.EROFS, errno.EACCES, errno.ENOSPC, errno.EDQUOT], ids=errno.errorcode.get
)
def test_a_directory_that_takes_no_file_costs_the_records_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, error: int, figure: Figure
) -> None:
    record = SummaryRecord(tmp_path / "run")
    with mock.patch(
        "mindsummary_lightning.fileio.append.os.open",
        side_effect=OSError(error, os.strerror(error)),
    ):
        assert not recorder_of(record).write_values(1, [("a", 1.0)])
        assert not recorder_of(record).write_values(2, [("a", 2.0)])
        assert not recorder_of(record).write_lineage(TrainInfo(epoch=1))
    assert recorder_of(record).write_values(3, [("a", 3.0)])
    assert recorder_of(record).write_lineage(TrainInfo(epoch=1))

    assert read_scalars(tmp_path / "run", "a") == [(3, 3.0)]
    assert (recorder_of(record).policy.lost, len(caplog.records)) == (3, 1)
    record.close()
    figure(
        4,
        (
            f"{errno.errorcode[error]} when the file is made: training goes on, recording begins "
            "when it can"
        ),
    )


@pytest.mark.parametrize("what", ["file", "directory"])
def test_what_is_deleted_is_made_again(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
    figure: Figure,
) -> None:
    monkeypatch.setattr("mindsummary_lightning.recording.live_file.PATH_CHECK_S", 0.0)
    run = tmp_path / "run"
    record = SummaryRecord(run)
    record.add_scalar("a", 1.0, 1)
    shutil.rmtree(run) if what == "directory" else os.unlink(record.log_dir)
    for step in (2, 3):
        record.add_scalar("a", float(step), step)

    assert read_scalars(run, "a") == [(2, 2.0), (3, 3.0)]
    assert len(caplog.records) == 1
    figure(15, f"{what} deleted: noticed within 5 s, a new file begun, 1 warning")


def test_a_giant_tensor_is_skipped_and_the_run_continues(
    tmp_path: Path, is_full: bool, figure: Figure
) -> None:
    record = SummaryRecord(tmp_path, free_space_factor=0)
    record.add_value("tensor", "t", np.zeros(10_000_001, np.bool_))
    assert record.record(0) is False
    record.add_scalar("a", 1.0, 1)
    if is_full:
        assert not recorder_of(record).write_values(1, [("giant", Image(1, 1, bytes(500_000_001)))])
        assert recorder_of(record).write_values(
            1, [("largest", to_tensor(np.zeros(10_000_000, np.float32)))]
        )
    record.add_scalar("a", 2.0, 2)

    assert read_scalars(tmp_path, "a") == [(1, 1.0), (2, 2.0)]
    assert (
        [tag for _, tag, _ in read_values(tmp_path)] == ["a", "largest", "a"]
        if is_full
        else ["a", "a"]
    )
    if is_full:
        figure(
            14,
            (
                "tensor of 10,000,001 elements and event of 500,000,001 bytes refused, "
                "10,000,000 elements written"
            ),
        )


def test_files_are_private_under_any_umask_and_directories_follow_it(
    tmp_path: Path, figure: Figure
) -> None:
    umask = os.umask(0)
    try:
        with SummaryRecord(tmp_path / "run") as record:
            record.add_scalar("a", 1.0)
            recorder_of(record).write_lineage(TrainInfo(epoch=1))
    finally:
        os.umask(umask)

    run, *files = (tmp_path / "run", *(tmp_path / "run").iterdir())
    assert [stat.S_IMODE(path.stat().st_mode) for path in (run, *files)] == [0o777, 0o600, 0o600]
    figure(18, "umask 0: files 0600; file_mode=0o640 lets a group read")


def test_a_step_waits_for_one_write_and_no_sync(tmp_path: Path, figure: Figure) -> None:
    record = SummaryRecord(tmp_path)
    record.add_scalar("a", 0.0, 0)
    with (
        FaultyWrites() as writes,
        mock.patch("mindsummary_lightning.fileio.append.os.fsync") as fsync,
    ):
        for step in range(1, 1001):
            recorder_of(record).write_values(
                step, [(f"metric {number}", float(step)) for number in range(20)]
            )

    assert writes.calls == 1000
    assert not fsync.called
    figure(22, "1,000 steps of 20 scalars: 1,000 write calls, 0 fsync")
