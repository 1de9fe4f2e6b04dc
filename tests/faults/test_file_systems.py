"""Rows 24, 31, 32 and 34: file systems that answer late, forget files, move them, or tell another
time.
"""

from __future__ import annotations

import errno
import gc
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from mindsummary_lightning import SummaryRecord
from mindsummary_lightning.recording.event_files import FileOptions
from mindsummary_lightning.recording.event_writer import EventWriter
from mindsummary_lightning.recording.summary_record import recorder_of
from mindsummary_lightning.values import TrainInfo, UserDefinedInfo
from tests.support import Clock, lineage_paths, read_lineage, read_scalars, summary_paths
from tests.warm_processes import environment

pytestmark = pytest.mark.faults

Figure = Callable[[int, str], None]
LATE = [errno.EDQUOT, errno.EIO, errno.ENOSPC, errno.ESTALE]


def failing_close(error: int) -> AbstractContextManager[object]:
    """``os.close`` as a network mount has it: the file is closed, and only then comes the error of
    an earlier write.
    """
    close = os.close

    def fail(descriptor: int) -> None:
        close(descriptor)
        raise OSError(error, os.strerror(error))

    return mock.patch("mindsummary_lightning.fileio.append.os.close", fail)


# ---- close() fails


@pytest.mark.parametrize("error", LATE, ids=errno.errorcode.get)
def test_a_close_that_fails_is_logged_and_does_not_raise(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, error: int, figure: Figure
) -> None:
    record = SummaryRecord(tmp_path)
    assert recorder_of(record).write_values(1, [("a", 1.0)])
    with failing_close(error):
        record.close()
    again = SummaryRecord(tmp_path)
    assert recorder_of(again).write_values(2, [("a", 2.0)])

    # the file has it all
    assert (recorder_of(record).policy.lost, recorder_of(again).policy.lost) == (0, 0)
    assert "may lack its last records, because the file system could not keep them" in caplog.text
    assert [step for step, _ in read_scalars(tmp_path, "a")] == [1, 2]
    figure(
        24,
        (
            f"close fails with {errno.errorcode[error]}: said once, nothing raised, recording "
            "continues"
        ),
    )


def test_a_close_that_fails_raises_if_the_user_wants_that(tmp_path: Path) -> None:
    record = SummaryRecord(tmp_path, raise_exception=True)
    recorder_of(record).write_values(1, [("a", 1.0)])

    with failing_close(errno.EDQUOT), pytest.raises(OSError, match="quota"):
        record.close()


@pytest.mark.parametrize(
    "failing", ["append.os.close", "replace.os.fsync", "replace.os.replace", "replace.os.open"]
)
def test_lineage_attempts_that_fail_leave_no_file(tmp_path: Path, failing: str) -> None:
    record = SummaryRecord(tmp_path)
    fails = mock.patch(
        f"mindsummary_lightning.fileio.{failing}",
        _raise(OSError(errno.EDQUOT, "Disk quota exceeded")),
    )
    with failing_close(errno.EDQUOT) if "close" in failing else fails:
        for epoch in range(5):
            assert not recorder_of(record).write_lineage(TrainInfo(epoch=epoch))
    assert list(tmp_path.iterdir()) == []
    assert recorder_of(record).write_lineage(TrainInfo(epoch=9))
    assert [event.what for event in read_lineage(tmp_path)] == [TrainInfo(epoch=9)]
    record.close()


def _raise(error: OSError) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise error

    return fail


def test_a_rotation_whose_close_fails_costs_one_value_and_goes_on(tmp_path: Path) -> None:
    record = SummaryRecord(tmp_path, max_file_size=120)
    answers = []
    for step in range(6):
        with failing_close(errno.EIO):
            answers.append(recorder_of(record).write_values(step, [("a", float(step))]))

    written = [step for step, is_written in enumerate(answers) if is_written]
    assert [step for step, _ in read_scalars(tmp_path, "a")] == written
    assert len(written) >= 3
    assert len(summary_paths(tmp_path)) >= 2


