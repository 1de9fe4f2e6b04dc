"""After each fault MindInsight's own loader shows what had been recorded: all of it, without
waiting, nothing else.
"""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mindsummary_lightning import MindInsightLogger, SummaryRecord
from mindsummary_lightning.fileformat.framing import frame
from mindsummary_lightning.fileio.torn_tail import cut_torn_tail
from mindsummary_lightning.recording.event_files import FileOptions
from mindsummary_lightning.recording.event_writer import EventWriter
from mindsummary_lightning.recording.summary_record import recorder_of
from mindsummary_lightning.values import TrainInfo
from tests.faults.processes import kill_victim, run_victim
from tests.faults.test_hostile_values import hostile_names, odd_values
from tests.fileio.faulty import FaultyWrites
from tests.oracle.loaded_runs import assert_shown_whole, needs_mindinsight, shown
from tests.support import Clock, read_scalars, summary_paths

pytestmark = needs_mindinsight

Times = Callable[[int, int], int]
Figure = Callable[[int, str], None]


def as_recorded(run: Path, tag: str) -> list[list[float]]:
    return [[step, float(np.float32(value))] for step, value in read_scalars(run, tag)]


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM])
def test_killed_runs_are_shown_to_their_last_record(tmp_path: Path, by: signal.Signals) -> None:
    draw = random.Random(1)
    runs = [tmp_path / str(trial) for trial in range(4)]
    last = [
        kill_victim("record_scalars", run, 10, after_steps=draw.randrange(1, 90), by=by)
        for run in runs
    ]  # below MindInsight's 20 tensors a tag
    for run in runs:
        cut_torn_tail(
            str(summary_paths(run)[0])
        )  # what Linux may leave of a record on its way (docs/development/faults.md)

    for run, step, answer in zip(runs, last, shown(*runs), strict=True):
        assert (answer["is_done"], answer["is_integrity"]) == (True, True)
        assert answer["scalars"]["loss"] == as_recorded(run, "loss")
        assert len(answer["scalars"]["loss"]) >= min(step, 1000)
        assert all(shape == [10] for _, shape in answer["tensors"].get("weights", []))


def test_lineage_of_killed_runs_is_read(tmp_path: Path, times: Times, figure: Figure) -> None:
    draw = random.Random(12)
    runs = [tmp_path / str(trial) for trial in range(times(4, 200))]
    last = [kill_victim("record_lineage", run, after_steps=draw.randrange(1, 40)) for run in runs]
    for run in runs:
        SummaryRecord(run).add_scalar("a", 1.0)  # the loader wants a summary file

    for epoch, answer in zip(last, shown(*runs), strict=True):
        assert answer["lineage"] in ([epoch], [epoch + 1])
    figure(
        12,
        (
            f"{len(runs)} x SIGKILL: MindInsight's own reader reads {len(runs)} of {len(runs)} "
            "lineage files"
        ),
    )


def test_trainings_killed_with_the_pair_lineage_and_landscapes_are_shown(
    tmp_path: Path, times: Times, figure: Figure
) -> None:
    trials = times(1, 200)
    shown_trials, torn, checkpoints = killed_trainings(tmp_path, trials)

    assert shown_trials == trials
    figure(
        36,
        f"{trials} x SIGKILL in Trainer.fit with the pair, lineage and {checkpoints} "
        "landscape checkpoints: 0 lost, "
        f"0 hung, {torn} torn tails cut by the next start; MindInsight reads {trials} of {trials}",
    )


