"""The live summary file when its place goes away.

See also tests/faults/test_faulty_places.py.
"""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from unittest import mock

import pytest

from mindsummary_lightning import SummaryRecord
from mindsummary_lightning.recording.event_files import FileOptions
from mindsummary_lightning.recording.event_writer import EventWriter
from mindsummary_lightning.recording.retries import FREE_TRIES, PAUSE_S, UnsyncedError
from mindsummary_lightning.recording.run_recorder import RunRecorder
from mindsummary_lightning.recording.summary_record import recorder_of
from tests.faults.faulty_place import FaultyPlace
from tests.fileio.faulty import FaultyWrites
from tests.support import Clock, read_scalars, summary_paths

APPEND = "mindsummary_lightning.fileio.append.os"


def writer_of(run: Path, timer: Clock, fsync_secs: float | None = None) -> EventWriter:
    return EventWriter(str(run), FileOptions(fsync_secs=fsync_secs), timer=timer)


def test_after_a_failed_write_the_file_is_continued_through_a_new_handle(tmp_path: Path) -> None:
    writer = writer_of(tmp_path, Clock(0.0))
    writer.write_values(0, [("a", 0.0)])
    with FaultyWrites(0, errno.EIO), pytest.raises(OSError, match=r"(?i)input/output"):
        writer.write_values(1, [("a", 1.0)])
    with mock.patch(f"{APPEND}.dup", wraps=os.dup) as dup:
        writer.write_values(2, [("a", 2.0)])

    assert dup.called
    assert len(summary_paths(tmp_path)) == 1
    assert read_scalars(tmp_path, "a") == [(0, 0.0), (2, 2.0)]


def test_after_a_new_handle_has_failed_too_a_new_file_is_begun(tmp_path: Path) -> None:
    writer = writer_of(tmp_path, Clock(0.0))
    writer.write_values(0, [("a", 0.0)])
    for step in (1, 2):
        with FaultyWrites(0, errno.EIO), pytest.raises(OSError, match=r"(?i)input/output"):
            writer.write_values(step, [("a", 1.0)])
    writer.write_values(3, [("a", 3.0)])

    assert len(summary_paths(tmp_path)) == 2
    assert read_scalars(tmp_path, "a") == [(0, 0.0), (3, 3.0)]


def test_a_failure_after_a_success_is_the_first_of_its_row(tmp_path: Path) -> None:
    writer = writer_of(tmp_path, Clock(0.0))
    for step in range(0, 40, 2):
        writer.write_values(step, [("a", 1.0)])
        with FaultyWrites(0, errno.EIO), pytest.raises(OSError, match=r"(?i)input/output"):
            writer.write_values(step + 1, [("a", 1.0)])

    assert len(summary_paths(tmp_path)) == 1
    assert read_scalars(tmp_path, "a") == [(step, 1.0) for step in range(0, 40, 2)]


def test_files_that_can_be_made_and_not_written_are_made_at_a_bounded_rate(
    tmp_path: Path,
) -> None:
    timer = Clock(0.0)
    writer = writer_of(tmp_path, timer)
    with FaultyWrites(0, errno.EIO) as writes:
        for expected in (FREE_TRIES + 1, FREE_TRIES + 2, FREE_TRIES + 3):
            for step in range(30):
                with pytest.raises(OSError, match=r"(?i)input/output"):
                    writer.write_values(step, [("a", 1.0)])
            assert writes.calls == expected
            timer.now += PAUSE_S
    writer.write_values(99, [("a", 2.0)])

    assert read_scalars(tmp_path, "a") == [(99, 2.0)]
    assert len(summary_paths(tmp_path)) == 1


@pytest.mark.parametrize("is_begun", [False, True])
def test_a_file_that_goes_away_after_it_was_closed_is_no_loss(
    tmp_path: Path, is_begun: bool, caplog: pytest.LogCaptureFixture
) -> None:
    writer = writer_of(tmp_path / "run", Clock(0.0))
    writer.write_values(0, [("a", 1.0)])
    writer.release(writer)
    shutil.rmtree(tmp_path / "run")
    writer.release(writer)
    if is_begun:
        writer.begin_file()
    writer.write_values(1, [("a", 1.0)])

    assert (writer.take_losses(), caplog.messages) == ([], [])
    assert read_scalars(tmp_path / "run", "a") == [(1, 1.0)]


def test_a_place_that_is_away_is_asked_at_a_bounded_rate(tmp_path: Path) -> None:
    timer = Clock(0.0)
    writer = writer_of(tmp_path, timer)
    with FaultyPlace(tmp_path, lambda seconds: None) as place:
        writer.write_values(0, [("a", 0.0)])
        place.down, place.calls = errno.ENOTCONN, 0
        for step in range(1, 1001):
            timer.now += 0.01
            with pytest.raises(OSError, match="not connected"):
                writer.write_values(step, [("a", 1.0)])
        calls, place.down = place.calls, None
        timer.now += 1.0
        writer.write_values(1001, [("a", 2.0)])

    assert calls < 200  # of 1,000 values in ten seconds
    assert read_scalars(tmp_path, "a") == [(0, 0.0), (1001, 2.0)]


def test_a_sync_that_fails_costs_no_value_and_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    timer = Clock(0.0)
    writer = writer_of(tmp_path / "alone", timer, fsync_secs=1.0)
    with mock.patch(f"{APPEND}.fsync", side_effect=OSError(errno.EIO, "not kept")):
        writer.write_values(0, [("a", 0.0)])
        timer.now += 2.0
        with pytest.raises(UnsyncedError, match="not kept"):
            writer.write_values(1, [("a", 1.0)])
        record = SummaryRecord(tmp_path / "run")
        for step in range(3):
            assert recorder_of(record).write_values(step, [("a", 1.0)])
            record.flush()
    record.close()

    assert [step for step, _ in read_scalars(tmp_path / "alone", "a")] == [0, 1]
    assert recorder_of(record).policy.lost == 0
    assert ["may lack its last records" in message for message in caplog.messages] == [True]