@pytest.mark.slow
def test_a_record_that_is_dropped_raises_nothing_into_the_garbage_collector(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    record = SummaryRecord(tmp_path)
    recorder_of(record).write_values(1, [("a", 1.0)])
    with failing_close(errno.EIO):
        del record
        gc.collect()

    assert "could not be closed" in caplog.text
    assert "Traceback" not in capsys.readouterr().err


# ---- a network file system forgets the file


@pytest.mark.parametrize("lost", ["closed", "replaced"])
def test_a_handle_that_other_code_takes_is_noticed_and_another_file_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, figure: Figure, lost: str
) -> None:
    monkeypatch.setattr("mindsummary_lightning.recording.live_file.PATH_CHECK_S", 0.0)
    record = SummaryRecord(tmp_path / "run")
    assert recorder_of(record).write_values(1, [("a", 1.0)])
    (path,) = summary_paths(tmp_path / "run")
    descriptor = next(int(name) for name in os.listdir("/proc/self/fd") if _leads_to(name, path))
    other = os.open(tmp_path / "of other code", os.O_RDWR | os.O_CREAT)
    os.close(descriptor) if lost == "closed" else os.dup2(other, descriptor)
    for step in (2, 3):
        assert recorder_of(record).write_values(step, [("a", float(step))])

    os.fstat(other)  # still open, and nothing was written into it
    assert (tmp_path / "of other code").read_bytes() == b""
    assert [step for step, _ in read_scalars(tmp_path / "run", "a")] == [1, 2, 3]
    os.close(other)
    if lost == "replaced":
        os.close(descriptor)
    figure(
        31,
        (
            f"file handle {lost} by other code: noticed within 5 s, a new file, 0 bytes into "
            "foreign files"
        ),
    )


def _leads_to(descriptor: str, path: Path) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}") == str(path)
    except OSError:
        return False


@pytest.mark.parametrize(
    "error", [errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL], ids=errno.errorcode.get
)
def test_without_locks_nothing_is_cut_and_everything_recorded(
    tmp_path: Path, figure: Figure, error: int
) -> None:
    with mock.patch(
        "mindsummary_lightning.fileio.append.fcntl.flock", _raise(OSError(error, "no locks here"))
    ):
        for start in range(3):
            record = SummaryRecord(tmp_path)
            assert recorder_of(record).write_values(start, [("a", 1.0)])
            assert recorder_of(record).write_lineage(TrainInfo(epoch=start))
            record.close()

    assert [step for step, _ in read_scalars(tmp_path, "a")] == [0, 1, 2]
    figure(31, f"flock answers {errno.errorcode[error]}: 3 starts in one directory, 0 lost")


# ---- the clock


@pytest.mark.parametrize("jump", [-3600.0, -1e9, 3600.0, 1e10])
def test_a_clock_that_is_set_between_runs_and_within_one_hides_nothing(
    tmp_path: Path, jump: float, figure: Figure
) -> None:
    clock = Clock()
    for start in range(3):
        writer = EventWriter(str(tmp_path), FileOptions(max_file_size=200), clock)
        for step in range(10):
            writer.write_values(10 * start + step, [("a", float(step))])
            if step == 5:
                clock.now += jump
        writer.write_lineage(UserDefinedInfo({f"start {start}": 1}))
        writer.release(writer)
        clock.now += jump

    # in the order of MindInsight: by the names' times
    steps = [step for step, _ in read_scalars(tmp_path, "a")]
    assert steps == list(range(30))
    *_, newest = lineage_paths(tmp_path)
    assert len([event for event in read_lineage(tmp_path) if event.what is not None]) >= 4
    assert newest.stat().st_size == max(path.stat().st_size for path in lineage_paths(tmp_path))
    figure(
        32,
        (
            f"the clock is set by {jump:+.0f} s between three starts and within each: the order "
            "of files holds"
        ),
    )


# ---- directories that are moved, removed or made read-only under a run


def test_a_directory_that_is_renamed_takes_its_file_along_and_the_rest_starts_anew(
    tmp_path: Path, figure: Figure
) -> None:
    run, moved = tmp_path / "run", tmp_path / "moved"
    record = SummaryRecord(run)
    assert recorder_of(record).write_values(1, [("a", 1.0)])
    assert recorder_of(record).write_lineage(UserDefinedInfo({"before": 1}))
    run.rename(moved)
    assert recorder_of(record).write_values(2, [("a", 2.0)])
    assert recorder_of(record).write_lineage(UserDefinedInfo({"after": 2}))
    recorder_of(record).begin_file()
    assert recorder_of(record).write_values(3, [("a", 3.0)])

    assert read_scalars(moved, "a") == [(1, 1.0), (2, 2.0)]
    assert read_scalars(run, "a") == [(3, 3.0)]
    after = [
        event.what.values for event in read_lineage(run) if isinstance(event.what, UserDefinedInfo)
    ]
    assert after == [{"after": 2}]
    figure(
        34,
        (
            "a run directory renamed: its open file goes with it, what is new goes to the old "
            "path; 0 lost"
        ),
    )