def killed_trainings(directory: Path, trials: int) -> tuple[int, int, int]:
    """Kill trainings and look at what they left; numbers of runs shown whole, of torn tails and of
    checkpoints.
    """
    from mindsummary_lightning.landscape.checkpoints import (
        LandscapeCheckpoints,
        checkpoint_dir,
        mapped,
    )

    done = run_victim("train", directory, trials, "SIGKILL", "landscape")
    assert not done.returncode, done.stderr
    last = json.loads(done.stdout.splitlines()[-1])
    runs = [directory / str(trial) / "run" for trial in range(trials)]
    torn = checkpoints = 0
    for run in runs:
        torn += cut_torn_tail(str(summary_paths(run)[0])) > 0
        if os.path.exists(os.path.join(checkpoint_dir(run), "train_metadata.json")):
            found = LandscapeCheckpoints.open(run)
            checkpoints += len(found.files)
            assert all(mapped(found.files[number]) for number in found.files)
    answers = shown(*runs)
    for run, step, answer in zip(runs, last.values(), answers, strict=True):
        assert_shown_whole(run, answer)
        assert [number for number, _ in as_recorded(run, "mine")][: step + 1] == list(
            range(step + 1)
        )
        assert answer["lineage"] not in ([], ["unreadable"])
    return len(answers), torn, checkpoints


def torn_run(path: Path, tail: bytes) -> Path:
    """A run of an earlier process, with something behind its last whole record."""
    writer = EventWriter(str(path), FileOptions())
    for step in range(3):
        writer.write_values(step, [("old", float(step))])
    writer.release(writer)
    with summary_paths(path)[0].open("ab") as file:
        file.write(tail)
    return path


def test_a_torn_tail_really_hides_what_comes_after_it(tmp_path: Path) -> None:
    run = torn_run(tmp_path / "run", b"\x10\0\0")

    (answer,) = shown(run)
    assert (answer["is_done"], answer["is_integrity"]) == (False, False)


@pytest.mark.parametrize("tail", ["one byte", "a whole header", "zeros"])
def test_a_resumed_run_is_shown_without_waiting(tmp_path: Path, tail: str) -> None:
    record = b"".join(frame([b"a record that was on its way"]))
    run = torn_run(
        tmp_path / "run",
        {"one byte": record[:1], "a whole header": record[:20], "zeros": bytes(4096)}[tail],
    )
    with SummaryRecord(run) as resumed:
        resumed.add_scalar("new", 7.0, 7)

    (answer,) = shown(run)
    assert (answer["is_done"], answer["is_integrity"]) == (True, True)
    assert answer["scalars"] == {"old": [[0, 0.0], [1, 1.0], [2, 2.0]], "new": [[7, 7.0]]}


def test_a_run_whose_directory_was_deleted_is_shown_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mindsummary_lightning.recording.live_file.PATH_CHECK_S", 0.0)
    run = tmp_path / "run"
    record = SummaryRecord(run)
    record.add_scalar("a", 1.0, 1)
    recorder_of(record).write_lineage(TrainInfo(epoch=1))
    shutil.rmtree(run)
    record.add_scalar("a", 2.0, 2)
    recorder_of(record).write_lineage(TrainInfo(epoch=2))

    (answer,) = shown(run)
    assert (answer["scalars"], answer["lineage"]) == ({"a": [[2, 2.0]]}, [2])


def with_a_full_disk_at_every_byte(run: Path) -> None:
    recorder = recorder_of(SummaryRecord(run))
    for room in range(45):
        with FaultyWrites(room, errno.ENOSPC):
            recorder.write_values(2 * room, [("a", float(room))])
        recorder.write_values(2 * room + 1, [("a", float(room))])
    assert len(read_scalars(run, "a")) >= 45


def with_a_limit_of_the_system(run: Path) -> None:
    assert not run_victim("size_limit", run, "scalar", 1).returncode


def rotated_under_a_clock_set_back(run: Path) -> None:
    clock = Clock()
    writer = EventWriter(str(run), FileOptions(max_file_size=300), clock)
    for step in range(40):
        writer.write_values(step, [("a", float(step))])
        clock.now -= 100
    assert len(read_scalars(run, "a")) == 40


def with_forked_children(run: Path) -> None:
    assert not run_victim("inherit", run.parent, "fork", "loader").returncode
    (run.parent / "fork-loader").rename(run)


def ended_somehow(run: Path, way: str) -> None:
    run_victim("exit_somehow", run, way)


