"""Rules of a run's files: repeats, events of their own, the live file, the lineage file."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import math
import os
import shutil
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from mindsummary_lightning.conversion.histograms import to_histogram
from mindsummary_lightning.conversion.image_batches import batch_to_image
from mindsummary_lightning.errors import ForkedWriterError, RecordTooLargeError
from mindsummary_lightning.fileio.append import MissingRecords, is_locked
from mindsummary_lightning.maintenance.verify import verify_run
from mindsummary_lightning.recording import event_files
from mindsummary_lightning.recording.event_files import FileOptions
from mindsummary_lightning.recording.event_writer import EventWriter, shared_event_writer
from mindsummary_lightning.values import (
    DatasetGraph,
    EvaluationInfo,
    Graph,
    GraphNode,
    Histogram,
    Image,
    LossLandscape,
    Points,
    SummaryValue,
    Tensor,
    TrainInfo,
    UserDefinedInfo,
)
from mindsummary_lightning.values.events import LineageValue
from tests.fileio.faulty import FaultyWrites
from tests.support import (
    Clock,
    lineage_paths,
    read_events,
    read_lineage,
    read_scalars,
    read_values,
    record_bytes,
    summary_paths,
    whole_payloads,
)

HISTOGRAM = to_histogram(np.arange(5.0))
PICTURE = batch_to_image(np.zeros((1, 1, 2, 2), np.uint8))
TENSOR = Tensor(np.ones(2))


class Timed:
    """A writer whose clock and timer a test moves."""

    def __init__(self, directory: Path, options: FileOptions | None = None) -> None:
        self.directory = directory
        self.clock = Clock()
        self.timer = Clock(0.0)
        self.writer = self.again(options)

    def again(self, options: FileOptions | None = None) -> EventWriter:
        """Another writer of the directory, as another process would have."""
        self.writer = EventWriter(
            str(self.directory), options or FileOptions(), self.clock, self.timer
        )
        return self.writer

    def scalar(self, step: int, value: float = 1.0) -> None:
        self.writer.write_values(step, [("a", value)])


@pytest.fixture
def run(tmp_path: Path) -> Timed:
    return Timed(tmp_path / "run")


# ---- what is written once


@pytest.mark.parametrize(
    "value", [1.0, float("nan"), PICTURE, HISTOGRAM], ids=["scalar", "nan", "image", "histogram"]
)
def test_an_exact_repeat_is_skipped_of_each_kind(
    run: Timed, value: object, caplog: pytest.LogCaptureFixture
) -> None:
    other = 1.0 if isinstance(value, Image) else PICTURE
    for _ in range(3):
        run.writer.write_values(1, [("a", value), ("a", other)])  # type: ignore[list-item]

    assert len(read_values(run.directory)) == 2
    assert not caplog.records


def test_a_changed_value_at_the_same_step_is_written_with_one_warning(
    run: Timed, caplog: pytest.LogCaptureFixture
) -> None:
    for value in (1.0, 2.0, 3.0):
        run.scalar(1, value)

    assert read_scalars(run.directory, "a") == [(1, 1.0), (1, 2.0), (1, 3.0)]
    assert [line.levelno for line in caplog.records] == [logging.WARNING]
    assert "scalar 'a' is recorded again at step 1 with another value" in caplog.text


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (math.nan, 2.0),
        (2.0, math.nan),
        (math.inf, -math.inf),
        (TENSOR, TENSOR),
        (PICTURE, batch_to_image(np.ones((1, 1, 2, 2), np.uint8))),
    ],
    ids=["not NaN", "NaN", "infinity", "a tensor again", "another image"],
)
def test_what_is_not_known_to_be_the_same_is_written(
    run: Timed, first: SummaryValue, second: SummaryValue
) -> None:
    for value in (first, second):
        run.writer.write_values(1, [("a", value)])

    assert [tag for _, tag, _ in read_values(run.directory)] == ["a", "a"]


@pytest.mark.parametrize(
    "change",
    [
        {"lefts": [0.5]},
        {"widths": [2.0]},
        {"counts": [3]},
        {"count": 9},
        {"nan_count": 1},
        {"sum": math.inf},
    ],
    ids=str,
)
def test_a_histogram_that_differs_in_one_thing_is_not_a_repeat(
    run: Timed, change: dict[str, Any]
) -> None:
    for changes in ({}, {}, change):
        facts = {"lefts": [0.0], "widths": [1.0], "counts": [2], "count": 2, "sum": float("nan")}
        run.writer.write_values(1, [("a", Histogram(**facts | changes))])  # type: ignore[arg-type]

    assert len(read_values(run.directory)) == 2


def test_a_landscape_made_again_is_written_without_a_word(
    run: Timed, caplog: pytest.LogCaptureFixture
) -> None:
    for z in (1.0, 2.0):
        run.writer.write_values(
            1, [("l", LossLandscape(Points(np.ones(1), np.ones(1), np.full((1, 1), z))))]
        )

    assert len(read_values(run.directory)) == 2
    assert not caplog.records


def test_a_value_that_could_not_be_written_is_not_a_repeat(run: Timed) -> None:
    run.scalar(0)
    with FaultyWrites(room=3), pytest.raises(OSError, match="No space"):
        run.scalar(1)
    run.scalar(1)

    assert read_scalars(run.directory, "a") == [(0, 1.0), (1, 1.0)]


def test_a_repeat_among_known_scalars_is_skipped_and_the_others_are_written(run: Timed) -> None:
    for values in ([("a", 1.0), ("b", 1.0)], [("a", 2.0)], [("a", 2.0), ("b", 2.0)]):
        run.writer.write_values(1 if values[0][1] == 1.0 else 2, values)  # type: ignore[arg-type]

    assert read_values(run.directory) == [
        (1, "a", 1.0),
        (1, "b", 1.0),
        (2, "a", 2.0),
        (2, "b", 2.0),
    ]


def test_a_value_of_the_file_before_is_not_a_repeat_in_the_next(run: Timed) -> None:
    run.writer.write_values(1, [("a", 1.0), ("h", HISTOGRAM)])
    run.writer.begin_file()
    run.writer.write_values(1, [("a", 1.0), ("h", HISTOGRAM)])

    before, after = summary_paths(run.directory)
    assert len(record_bytes([])) < before.stat().st_size == after.stat().st_size


def test_a_value_of_the_file_before_is_not_a_repeat_in_the_next_that_begins_with_a_graph(
    run: Timed,
) -> None:
    graph = Graph((GraphNode("1", "Add"),))
    run.scalar(1)
    run.writer.begin_file()
    run.writer.write_graph(graph)
    run.scalar(1)

    assert len(summary_paths(run.directory)) == 2
    assert [event.what for event in read_events(run.directory)] == [
        "MindSpore.Event:1",
        (("a", 1.0),),
        "MindSpore.Event:1",
        graph,
        (("a", 1.0),),
    ]


def test_a_file_that_was_closed_takes_a_graph_and_later_values_in_order(run: Timed) -> None:
    graph = Graph((GraphNode("1", "Add"),))
    run.scalar(1)
    run.writer.release(run)
    run.writer.write_graph(graph)
    run.scalar(1)
    run.writer.release(run)
    run.scalar(2)

    assert [event.what for event in read_events(run.directory)] == [
        "MindSpore.Event:1",
        (("a", 1.0),),
        graph,
        (("a", 1.0),),
    ]
    assert [event.step for event in read_events(run.directory)] == [0, 1, 0, 2]


@pytest.mark.parametrize("way", ["later", "a write failed"])
def test_a_graph_is_written_into_a_new_file_if_the_old_one_is_gone(run: Timed, way: str) -> None:
    graph = Graph((GraphNode("1", "Add"),))
    run.writer.write_graph(graph)
    shutil.rmtree(run.directory)
    if way == "later":
        run.timer.now += 4
    else:
        with FaultyWrites(0, errno.ESTALE), pytest.raises(OSError, match="Stale"):
            run.writer.write_graph(graph)
    run.writer.write_graph(graph)

    assert [event.what for event in read_events(run.directory)] == ["MindSpore.Event:1", graph]


def test_a_further_file_of_limited_size_continues_the_one_before(tmp_path: Path) -> None:
    run = Timed(tmp_path / "run", FileOptions(max_file_size=90))
    for value in (1.0, 2.0):
        run.writer.write_values(int(value), [("a", value)])
    run.writer.write_values(2, [("a", 2.0)])

    assert read_scalars(run.directory, "a") == [(1, 1.0), (2, 2.0)]


def test_a_file_may_be_as_large_as_its_limit(tmp_path: Path) -> None:
    def sizes_of_files(name: str, limit: int) -> list[int]:
        run = Timed(tmp_path / name, FileOptions(max_file_size=limit))
        for value in (1.0, 2.0):
            run.writer.write_values(int(value), [("a", value)])
        return [path.stat().st_size for path in summary_paths(run.directory)]

    (size,) = sizes_of_files("large", 10_000)

    assert sizes_of_files("exact", size) == [size]
    assert len(sizes_of_files("smaller", size - 1)) == 2


# ---- what travels alone


def test_tensors_and_landscapes_travel_alone_and_the_rest_together(run: Timed) -> None:
    landscape = LossLandscape(Points(np.ones(1), np.ones(1), np.ones((1, 1))))
    run.writer.write_values(
        1,
        [
            ("t", TENSOR),
            ("s", 1.0),
            ("l", landscape),
            ("h", HISTOGRAM),
            ("t2", TENSOR),
            ("i", PICTURE),
        ],
    )

    events = [event.what for event in read_events(run.directory)[1:]]
    assert [[tag for tag, _ in what] for what in events if isinstance(what, tuple)] == [
        ["s", "h", "i"],
        ["t"],
        ["l"],
        ["t2"],
    ]


def test_all_events_of_a_step_have_one_time(run: Timed) -> None:
    run.writer.write_values(1, [("t", TENSOR), ("s", 1.0)])

    assert {event.wall_time for event in read_events(run.directory)} == {run.clock.now}


def test_an_event_that_is_too_large_keeps_no_other_from_the_file(
    run: Timed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mindsummary_lightning.recording.event_writer.MAX_EVENT", 100_000)
    large = Tensor(np.ones(50_000))

    with pytest.raises(
        RecordTooLargeError, match="an event must have at most 100000 bytes for MindInsight, got "
    ):
        run.writer.write_values(1, [("large", large), ("s", 1.0), ("t", TENSOR)])

    assert [tag for _, tag, _ in read_values(run.directory)] == ["s", "t"]


def test_an_event_may_be_as_large_as_its_limit(run: Timed, monkeypatch: pytest.MonkeyPatch) -> None:
    large = Tensor(np.ones(50_000))
    run.writer.write_values(1, [("t", large)])
    largest = max(len(payload) for payload in whole_payloads(summary_paths(run.directory)[0]))

    monkeypatch.setattr("mindsummary_lightning.recording.event_writer.MAX_EVENT", largest)
    run.writer.write_values(2, [("t", large)])
    monkeypatch.setattr("mindsummary_lightning.recording.event_writer.MAX_EVENT", largest - 1)
    with pytest.raises(RecordTooLargeError, match=f"{largest - 1} bytes .*, got {largest}"):
        run.writer.write_values(3, [("t", large)])
    assert [step for step, _, _ in read_values(run.directory)] == [1, 2]


@pytest.mark.parametrize("factor", [0, 3])
def test_a_large_record_needs_so_many_times_its_size_of_free_space(
    tmp_path: Path, factor: int
) -> None:
    run = Timed(tmp_path / "run", FileOptions(free_space_factor=factor))
    large, small = Tensor(np.ones(20_000)), Tensor(np.ones(16_000))  # of 4 bytes each
    run.writer.write_values(1, [("t", large)])
    size = max(len(payload) for payload in whole_payloads(summary_paths(run.directory)[0])) + 16
    needed = factor * size
    for step, free, value in ((2, needed, large), (3, 0, small), (4, needed - 1, large)):
        with mock.patch("shutil.disk_usage", return_value=mock.Mock(free=free)) as asked:
            if step == 4 and factor:
                with pytest.raises(OSError, match=f"must be at least {needed} bytes, got {free}"):
                    run.writer.write_values(step, [("t", value)])
            else:
                run.writer.write_values(step, [("t", value)])
        assert asked.called == (value is large and factor > 0)

    assert [step for step, _, _ in read_values(run.directory)] == [1, 2, 3, 4][: 4 - (factor > 0)]


def test_more_tensors_than_mindinsight_shows_are_told_once(
    run: Timed, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(6):
        run.writer.write_values(number, [(f"t{number}", TENSOR), ("t0", HISTOGRAM)])
    assert not caplog.records
    run.writer.write_values(6, [("t6", TENSOR), ("t7", TENSOR)])
    run.writer.write_values(7, [("t8", TENSOR)])

    (message,) = caplog.messages
    assert message.startswith(f"{run.directory} has 8 tensor tags so far. MindInsight shows the 6 ")


# ---- which file is live


def test_a_file_is_later_than_every_file_that_is_there(run: Timed) -> None:
    run.directory.mkdir()
    for name in (
        "x.summary.1800000000.h_MS",
        "y.summary.1800000005.h_lineage",
        "z.summary.9999999999999999.h_MS",
    ):
        (run.directory / name).touch()
    run.scalar(1)

    assert Path(run.writer.summary_path).name.split(".")[4] == "1800000006"


def test_a_file_that_another_process_made_meanwhile_is_passed(run: Timed) -> None:
    promised = run.writer.summary_path
    run.directory.mkdir()
    Path(promised).write_bytes(record_bytes([]))
    later = int(run.clock.now) + 5
    (run.directory / f"events.out.events.summary.{later}.0.other_MS").touch()
    run.scalar(1)

    assert Path(run.writer.summary_path).name.split(".")[4] == str(later + 1)


def test_rotation_follows_a_clock_that_goes_on_or_jumps_back(tmp_path: Path) -> None:
    run = Timed(tmp_path / "run", FileOptions(max_file_size=90))
    for step, moved in enumerate((1000, -1000, -1000, 0)):
        run.scalar(step)
        run.clock.now += moved

    seconds = [int(path.name.split(".")[4]) for path in summary_paths(run.directory)]
    assert seconds[:2] == [1_700_000_000, 1_700_001_000]  # when it was made
    assert [step for step, _ in read_scalars(run.directory, "a")] == [0, 1, 2, 3]


@pytest.mark.parametrize("case", ["later", "clock jumped back", "a write failed", "released"])
def test_a_deleted_file_is_noticed_and_what_stood_in_it_is_no_repeat(
    run: Timed, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    run.scalar(2)
    if case == "released":
        run.writer.release(run)
    shutil.rmtree(run.directory)
    if case == "a write failed":
        with FaultyWrites(0, errno.ESTALE), pytest.raises(OSError, match="Stale"):
            run.scalar(1)
    elif case != "released":
        run.timer.now += 6
        run.clock.now -= 1_000_000 * (case == "clock jumped back")
    run.scalar(2)

    assert read_scalars(run.directory, "a") == [(2, 1.0)]
    message = (
        "was removed or replaced while it was being written: 1 records are lost. Recording "
        "continues"
    )
    # Of a write that failed the user is told by the policy, and of the rest by its total.
    assert (message in caplog.text) == (case in ("later", "clock jumped back"))
    assert [loss.count for loss in run.writer.take_losses()] == ([] if case == "released" else [1])


@pytest.mark.parametrize("after_s", [0, 6])
def test_a_file_that_somebody_cuts_is_left_for_a_new_one(run: Timed, after_s: int) -> None:
    run.scalar(1)
    [cut] = summary_paths(run.directory)
    os.truncate(cut, 0)
    run.timer.now += after_s
    if not after_s:
        with FaultyWrites(room=3), pytest.raises(OSError, match="No space"):
            run.scalar(2)
    run.scalar(3)

    assert cut.read_bytes() == b""
    assert read_scalars(run.directory, "a") == [(3, 1.0)]


def test_a_rotation_lists_the_directory_only_if_somebody_else_has_changed_it(
    tmp_path: Path,
) -> None:
    run = Timed(tmp_path, FileOptions(max_file_size=1))
    run.scalar(1)
    with mock.patch(
        "mindsummary_lightning.recording.event_files.os.listdir", wraps=os.listdir
    ) as listed:
        for step in range(2, 50):
            run.scalar(step)
        assert listed.call_count == 0
        os.utime(tmp_path, (0, 1.5))  # as a file of another process changes it
        (tmp_path / "events.out.events.summary.9000000000.0.other_MS").touch()
        run.scalar(50)
        assert listed.call_count <= 2

    assert "9000000001" in summary_paths(tmp_path)[-1].name
    assert [step for step, _ in read_scalars(tmp_path, "a")] == list(range(1, 51))


def test_a_graph_counts_as_the_two_tags_that_mindinsight_lists(
    run: Timed, caplog: pytest.LogCaptureFixture
) -> None:
    graph = Graph((GraphNode("1", "Add"),))
    run.writer.write_values(1, [(f"t{number}", 1.0) for number in range(298)])
    run.writer.write_graph(graph)
    assert (read_events(run.directory)[-1].step, read_events(run.directory)[-1].what) == (0, graph)
    assert not caplog.records
    run.writer.write_values(1, [("more", 1.0)])

    assert ["has 301 tags so far" in message for message in caplog.messages] == [True]
    other = Timed(run.directory.with_name("other"))
    other.writer.write_values(1, [(f"t{number}", 1.0) for number in range(299)])
    other.writer.write_graph(graph)
    assert f"{other.directory} has 301 tags so far" in caplog.messages[-1]
    [finding] = [line for line in verify_run(str(run.directory)) if "tags" in line.message]
    assert finding.message.startswith("the run has 301 tags")


@pytest.mark.parametrize("place", ["encode_step", "DuplicateFilter.new_values", "frame"])
def test_memory_that_is_short_while_a_record_is_made_leaves_the_file_as_it_was(
    run: Timed, place: str
) -> None:
    run.scalar(1)
    with (
        mock.patch(
            f"mindsummary_lightning.recording.event_writer.{place}", side_effect=MemoryError
        ),
        pytest.raises(MemoryError),
    ):
        run.scalar(2)
    run.scalar(2)

    assert read_scalars(run.directory, "a") == [(1, 1.0), (2, 1.0)]


@pytest.mark.parametrize("is_further", [False, True])
def test_a_file_whose_version_found_no_room_gets_it_later(run: Timed, is_further: bool) -> None:
    if is_further:
        run.scalar(1)
        run.writer.begin_file()
    with FaultyWrites(room=3), pytest.raises(OSError, match="No space"):
        run.scalar(2)
    run.scalar(3)

    found = [event.what for event in read_events(run.directory)]
    assert found == ["MindSpore.Event:1", (("a", 1.0),)] * (1 + is_further)


def test_files_are_filled_up_to_their_size_and_not_beyond(tmp_path: Path) -> None:
    run = Timed(tmp_path / "run", FileOptions(max_file_size=70_000))
    for step in range(4000):
        run.scalar(step)

    *full, _ = [path.stat().st_size for path in summary_paths(run.directory)]
    assert len(full) > 1
    assert all(69_900 < size <= 70_000 for size in full)
    assert [step for step, _ in read_scalars(run.directory, "a")] == list(range(4000))


@pytest.mark.parametrize(
    ("seconds", "expected"), [(10, [10, 20]), (3, [3, 6, 9, 12, 15, 18, 21, 24])]
)
def test_records_are_synced_when_their_seconds_have_passed(
    seconds: int, expected: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Timed(tmp_path / "run", FileOptions(fsync_secs=seconds))
    synced: list[float] = []
    monkeypatch.setattr(
        "mindsummary_lightning.fileio.append.RecordFile.sync",
        lambda file: synced.append(run.timer.now),
    )
    for step in range(25):
        run.scalar(step)
        run.timer.now += 1
        run.clock.now -= 1  # the timer decides, not the clock

    assert synced == expected


def test_a_graph_is_synced_when_its_seconds_have_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Timed(tmp_path / "run", FileOptions(fsync_secs=2.0))
    synced: list[float] = []
    monkeypatch.setattr(
        "mindsummary_lightning.fileio.append.RecordFile.sync",
        lambda file: synced.append(run.timer.now),
    )
    for number in range(6):
        run.writer.write_graph(Graph((GraphNode(str(number), "Add"),)))
        run.timer.now += 1

    assert synced == [2.0, 4.0]


# ---- forks


def _refused(write: Callable[[], object]) -> bool:
    try:
        write()
    except ForkedWriterError as error:
        return "was forked from the one that records the run" in str(error)
    return False


def test_a_writer_of_the_parent_writes_nothing_in_a_child(run: Timed) -> None:
    run.scalar(1)
    run.writer.write_lineage(TrainInfo(epoch=1))
    before = {path: path.read_bytes() for path in run.directory.iterdir()}
    assert is_locked(run.writer.summary_path) is True
    run.writer.abandon_after_fork()

    assert is_locked(run.writer.summary_path) is False  # its handle is closed
    run.timer.now += 5
    assert [
        _refused(lambda: run.scalar(2)),
        _refused(lambda: run.writer.write_graph(Graph((GraphNode("1", "Add"),)))),
        _refused(lambda: run.writer.write_lineage(TrainInfo(epoch=2))),
        _refused(lambda: run.writer.replace_custom(frozenset("a"), TrainInfo(epoch=2))),
        _refused(run.writer.continue_file),
    ] == [True] * 5
    assert {path: path.read_bytes() for path in run.directory.iterdir()} == before


@pytest.mark.parametrize("what", ["lineage", "a summary file"])
def test_a_writer_that_has_only_one_kind_of_file_is_the_parents_too(run: Timed, what: str) -> None:
    if what == "lineage":
        run.writer.write_lineage(TrainInfo(epoch=1))
    else:
        run.scalar(1)
    run.writer.abandon_after_fork()

    assert _refused(lambda: run.scalar(2))


def test_a_child_does_not_wait_for_a_write_that_a_thread_of_its_parent_was_making(
    tmp_path: Path,
) -> None:
    is_writing, goes_on = threading.Event(), threading.Event()

    def timer() -> float:
        if threading.current_thread() is parents:
            is_writing.set()
            goes_on.wait(10)
        return 0.0

    writer, refused = EventWriter(str(tmp_path), FileOptions(), timer=timer), []

    def write() -> None:
        refused.append(_refused(lambda: writer.write_values(2, [("a", 2.0)])))

    parents = threading.Thread(target=write)
    writer.write_values(1, [("a", 1.0)])
    parents.start()
    assert is_writing.wait(10)
    writer.abandon_after_fork()
    childs = threading.Thread(target=write)
    childs.start()
    childs.join(2)
    before_the_other = [*refused]
    goes_on.set()
    parents.join()
    childs.join()

    assert before_the_other == [True]
    assert read_scalars(tmp_path, "a") == [(1, 1.0)]


def test_a_writer_that_has_written_nothing_is_the_childs_as_well(run: Timed) -> None:
    run.writer.abandon_after_fork()
    run.scalar(1)
    run.writer.write_lineage(TrainInfo(epoch=1))

    assert read_scalars(run.directory, "a") == [(1, 1.0)]
    assert lineage_of(run) == [TrainInfo(epoch=1)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_is_refused_the_runs_of_its_parent_and_makes_its_own(
    tmp_path: Path,
) -> None:
    user, options = Clock(), FileOptions()
    mine = shared_event_writer(str(tmp_path / "mine"), options, user)
    unused = shared_event_writer(str(tmp_path / "unused"), options, user)
    mine.write_values(1, [("a", 1.0)])
    child = os.fork()
    if child == 0:
        is_as_told = False
        with contextlib.suppress(BaseException):
            is_refused = _refused(lambda: mine.write_values(2, [("a", 2.0)]))
            unused.write_values(3, [("a", 3.0)])
            is_kept = shared_event_writer(str(tmp_path / "unused"), options, user) is unused
            again = shared_event_writer(str(tmp_path / "mine"), options, user)
            again.write_values(4, [("a", 4.0)])
            is_as_told = is_refused and is_kept
        os._exit(not is_as_told)
    _, status = os.waitpid(child, 0)
    mine.write_values(5, [("a", 5.0)])

    assert status == 0
    assert read_scalars(tmp_path / "unused", "a") == [(3, 3.0)]
    assert len(summary_paths(tmp_path / "mine")) == 2
    assert read_scalars(tmp_path / "mine", "a") == [(1, 1.0), (5, 5.0), (4, 4.0)]


# ---- lineage


def lineage_of(run: Timed) -> list[object]:
    return [event.what for event in read_lineage(run.directory)]


def test_lineage_is_one_file_with_the_newest_of_each_kind_and_another_size_each_time(
    run: Timed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mindsummary_lightning.fileio.replace.os.fsync", lambda descriptor: None)
    sizes = []
    for epoch in range(400):
        run.writer.write_lineage(EvaluationInfo(f'{{"accuracy": {epoch % 2}}}'))
        sizes.append(lineage_paths(run.directory)[0].stat().st_size)

    # a reader that looks again after some changes finds another size
    for at in range(1, len(sizes)):
        assert sizes[at] not in sizes[max(0, at - 150) : at]
    assert max(sizes) < min(sizes) + 600
    assert lineage_of(run) == [EvaluationInfo('{"accuracy": 1}')]
    assert len(list(run.directory.iterdir())) == 1


def test_values_given_together_are_one_replacement_of_the_file(
    run: Timed, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr("mindsummary_lightning.fileio.replace.os.fsync", synced.append)
    values = [TrainInfo(epoch=1), EvaluationInfo("{}"), UserDefinedInfo({"a": 1})]
    run.writer.write_lineage(*values)

    assert lineage_of(run) == values
    assert len(synced) == 2  # of the file and of its directory


@pytest.mark.parametrize(
    ("values", "kept"),
    [
        (
            [UserDefinedInfo({f"k{n}": "x" * 90 for n in range(2000)}), TrainInfo(epoch=1)],
            {TrainInfo, UserDefinedInfo},
        ),
        ([UserDefinedInfo({"k": "x" * 70_000}), TrainInfo(epoch=1)], {TrainInfo}),
        (
            [TrainInfo(epoch=1), EvaluationInfo(json.dumps({f"m{n}": n for n in range(9000)}))],
            {TrainInfo},
        ),
        ([UserDefinedInfo({f"k{n}": "x" * 900}) for n in range(80)], {TrainInfo, UserDefinedInfo}),
    ],
    ids=["many keys", "a long text", "many metrics", "new keys each time"],
)
def test_lineage_stays_below_64_kib_with_one_warning_of_what_is_left_out(
    run: Timed,
    values: list[LineageValue],
    kept: set[type],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mindsummary_lightning.fileio.replace.os.fsync", lambda descriptor: None)
    for value in values:
        run.writer.write_lineage(value)

    (path,) = lineage_paths(run.directory)
    assert path.stat().st_size < 2**16
    assert {type(what) for what in lineage_of(run)} == kept
    (warning,) = caplog.messages
    assert "too large for a lineage file of 64 KiB" in warning
    if UserDefinedInfo in kept:
        assert path.stat().st_size > 60_000


def test_a_repeat_of_the_newest_of_its_kind_is_skipped(run: Timed) -> None:
    train, evaluation = TrainInfo(epoch=1), EvaluationInfo('{"a": 1}')
    for value in (train, train, evaluation, train, evaluation):
        run.writer.write_lineage(value)

    assert lineage_of(run) == [train, evaluation]
    before = lineage_paths(run.directory)[0].stat()
    run.writer.write_lineage(train)
    assert lineage_paths(run.directory)[0].stat().st_ino == before.st_ino


def test_custom_data_alone_brings_an_anchor_that_the_reader_needs(run: Timed) -> None:
    run.writer.write_lineage(UserDefinedInfo({"a": 1}))
    run.writer.write_lineage(UserDefinedInfo({"b": 2}))

    assert lineage_of(run) == [TrainInfo(), UserDefinedInfo({"a": 1, "b": 2})]


@pytest.mark.parametrize(
    "anchor", [TrainInfo(epoch=1), EvaluationInfo("{}"), DatasetGraph({"op_type": "x"})]
)
def test_custom_data_beside_other_lineage_brings_none(run: Timed, anchor: object) -> None:
    run.writer.write_lineage(anchor)  # type: ignore[arg-type]
    run.writer.write_lineage(UserDefinedInfo({"a": 1}))

    assert lineage_of(run) == [anchor, UserDefinedInfo({"a": 1})]


def test_custom_data_that_the_file_holds_already_is_skipped_key_by_key(run: Timed) -> None:
    sizes = []
    for values in ({"a": 1, "b": 2}, {"b": 2}, {"a": 1}, {"a": 1, "c": 3}, {"a": 1.0}):
        run.writer.write_lineage(UserDefinedInfo(values))
        sizes.append(lineage_paths(run.directory)[0].stat().st_size)

    assert len(set(sizes)) == 3  # the second and the third say nothing new
    (custom,) = [what.values for what in lineage_of(run) if isinstance(what, UserDefinedInfo)]
    assert custom == {"a": 1.0, "b": 2, "c": 3}
    assert isinstance(custom["a"], float)


def test_what_earlier_processes_wrote_is_carried_over(run: Timed) -> None:
    run.writer.write_lineage(TrainInfo(epoch=1))
    run.writer.write_lineage(UserDefinedInfo({"a": 1, "b": 1}))
    run.writer.write_lineage(UserDefinedInfo({"b": 2}))
    run.again().write_lineage(EvaluationInfo('{"acc": 1}'))

    old, new = lineage_paths(run.directory)
    assert [event.what for event in read_lineage(run.directory)][2:] == [
        TrainInfo(epoch=1),
        UserDefinedInfo({"a": 1, "b": 2}),
        EvaluationInfo('{"acc": 1}'),
    ]
    assert old.name < new.name


def test_a_repeat_of_what_an_earlier_process_wrote_makes_no_file(run: Timed) -> None:
    run.writer.write_lineage(TrainInfo(epoch=1))
    run.again().write_lineage(TrainInfo(epoch=1))

    assert len(lineage_paths(run.directory)) == 1


def test_a_damaged_earlier_lineage_file_is_logged_once_and_left_alone(
    run: Timed, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run.directory.mkdir()
    damaged = run.directory / "events.out.events.summary.5.0.h_lineage"
    damaged.write_bytes(b"\xff" * 40)
    with monkeypatch.context() as patch:
        patch.setattr("mindsummary_lightning.fileio.replace.os.fsync", _full_disk)
        with pytest.raises(OSError, match="full"):
            run.writer.write_lineage(TrainInfo(epoch=1))
    run.writer.write_lineage(TrainInfo(epoch=1))

    assert damaged.read_bytes() == b"\xff" * 40
    assert caplog.text.count("cannot be read and is missing in this run's new file: record at") == 1


def test_lineage_that_could_not_be_written_is_not_in_the_next_file(
    run: Timed, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.writer.write_lineage(TrainInfo(epoch=1))
    with monkeypatch.context() as patch:
        patch.setattr("mindsummary_lightning.fileio.replace.os.fsync", _full_disk)
        with pytest.raises(OSError, match="full"):
            run.writer.write_lineage(UserDefinedInfo({"a": 1}))
    run.writer.write_lineage(EvaluationInfo("{}"))

    assert lineage_of(run) == [TrainInfo(epoch=1), EvaluationInfo("{}")]


def _full_disk(descriptor: int) -> None:
    raise OSError(28, "disk full")


def test_a_lineage_file_that_somebody_replaced_is_read_again(run: Timed) -> None:
    run.writer.write_lineage(TrainInfo(epoch=1))
    (path,) = lineage_paths(run.directory)
    run.again().write_lineage(UserDefinedInfo({"of another process": 1}))
    path.unlink()
    lineage_paths(run.directory)[0].rename(path)
    run.writer.write_lineage(EvaluationInfo("{}"))
    assert run.writer.take_losses() == []

    assert [event.what for event in read_lineage(run.directory)][2:] == [
        TrainInfo(epoch=1),
        UserDefinedInfo({"of another process": 1}),
        EvaluationInfo("{}"),
    ]


def test_writes_of_lineage_that_are_lost_with_the_file_are_counted_once(run: Timed) -> None:
    for epoch in range(3):
        run.writer.write_lineage(TrainInfo(epoch=epoch))
    (path,) = lineage_paths(run.directory)
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    copy.replace(path)  # as a mount that numbers its files anew
    run.writer.write_lineage(EvaluationInfo("{}"))
    assert run.writer.take_losses() == []

    for path in lineage_paths(run.directory):
        path.unlink()
    run.writer.write_lineage(UserDefinedInfo({"a": 1}))
    assert run.writer.take_losses() == [MissingRecords(4, is_removed=True)]
    assert run.writer.take_losses() == []
    assert lineage_of(run) == [TrainInfo(), UserDefinedInfo({"a": 1})]
    lineage_paths(run.directory)[0].unlink()
    run.writer.write_lineage(UserDefinedInfo({"b": 1}))
    assert run.writer.take_losses() == [MissingRecords(1, is_removed=True)]


@pytest.mark.parametrize("is_forgotten", [False, True])
def test_a_new_run_takes_nothing_over_even_if_its_values_were_forgotten(
    run: Timed, is_forgotten: bool
) -> None:
    run.writer.write_lineage(TrainInfo(epoch=1), UserDefinedInfo({"old": 1}))
    run.writer.begin_file(True)
    if is_forgotten:
        run.writer.forget_content()
    run.writer.write_lineage(UserDefinedInfo({"new": 1}))
    run.writer.forget_content()
    run.writer.write_lineage(UserDefinedInfo({"newer": 1}))

    assert lineage_of(run) == [
        TrainInfo(epoch=1),
        UserDefinedInfo({"old": 1}),
        TrainInfo(),
        UserDefinedInfo({"new": 1, "newer": 1}),
    ]


# ---- sharing


@pytest.mark.parametrize("directories", [3, 70])  # 64 keep their values
def test_a_process_that_goes_round_many_directories_goes_on_in_their_files(
    tmp_path: Path, directories: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = Clock()
    monkeypatch.setattr("mindsummary_lightning.fileio.replace.os.fsync", lambda descriptor: None)
    for step in range(3):
        for number in range(directories):
            writer = shared_event_writer(str(tmp_path / str(number)), FileOptions(), user)
            writer.write_values(step, [("a", 1.0)])
            writer.write_lineage(UserDefinedInfo({f"k{step}": step}))
            writer.release(user)

    for number in range(directories):
        assert [step for step, _ in read_scalars(tmp_path / str(number), "a")] == [0, 1, 2]
        assert len(list((tmp_path / str(number)).iterdir())) == 2
        assert read_lineage(tmp_path / str(number))[1].what == UserDefinedInfo(
            {"k0": 0, "k1": 1, "k2": 2}
        )


def test_a_repeat_is_skipped_although_other_directories_were_recorded_meanwhile(
    tmp_path: Path,
) -> None:
    user = Clock()
    for _ in range(70):  # more than other tests have left
        for number in range(2):
            writer = shared_event_writer(str(tmp_path / str(number)), FileOptions(), user)
            writer.write_values(1, [("a", 1.0)])
            writer.release(user)

    assert [read_scalars(tmp_path / str(number), "a") for number in range(2)] == [[(1, 1.0)]] * 2


def test_values_of_writers_that_are_closed_are_forgotten_in_the_end(tmp_path: Path) -> None:
    user = Clock()

    def histogram() -> Histogram:
        return to_histogram(np.arange(5.0))

    alive = []
    for number in range(200):
        writer = shared_event_writer(str(tmp_path / str(number)), FileOptions(), user)
        value = histogram()
        alive.append(weakref.ref(value.counts))
        writer.write_values(1, [("a", value)])
        writer.release(user)
        del value

    assert sum(array() is not None for array in alive) <= 65


def test_other_options_begin_a_file_and_look_at_no_earlier_one_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = Clock()
    looked: list[str] = []
    monkeypatch.setattr(
        event_files, "cut_torn_tail", lambda path, is_ours: looked.append(path) or 0
    )
    for step in range(6):
        writer = shared_event_writer(str(tmp_path), FileOptions(suffix=f"_{step % 2}"), user)
        writer.write_values(step, [("a", 1.0)])
        writer.release(user)

    assert [step for step, _ in read_scalars(tmp_path, "a")] == list(range(6))
    assert [path.name[-2:] for path in summary_paths(tmp_path)] == ["_0", "_1"] * 3
    assert looked == []
