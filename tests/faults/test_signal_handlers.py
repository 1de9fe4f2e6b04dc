"""Row 25: signal handlers that record, as Lightning's SLURM requeue does, in the middle of
recording.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from mindsummary_lightning import MindInsightLogger, SummaryRecord
from mindsummary_lightning.fileio.append import RecordFile
from mindsummary_lightning.recording import event_writer, lineage_file
from mindsummary_lightning.recording.serialized_calls import SerializedCalls
from mindsummary_lightning.recording.summary_record import recorder_of
from mindsummary_lightning.values import TrainInfo, UserDefinedInfo
from tests.faults.processes import run_victim
from tests.support import read_lineage, read_scalars, summary_paths

pytestmark = pytest.mark.faults

Figure = Callable[[int, str], None]


@pytest.mark.slow
def test_what_a_handler_records_is_in_the_file_or_was_refused_and_queued(
    tmp_path: Path, times: Callable[[int, int], int], is_full: bool, figure: Figure
) -> None:
    run = tmp_path / "run"
    done = run_victim("record_in_handlers", run, times(1500, 20_000))
    assert not done.returncode, done.stderr
    told = json.loads(done.stdout)

    steps = [step for step, _ in read_scalars(run, "a")]
    assert sorted(steps) == sorted(told["written"] + told["queued"])
    names = {
        name
        for event in read_lineage(run)
        if isinstance(event.what, UserDefinedInfo)
        for name in event.what.values
    }
    assert names == {f"n{number}" for number in told["lineage written"] + told["lineage queued"]}
    assert len(summary_paths(run)) == 1
    queued = len(told["queued"]) + len(told["lineage queued"])
    # Whether a handler meets a lineage call is a matter of chance in the short form; the next test
    # makes it so.
    assert told["lineage queued"] or not is_full
    figure(
        25,
        (
            f"{len(steps)} values and {len(names)} of lineage, {queued} queued by handlers: 0 "
            "lost, 0 hung"
        ),
    )


def test_a_handler_in_the_middle_of_a_replacement_is_queued(tmp_path: Path) -> None:
    record = SummaryRecord(tmp_path)
    answers: list[bool] = []
    real = event_writer.LineageFileWriter.write

    def interrupted(self: event_writer.LineageFileWriter, value: object) -> None:
        if not answers:
            answers.append(False)  # once
            answers[0] = recorder_of(record).write_lineage(UserDefinedInfo({"of the handler": 1}))
        real(self, value)  # type: ignore[arg-type]

    with mock.patch.object(event_writer.LineageFileWriter, "write", interrupted):
        assert recorder_of(record).write_lineage(TrainInfo(epoch=1))

    assert answers == [False]
    assert [event.what for event in read_lineage(tmp_path)] == [
        TrainInfo(epoch=1),
        UserDefinedInfo({"of the handler": 1}),
    ]
    assert recorder_of(record).policy.lost == 0


@pytest.mark.parametrize(
    "interrupted", ["the first values", "later values", "the first lineage", "later lineage"]
)
def test_hyperparameters_of_a_handler_are_in_the_file_when_the_call_it_interrupts_ends(
    tmp_path: Path, interrupted: str
) -> None:
    logger = MindInsightLogger(tmp_path, name="", version="run")
    is_later, is_lineage = interrupted.startswith("later"), interrupted.endswith("lineage")
    if is_later:
        logger.log_metrics({"a": 1.0}, 0)
    waiting = [lambda: logger.log_hyperparams({"of the handler": 1})]
    owner, name = (lineage_file, "replace_file") if is_lineage else (RecordFile, "append")
    real = getattr(owner, name)

    def interrupt(*args: Any, **kwargs: Any) -> Any:
        if waiting:
            waiting.pop()()
        return real(*args, **kwargs)

    with mock.patch.object(owner, name, interrupt):
        if is_lineage:
            logger.log_hyperparams({"of the call": 2})
        if not (is_lineage and is_later):
            logger.log_metrics({"a": 2.0}, 1)

    events = read_lineage(tmp_path / "run")
    (custom,) = [event.what.values for event in events if isinstance(event.what, UserDefinedInfo)]
    assert custom == {"of the handler": 1, **({"of the call": 2} if is_lineage else {})}


def test_what_a_handler_queues_while_the_last_queued_call_ends_is_made() -> None:
    class Late(deque):  # type: ignore[type-arg]
        """Gets another call right after it was found empty."""

        def __bool__(self) -> bool:
            is_filled = len(self) > 0
            if not is_filled and late:
                self.append((made.append, (late.pop(),)))
            return is_filled

    made: list[str] = []
    late = ["late"]
    turns = SerializedCalls()
    turns._queue = Late([(made.append, ("queued",))])

    assert turns.call(made.append, "own")
    assert made == ["own", "queued", "late"]


def test_a_handler_while_a_writer_is_being_made_shares_it(tmp_path: Path) -> None:
    real = event_writer.EventWriter.__init__
    handlers: list[SummaryRecord] = []

    def interrupted(self: event_writer.EventWriter, *arguments: object, **options: object) -> None:
        real(self, *arguments, **options)  # type: ignore[arg-type]
        if not handlers:
            handlers.append(SummaryRecord(tmp_path))
            assert recorder_of(handlers[0]).write_values(1, [("a", 1.0)])

    done = threading.Event()

    def record() -> None:
        with mock.patch.object(event_writer.EventWriter, "__init__", interrupted):
            assert recorder_of(SummaryRecord(tmp_path)).write_values(2, [("a", 2.0)])
        done.set()

    thread = threading.Thread(target=record, daemon=True)
    thread.start()

    assert done.wait(20)
    assert read_scalars(tmp_path, "a") == [(1, 1.0), (2, 2.0)]
    assert len(summary_paths(tmp_path)) == 1


def test_a_handler_that_raises_does_not_leave_the_writer_busy() -> None:
    turns, made = SerializedCalls(), []

    def interrupted() -> None:
        turns.call(made.append, "queued")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        turns.call(interrupted)
    # an exception that came before the call could say that it had ended
    turns._busy = next(iter(_ended_frames()))

    assert turns.call(made.append, "next")
    assert made == ["queued", "next"]


def _ended_frames() -> list[object]:
    import sys

    return [sys._getframe()]