def test_after_a_sync_that_fails_the_next_value_looks_at_the_file_first(tmp_path: Path) -> None:
    timer = Clock(0.0)
    writer = writer_of(tmp_path, timer, fsync_secs=1.0)
    writer.write_values(0, [("a", 0.0)])
    timer.now += 1.0
    failing = mock.patch(f"{APPEND}.fsync", side_effect=OSError(errno.EIO, "not kept"))
    with failing, pytest.raises(UnsyncedError) as raised:
        writer.write_values(1, [("a", 1.0)])
    [path] = summary_paths(tmp_path)
    assert raised.value.filename == str(path)
    path.unlink()  # what the system had accepted is gone
    writer.write_values(2, [("a", 2.0)])

    assert read_scalars(tmp_path, "a") == [(2, 2.0)]
    assert [(loss.count, loss.is_removed) for loss in writer.take_losses()] == [(2, True)]
    assert writer.take_losses() == []


def test_a_sync_waits_for_the_file_that_is_open_and_for_no_other(tmp_path: Path) -> None:
    writer = writer_of(tmp_path, Clock(0.0))
    with mock.patch(f"{APPEND}.fsync") as synced:
        writer.sync()
        assert not synced.called
        writer.write_values(0, [("a", 0.0)])
        assert not synced.called
        writer.sync()
        writer.sync()
        assert synced.call_count == 2
        writer.release(writer)
        writer.sync()
        writer.begin_file()
        writer.sync()
    assert synced.call_count == 2


def test_a_time_out_where_the_file_is_opened_again_is_the_only_one_of_its_call(
    tmp_path: Path,
) -> None:
    timer = Clock(0.0)
    writer = writer_of(tmp_path, timer)
    writer.write_values(0, [("a", 0.0)])
    with FaultyWrites(0, errno.EIO), pytest.raises(OSError, match=r"(?i)input/output"):
        writer.write_values(1, [("a", 1.0)])

    waited: list[float] = []

    def time_out(seconds: float) -> None:
        waited.append(seconds)
        timer.now += seconds

    with FaultyPlace(tmp_path, time_out) as place:
        place.down, place.time_out_s = errno.ETIMEDOUT, 30.0
        for step in (2, 3):
            with pytest.raises(OSError, match="timed out"):
                writer.write_values(step, [("a", 2.0)])
        assert waited == [30.0]
        place.down = None
        timer.now += 4.0
        writer.write_values(4, [("a", 4.0)])

    assert read_scalars(tmp_path, "a") == [(0, 0.0), (4, 4.0)]


@pytest.mark.parametrize(("after_s", "is_noticed"), [(3.9, False), (4.0, True)])
def test_the_file_is_looked_at_every_four_seconds(
    tmp_path: Path, after_s: float, is_noticed: bool
) -> None:
    timer = Clock(100.0)
    writer = writer_of(tmp_path, timer)
    for step in range(3):
        timer.now += 4.0
        writer.write_values(step, [("a", 0.0)])
    summary_paths(tmp_path)[0].unlink()
    timer.now += after_s
    writer.write_values(9, [("a", 0.0)])

    assert len(summary_paths(tmp_path)) == is_noticed
    assert [loss.count for loss in writer.take_losses()] == [3] * is_noticed


@pytest.mark.parametrize("is_raised", [False, True])
def test_a_value_whose_sync_fails_is_in_its_file_and_the_user_is_told(
    tmp_path: Path, is_raised: bool, caplog: pytest.LogCaptureFixture
) -> None:
    timer = Clock(0.0)
    record = RunRecorder(
        str(tmp_path), FileOptions(fsync_secs=1.0), raise_exception=is_raised, timer=timer
    )
    record.write_values(0, [("a", 0.0)])
    timer.now += 1.0
    with mock.patch(f"{APPEND}.fsync", side_effect=OSError(errno.EIO, "not kept")):
        if is_raised:
            with pytest.raises(UnsyncedError, match="not kept"):
                record.write_values(1, [("a", 1.0)])
        else:
            assert record.write_values(1, [("a", 1.0)]) is True

    assert read_scalars(tmp_path, "a") == [(0, 0.0), (1, 1.0)]
    assert ["may lack its last records" in message for message in caplog.messages] == (
        [] if is_raised else [True]
    )


def test_a_sync_that_fails_raises_if_the_user_wants_that(tmp_path: Path) -> None:
    record = RunRecorder(str(tmp_path), raise_exception=True)
    record.write_values(0, [("a", 0.0)])
    failing = mock.patch(f"{APPEND}.fsync", side_effect=OSError(errno.EIO, "not kept"))
    with failing, pytest.raises(OSError, match="not kept"):
        record.sync()


def test_what_stands_behind_a_tear_is_cut_off_and_kept(tmp_path: Path) -> None:
    timer = Clock(0.0)
    writer = writer_of(tmp_path, timer)
    for step in range(5):
        writer.write_values(step, [("a", float(step))])
    [path] = summary_paths(tmp_path)
    os.truncate(path, path.stat().st_size - 5)  # as a file system takes it back
    for step in (5, 6, 7):
        timer.now += 5.0 * (step == 6)
        writer.write_values(step, [("a", float(step))])

    assert [step for step, _ in read_scalars(tmp_path, "a")] == [0, 1, 2, 3, 6, 7]
    assert [loss.count for loss in writer.take_losses()] == [2]
    assert len(list((tmp_path / ".damaged").iterdir())) == 1