def cut_by_a_power_loss(run: Path, size: str) -> None:
    with SummaryRecord(run) as record:
        for step in range(20):
            record.add_scalar("a", float(step), step)
    (path,) = summary_paths(run)
    path.write_bytes(path.read_bytes()[: int(size)] + bytes(4096))
    EventWriter(str(run), FileOptions()).write_values(20, [("b", 1.0)])  # the next start


def recorded_by_two_processes(run: Path) -> None:
    assert not run_victim("spawn", run).returncode


def recorded_by_many_at_once(run: Path) -> None:
    assert not run_victim("start_together", run, 8).returncode


def with_a_value_too_large(run: Path) -> None:
    record = SummaryRecord(run)
    record.add_scalar("a", 1.0, 1)
    record.add_value("tensor", "t", np.zeros(10_000_001, np.bool_))  # skipped with a warning
    record.add_scalar("a", 2.0, 2)


def with_a_file_deleted(run: Path) -> None:
    record = SummaryRecord(run)
    record.add_scalar("a", 1.0, 1)
    summary_paths(run)[0].unlink()
    record.add_scalar("a", 2.0, 2)


def with_hostile_tags(run: Path) -> None:
    MindInsightLogger(run.parent, name="", version=run.name).log_metrics(
        dict.fromkeys(hostile_names(200), 1.0), 1
    )


def with_odd_values(run: Path) -> None:
    logger = MindInsightLogger(run.parent, name="", version=run.name)
    for step, (value, _) in enumerate(odd_values().values()):
        logger.log_metrics({"odd": value, "even": float(step)}, step)


def under_umask_0(run: Path) -> None:
    umask = os.umask(0)
    try:
        SummaryRecord(run, file_mode=0o640).add_scalar("a", 1.0)
    finally:
        os.umask(umask)


# Rows of docs/development/faults.md. A file of zeros alone (row 3) is left as it is: nothing proves
# whose it is.
LEFT_BEHIND: list[tuple[int, Callable[..., None], tuple[str, ...]]] = [
    (4, with_a_full_disk_at_every_byte, ()),
    (4, with_a_limit_of_the_system, ()),
    *((3, cut_by_a_power_loss, (size,)) for size in ("20", "200", "333", "500", "613")),
    *(
        (6, ended_somehow, (way,))
        for way in ("return", "exception", "sys.exit", "os._exit", "abort", "thread")
    ),
    (7, with_forked_children, ()),
    (8, recorded_by_two_processes, ()),
    (10, recorded_by_many_at_once, ()),
    (14, with_a_value_too_large, ()),
    (15, with_a_file_deleted, ()),
    (17, with_hostile_tags, ()),
    (18, under_umask_0, ()),
    (20, with_odd_values, ()),
    (32, rotated_under_a_clock_set_back, ()),
]


@pytest.mark.filterwarnings("ignore")
def test_what_further_faults_leave_behind_is_shown_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Rows 5, 16, 19 and 22 are of what recording costs, row 13 of a run too long to be shown whole;
    # row 21 has a module of its own.
    monkeypatch.setattr("mindsummary_lightning.recording.live_file.PATH_CHECK_S", 0.0)
    runs = [tmp_path / f"row {row} {number}" for number, (row, _, _) in enumerate(LEFT_BEHIND)]
    for run, (_, leave, arguments) in zip(runs, LEFT_BEHIND, strict=True):
        leave(run, *arguments)

    for run, answer in zip(runs, shown(*runs), strict=True):
        assert_shown_whole(run, answer)
        assert answer["scalars"], run


# what the first rank writes is a run like any other; tests/trainer looks at what the others leave
@pytest.mark.long
def test_a_run_of_several_ranks_is_shown_whole(tmp_path: Path) -> None:
    from tests.trainer.support import run_script
    from tests.trainer.test_processes import SCRIPT

    assert not run_script(SCRIPT, tmp_path, "ddp").returncode
    run = tmp_path / "runs" / "pair" / "version_0"
    (answer,) = shown(run)
    assert_shown_whole(run, answer)
    assert answer["lineage"] == [1]
