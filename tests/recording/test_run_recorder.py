"""A recorder's life: what it defers, queues, refuses and closes."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mindsummary_lightning import SummaryRecord
from mindsummary_lightning.errors import GraphCaptureError
from mindsummary_lightning.fileio.append import is_locked
from mindsummary_lightning.recording.event_files import FileOptions
from mindsummary_lightning.recording.run_recorder import RunRecorder
from mindsummary_lightning.recording.summary_record import recorder_of
from mindsummary_lightning.values import (
    EvaluationInfo,
    Graph,
    GraphNode,
    TrainInfo,
    UserDefinedInfo,
)
from tests.support import (
    lineage_paths,
    read_events,
    read_lineage,
    read_scalars,
    read_values,
    summary_paths,
)

GRAPH = Graph((GraphNode("1", "Add"),))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def recorder(run: Path) -> RunRecorder:
    return RunRecorder(str(run))


def lineage_of(run: Path) -> list[object]:
    return [event.what for event in read_lineage(run)] if run.exists() else []


# ---- lineage that waits


def test_deferred_lineage_is_written_with_the_next_value_and_once(
    run: Path, recorder: RunRecorder
) -> None:
    recorder.defer_lineage(TrainInfo(epoch=1))
    recorder.defer_lineage(UserDefinedInfo({"a": 1}))
    recorder.write_ready_lineage()
    assert recorder.write_values(1, []) is True
    assert not run.exists()

    assert recorder.write_values(1, [("a", 1.0)]) is True
    assert lineage_of(run) == [TrainInfo(epoch=1), UserDefinedInfo({"a": 1})]
    (path,) = lineage_paths(run)
    before = path.stat().st_ino
    recorder.write_values(2, [("a", 1.0)])
    assert path.stat().st_ino == before
    recorder.defer_lineage(TrainInfo(epoch=2))
    assert lineage_of(run)[0] == TrainInfo(epoch=1)
    recorder.write_ready_lineage()
    assert lineage_of(run) == [UserDefinedInfo({"a": 1}), TrainInfo(epoch=2)]
    recorder.defer_lineage(TrainInfo(epoch=3))
    recorder.write_values(3, [("a", 1.0)])
    assert lineage_of(run) == [UserDefinedInfo({"a": 1}), TrainInfo(epoch=3)]


def test_deferred_lineage_comes_before_lineage_and_graphs(run: Path, recorder: RunRecorder) -> None:
    recorder.defer_lineage(TrainInfo(epoch=1))
    assert recorder.write_lineage() is True
    assert not run.exists()
    assert recorder.write_lineage(TrainInfo(epoch=2)) is True
    assert lineage_of(run) == [TrainInfo(epoch=2)]
    recorder.defer_lineage(EvaluationInfo("{}"))
    assert recorder.write_graph(GRAPH) is True

    assert lineage_of(run) == [TrainInfo(epoch=2), EvaluationInfo("{}")]
    assert read_events(run)[-1].what == GRAPH


class _InterruptedTimer:
    """A timer; in its next call a signal handler defers lineage."""

    def __init__(self) -> None:
        self.handler: Callable[[], None] | None = None

    def __call__(self) -> float:
        handler, self.handler = self.handler, None
        if handler is not None:
            handler()
        return 0.0


@pytest.mark.parametrize(
    "write",
    [
        lambda recorder: recorder.write_values(1, [("a", 1.0)]),
        lambda recorder: recorder.write_graph(GRAPH),
        lambda recorder: recorder.write_lineage(EvaluationInfo('{"a": 1.0}')),
        lambda recorder: recorder.write_lineage(EvaluationInfo('{"a": 1.0}'), replaced=["b"]),
    ],
    ids=["values", "a graph", "lineage", "lineage that replaces"],
)
def test_lineage_that_a_signal_handler_defers_during_a_write_is_written_after_it(
    run: Path, write: Callable[[RunRecorder], bool]
) -> None:
    timer = _InterruptedTimer()
    recorder = RunRecorder(str(run), timer=timer)
    timer.handler = lambda: recorder.defer_lineage(TrainInfo(epoch=3))

    assert write(recorder) is True
    assert timer.handler is None
    assert TrainInfo(epoch=3) in lineage_of(run)


def test_deferred_lineage_that_is_discarded_is_not_written(
    run: Path, recorder: RunRecorder
) -> None:
    recorder.defer_lineage(TrainInfo(epoch=1))
    recorder.discard_deferred_lineage()
    recorder.write_values(1, [("a", 1.0)])
    recorder.write_deferred_lineage()

    assert lineage_of(run) == []


@pytest.mark.parametrize("way", ["defer_lineage", "write_lineage"])
def test_lineage_that_would_break_mindinsight_is_refused_and_nothing_is_made(
    run: Path, recorder: RunRecorder, way: str
) -> None:
    with pytest.raises(ValueError, match="loss of TrainInfo must be finite"):
        getattr(recorder, way)(TrainInfo(loss=float("nan")))
    recorder.write_deferred_lineage()

    assert not run.exists()


def test_custom_data_that_are_replaced_leave_the_file(run: Path, recorder: RunRecorder) -> None:
    recorder.write_lineage(UserDefinedInfo({"a": 1, "b": 2, "c": 3}))
    recorder.write_lineage(UserDefinedInfo({"b": 4, "d": 5}), replaced=("a", "b"))

    assert lineage_of(run) == [TrainInfo(), UserDefinedInfo({"c": 3, "b": 4, "d": 5})]


def test_metrics_that_are_no_finite_numbers_are_named_and_left_out(
    recorder: RunRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    metrics = {"loss": 0.5, "nan": float("nan"), "text": "x", "accuracy": np.float32(0.25)}

    assert recorder.metric_lineage("log_it", metrics) == [
        EvaluationInfo('{"loss": 0.5, "accuracy": 0.25}')
    ]
    assert recorder.metric_lineage("log_it", {"loss": 0.5}) == [EvaluationInfo('{"loss": 0.5}')]
    assert recorder.metric_lineage("log_it", {}) == []
    (message,) = caplog.messages
    assert message.startswith(
        "metric 'nan', 'text' of 'log_it' is skipped: a metric in the lineage"
    )


# ---- values


def test_values_are_recorded_as_soon_as_the_run_directory_can_be_made(
    run: Path, recorder: RunRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    run.touch()
    assert [recorder.write_values(step, [("a", 1.0)]) for step in (1, 2)] == [False, False]
    (message,) = caplog.messages
    assert message.startswith(f"values could not be recorded in {run}: ")
    run.unlink()
    assert recorder.write_values(3, [("a", 1.0)]) is True

    assert read_scalars(run, "a") == [(3, 1.0)]
    assert (recorder.policy.lost, len(caplog.messages)) == (2, 1)


@pytest.mark.parametrize("step", [-(2**63) - 1, 2**63])
def test_a_step_beyond_64_bits_skips_its_values_with_one_warning(
    run: Path, recorder: RunRecorder, step: int, caplog: pytest.LogCaptureFixture
) -> None:
    assert [recorder.write_values(step, [("a", 1.0)]) for _ in range(2)] == [False, False]
    assert not run.exists()
    assert caplog.messages == [f"step must fit 64 bits, got {step}. Its values are skipped"]
    assert recorder.policy.lost == 0
    assert [recorder.write_values(at, [("a", 1.0)]) for at in (-(2**63), 2**63 - 1)] == [True] * 2
    assert read_scalars(run, "a") == [(-(2**63), 1.0), (2**63 - 1, 1.0)]


@pytest.mark.parametrize(
    "write",
    [
        lambda recorder: recorder.write_values(1, [("a", 1.0)]),
        lambda recorder: recorder.write_graph(GRAPH),
        lambda recorder: recorder.write_lineage(TrainInfo()),
    ],
    ids=["values", "a graph", "lineage"],
)
def test_whether_a_recorder_has_recorded_counts_all_that_is_in_its_files(
    recorder: RunRecorder, write: Any
) -> None:
    assert recorder.has_recorded is False
    assert write(recorder) is True
    assert recorder.has_recorded is True


def test_a_graph_is_captured_once_and_again_if_that_failed(
    run: Path, recorder: RunRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    torch = pytest.importorskip("torch")
    layer, example = torch.nn.Linear(2, 3), torch.ones(1, 2)

    def refuse(network: Any, example: Any) -> Any:
        raise GraphCaptureError("not today")

    assert recorder.capture_graph(layer, example, refuse) is False
    assert not run.exists()
    assert caplog.messages == ["the computational graph is not recorded: Linear: not today"]
    assert recorder.capture_graph(layer, torch.ones(5), lambda *_: example) is True
    assert recorder.capture_graph(layer, example, refuse) is True
    assert sum(isinstance(event.what, Graph) for event in read_events(run)) == 1


# ---- the end


def test_after_close_the_files_are_free_and_nothing_is_recorded(
    run: Path, recorder: RunRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    recorder.write_values(1, [("a", 1.0)])
    path = recorder.summary_path
    assert (is_locked(path), recorder.is_closed) == (True, False)
    recorder.close()
    assert (is_locked(path), recorder.is_closed) == (False, True)
    recorder.close()

    assert recorder.write_values(2, [("a", 2.0), ("b", 2.0)]) is False
    assert recorder.write_graph(GRAPH) is False
    assert recorder.write_lineage(TrainInfo()) is False
    recorder.begin_file()
    assert [event.what for event in read_events(run)] == ["MindSpore.Event:1", (("a", 1.0),)]
    assert not lineage_paths(run)
    ends = (message.partition(" is closed: ")[2] for message in caplog.messages)
    assert [end.partition(" is not recorded")[0] for end in ends] == [
        "'a' at step 2",
        "'b' at step 2",
        "the graph",
        "lineage",
        "a new file",
    ]


@pytest.mark.parametrize("way", ["release", "close"])
def test_a_recorder_that_is_reopened_goes_on_in_its_file(run: Path, way: str) -> None:
    recorder = RunRecorder(str(run))
    recorder.is_reopened = True
    for step in range(3):
        assert recorder.write_values(step, [("a", 1.0)]) is True
        getattr(recorder, way)()
        assert is_locked(recorder.summary_path) is False

    assert read_scalars(run, "a") == [(0, 1.0), (1, 1.0), (2, 1.0)]
    assert len(summary_paths(run)) == 1


def test_of_two_recorders_the_first_that_closes_leaves_the_file_to_the_other(run: Path) -> None:
    first, second = RunRecorder(str(run)), RunRecorder(str(run))
    for recorder in (first, second):
        recorder.write_values(1, [("a", 1.0)])
    path = first.summary_path
    assert second.summary_path == path
    first.close()
    assert is_locked(path) is True
    second.close()
    assert is_locked(path) is False

    assert read_scalars(run, "a") == [(1, 1.0)]


def test_a_recorder_that_is_dropped_leaves_its_file_free(run: Path) -> None:
    recorder = RunRecorder(str(run))
    recorder.write_values(1, [("a", 1.0)])
    path = recorder.summary_path
    del recorder

    assert is_locked(path) is False


def test_records_that_disappeared_are_in_the_total_of_the_end(
    run: Path, recorder: RunRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    for step in range(3):
        recorder.write_values(step, [("a", 1.0)])
    recorder.write_lineage(TrainInfo(epoch=1))
    (path,) = summary_paths(run)
    os.truncate(path, path.stat().st_size - 3)
    recorder.close()

    assert recorder.policy.lost == 1
    assert caplog.messages == [
        f"1 records of {run} are lost in total: 1 were accepted and later lost by the file system"
    ]
    assert read_scalars(run, "a") == [(0, 1.0), (1, 1.0)]


def test_lineage_that_disappeared_is_counted_with_the_values(
    run: Path, recorder: RunRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    for epoch in range(3):
        recorder.write_lineage(TrainInfo(epoch=epoch))
    recorder.write_values(1, [("a", 1.0)])
    shutil.rmtree(run)
    recorder.write_lineage(EvaluationInfo("{}"))
    recorder.close()

    assert recorder.policy.lost == 4
    assert lineage_of(run) == [EvaluationInfo("{}")]


# ---- files


def test_a_new_run_in_the_directory_begins_both_files(run: Path, recorder: RunRecorder) -> None:
    recorder.write_values(5, [("a", 1.0)])
    recorder.write_lineage(TrainInfo(epoch=1), UserDefinedInfo({"old": 1}))
    recorder.begin_file()
    recorder.write_values(3, [("a", 1.0)])
    recorder.write_lineage(UserDefinedInfo({"same run": 1}))
    assert (len(summary_paths(run)), len(lineage_paths(run))) == (2, 1)

    recorder.begin_file(is_new_run=True)
    recorder.write_values(3, [("a", 1.0)])
    recorder.write_lineage(EvaluationInfo("{}"))
    recorder.write_lineage(UserDefinedInfo({"new": 1}))
    assert (len(summary_paths(run)), len(lineage_paths(run))) == (3, 2)
    assert lineage_of(run)[-2:] == [EvaluationInfo("{}"), UserDefinedInfo({"new": 1})]
    assert len(lineage_of(run)) == 4


def test_the_newest_file_of_another_process_is_continued(run: Path) -> None:
    trained = RunRecorder(str(run))
    for step in (5, 6):
        trained.write_values(step, [("a", 1.0)])
        trained.begin_file()
    trained.close()
    moved = run.rename(run.with_name("moved"))  # this process does not know it
    evaluated = RunRecorder(str(moved))
    evaluated.continue_file()
    assert Path(evaluated.summary_path) == summary_paths(moved)[1]
    assert evaluated.write_values(2, [("test", 0.5)]) is True
    evaluated.continue_file()
    assert evaluated.write_values(3, [("test", 0.5)]) is True

    assert len(summary_paths(moved)) == 2
    assert read_values(moved) == [(5, "a", 1.0), (6, "a", 1.0), (2, "test", 0.5), (3, "test", 0.5)]
    evaluated.close()
    assert evaluated.policy.lost == 0


def test_a_file_of_another_program_is_not_continued(run: Path) -> None:
    run.mkdir()
    theirs = run / "events.out.events.summary.1800000000.theirs_MS"
    theirs.write_bytes(b"theirs")
    recorder = RunRecorder(str(run))
    recorder.continue_file()
    recorder.write_values(1, [("a", 1.0)])

    assert theirs.read_bytes() == b"theirs"
    assert [path.name.split(".")[4] for path in summary_paths(run)] == ["1800000000", "1800000001"]


def test_the_settings_of_who_records_already_are_kept_which_is_said_quietly(
    run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = RunRecorder(str(run), FileOptions(prefix="first"))
    first.write_values(1, [("a", 1.0)])
    with caplog.at_level(logging.INFO, "mindsummary_lightning"):
        second = RunRecorder(str(run), FileOptions(prefix="second"))
        second.write_values(2, [("a", 1.0)])

    assert [path.name.split(".")[0] for path in summary_paths(run)] == ["first"]
    assert [(line.levelname, "keep the settings" in line.message) for line in caplog.records] == [
        ("INFO", True)
    ]


def test_a_record_knows_its_recorder(run: Path) -> None:
    with SummaryRecord(run, raise_exception=True, max_file_size=100, fsync_secs=2.5) as record:
        assert recorder_of(record).options == FileOptions(max_file_size=100, fsync_secs=2.5)
        assert recorder_of(record).policy.raise_exception is True
        assert recorder_of(record).exports_tensors is False
        assert recorder_of(record).directory == record.run_dir == record.directory == str(run)