def test_a_parent_that_becomes_a_file_or_read_only_costs_records_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, figure: Figure
) -> None:
    monkeypatch.setattr("mindsummary_lightning.recording.live_file.PATH_CHECK_S", 0.0)
    record = SummaryRecord(tmp_path / "runs" / "run")
    assert recorder_of(record).write_values(1, [("a", 1.0)])
    shutil.rmtree(tmp_path / "runs")
    (tmp_path / "runs").touch()
    assert not recorder_of(record).write_values(2, [("a", 2.0)])
    assert not recorder_of(record).write_lineage(TrainInfo(epoch=2))
    (tmp_path / "runs").unlink()
    read_only = OSError(errno.EROFS, "Read-only file system")
    with (
        mock.patch("mindsummary_lightning.fileio.append.os.open", _raise(read_only)),
        mock.patch("mindsummary_lightning.fileio.replace.os.open", _raise(read_only)),
    ):
        assert not recorder_of(record).write_values(3, [("a", 3.0)])
        assert not recorder_of(record).write_lineage(TrainInfo(epoch=3))
    assert recorder_of(record).write_values(4, [("a", 4.0)])
    assert recorder_of(record).write_lineage(TrainInfo(epoch=4))
    record.close()

    # four that failed, and the one that went with its directory
    assert recorder_of(record).policy.lost == 5
    assert read_scalars(tmp_path / "runs" / "run", "a") == [(4, 4.0)]
    figure(
        34,
        (
            "the parent replaced by a file, then read-only, then back: 5 of 5 losses counted, "
            "recording resumes"
        ),
    )


REMOUNT = """
import json, subprocess, sys
from mindsummary_lightning.recording.run_recorder import RunRecorder
from mindsummary_lightning.recording.event_files import FileOptions
from mindsummary_lightning.values import TrainInfo

run = sys.argv[1] + "/run"
mount = ["mount", "-t", "tmpfs", "tmpfs", sys.argv[1]]
assert subprocess.run(mount, capture_output=True).returncode == 0, "no mounts"
record = RunRecorder(run, FileOptions(max_file_size=200))
answers = []
for how in ("rw", "ro", "rw"):
    subprocess.run(["mount", "-o", "remount," + how, sys.argv[1]], check=True)
    for step in range(3 * len(answers), 3 * len(answers) + 3):
        wrote = [
            record.write_values(step, [("a", float(step))]),
            record.write_lineage(TrainInfo(epoch=step)),
        ]
    record.begin_file()
    answers.append(wrote)
record.close()
from mindsummary_lightning import SummaryReader
steps = SummaryReader(run).scalars("a").steps.tolist()
print(json.dumps([answers, steps, SummaryReader(run).lineage().train.epoch, record.policy.lost]))
"""


@pytest.mark.slow
def test_a_mount_that_becomes_read_only_and_writable_again_costs_what_came_meanwhile(
    tmp_path: Path, figure: Figure
) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not on the PATH: it makes a file system that only the test sees")
    (tmp_path / "mount").mkdir()
    # A file that is open for writing prevents a remount, so the file is left after each round.
    command = [
        "unshare",
        "--map-root-user",
        "--mount",
        sys.executable,
        "-c",
        REMOUNT,
        str(tmp_path / "mount"),
    ]
    done = subprocess.run(command, env=environment(), text=True, capture_output=True, timeout=120)
    if done.returncode and ("no mounts" in done.stderr or "unshare" in done.stderr):
        pytest.skip("this user may not mount a file system in a namespace of its own")
    assert not done.returncode, done.stderr

    answers, steps, epoch, lost = json.loads(done.stdout)
    assert answers == [[True, True], [False, False], [True, True]]
    assert (steps, epoch, lost) == ([0, 1, 2, 6, 7, 8], 8, 6)
    assert done.stderr.count("could not be recorded") == 1
    figure(
        34,
        (
            "a mount remounted read-only and writable again: 6 losses counted, 1 error, "
            "recording resumes"
        ),
    )


def test_recording_needs_no_port_and_no_temporary_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse = _raise(PermissionError(errno.EACCES, "not on a shared machine"))
    monkeypatch.setattr("socket.socket", refuse)
    monkeypatch.setattr("tempfile._get_default_tempdir", refuse)
    monkeypatch.setattr("tempfile.tempdir", None)
    with SummaryRecord(
        tmp_path, raise_exception=True, export_options={"tensor_format": "npy"}
    ) as record:
        record.add_value("tensor", "t", np.ones(2))
        assert record.record(1)
        assert recorder_of(record).write_lineage(TrainInfo(epoch=1))


def test_a_working_directory_that_is_gone_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    record = SummaryRecord("../run")
    (tmp_path / "cwd").rmdir()

    assert recorder_of(record).write_values(1, [("a", 1.0)])
    assert read_scalars(tmp_path / "run", "a") == [(1, 1.0)]
