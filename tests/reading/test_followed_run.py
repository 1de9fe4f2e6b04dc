"""``FollowedRun`` reads on where it stopped, and holds at any time what ``SummaryReader`` reads
from the start.
"""

from __future__ import annotations

import errno
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mindsummary_lightning import SummaryReader
from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileformat._proto import anf_ir_pb2
from mindsummary_lightning.fileformat.framing import frame
from mindsummary_lightning.fileformat.graph_codec import encode_graph
from mindsummary_lightning.fileio.scan import RecordScanner
from mindsummary_lightning.reading import followed_file
from mindsummary_lightning.reading.decode import OpenFiles, read_graph, read_value
from mindsummary_lightning.reading.followed_file import SAMPLE, Location
from mindsummary_lightning.reading.followed_run import FollowedRun
from mindsummary_lightning.values import Graph, GraphNode, Image, Tensor
from mindsummary_lightning.values.events import Event
from tests.reading.runs import histogram, record, values_at, write_mindspore_run, write_summary
from tests.support import append_bytes, memory_below


def followed(run: Path) -> FollowedRun:
    found = FollowedRun(str(run))
    found.refresh()
    return found


def assert_same(found: FollowedRun, run: Path) -> None:
    reader = SummaryReader(run)
    assert found.tags() == reader.tags()
    for tag, series in reader.all_scalars().items():
        mine = found.scalars(tag)
        np.testing.assert_array_equal(mine.steps, series.steps)
        np.testing.assert_array_equal(mine.values, series.values)
        np.testing.assert_array_equal(mine.wall_times, series.wall_times)
    for tag in reader.tags()["histogram"]:
        expected = [
            (step, wall_time, value.counts.tolist())
            for step, wall_time, value in reader.histograms(tag)
        ]
        mine_too = [
            (sample.step, sample.wall_time, read_value(sample.location).counts.tolist())  # type: ignore[union-attr]
            for sample in found.samples("histogram", tag)
        ]
        assert mine_too == expected


def test_the_points_of_a_resumed_run_keep_their_own_times(tmp_path: Path) -> None:
    for second, steps in ((1, (1, 2, 3, 4)), (2, (3, 5))):
        records = [values_at(step, {"loss": 10.0 * second + step}, 100.0 * second + step)
                   for step in steps]  # fmt: skip
        write_summary(tmp_path, records, second)

    series = followed(tmp_path).scalars("loss")

    assert series.steps.tolist() == [1, 2, 3, 5]
    assert series.values.tolist() == [11.0, 12.0, 23.0, 25.0]
    assert series.wall_times.tolist() == [101.0, 102.0, 203.0, 205.0]


def test_a_run_of_mindspore_is_read_as_the_reader_reads_it(tmp_path: Path) -> None:
    write_mindspore_run(tmp_path)

    assert_same(followed(tmp_path), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_a_run_that_grows_byte_by_byte_over_files_is_always_the_run_that_is_there(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    found = FollowedRun(str(tmp_path))
    for second in sorted(chance.sample(range(995, 1010), 3)):
        path = write_summary(tmp_path, [], second)
        content = b"".join(
            values_at(
                chance.randrange(2 ** chance.choice((3, 40))),
                {
                    tag: histogram(*chance.choices(range(9), k=3))
                    if tag == "h"
                    else chance.random()
                    for tag in chance.sample(["a", "b", "c", "h"], chance.randrange(1, 4))
                },
            )
            for _ in range(60)
        )
        while content:
            cut = min(chance.choice((1, 7, 300, 2000)), len(content))
            with open(path, "ab") as file:
                file.write(content[:cut])
            content = content[cut:]
            found.refresh()
            if chance.random() < 0.3:
                assert_same(found, tmp_path)
    assert_same(found, tmp_path)


@pytest.mark.parametrize("seed", range(4))
def test_the_last_sample_of_each_step_counts_whatever_other_tags_its_record_has(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    shapes = ["a", "ab", "bc", "ah", "h", "abch"]
    found = FollowedRun(str(tmp_path))
    expected: dict[str, dict[int, tuple[float, object]]] = {tag: {} for tag in "abch"}
    for second, least in ((100, 0), (900, 10)):
        path = write_summary(tmp_path, [], second)
        newer: dict[str, dict[int, tuple[float, object]]] = {tag: {} for tag in "abch"}
        for number in range(60):
            step, tags = chance.randrange(least, 30), chance.choice(shapes)
            time_s = 10.0 * second + number
            values = {tag: histogram(number, 1) if tag == "h" else 1.0 * number for tag in tags}
            append_bytes(path, values_at(step, values, time_s))
            for tag in tags:
                newer[tag][step] = time_s, [number, 1] if tag == "h" else 1.0 * number
            if chance.random() < 0.2:
                found.refresh()
        for tag, samples in newer.items():
            # what the older file has from the first step of the later one on is dropped
            kept = {step: old for step, old in expected[tag].items() if step < min(samples)}
            expected[tag] = dict(sorted({**kept, **samples}.items()))
    found.refresh()

    for run in (found, followed(tmp_path)):
        for tag in "abc":
            series = run.scalars(tag)
            columns = (column.tolist() for column in (series.wall_times, series.values))
            read = zip(series.steps.tolist(), zip(*columns, strict=True), strict=True)
            assert list(read) == list(expected[tag].items())
            assert sum(map(len, run.scalar_parts(tag, size=7))) == len(series)
        histograms = []
        for one in run.samples("histogram", "h"):
            counts = read_value(one.location).counts.tolist()  # type: ignore[union-attr]
            histograms.append((one.step, (one.wall_time, counts)))
        assert histograms == list(expected["h"].items())


@pytest.mark.parametrize("extreme", [2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**63 - 1, -(2**63)])
def test_steps_at_the_limits_of_whole_numbers_are_kept(tmp_path: Path, extreme: int) -> None:
    steps = sorted((0, extreme, extreme - 1 if extreme > 0 else extreme + 1))
    alone = [values_at(step, {"x": 1.0}) for step in steps]
    beside = [values_at(step, {"y": 1.0, "h": histogram(1)}) for step in steps]
    write_summary(tmp_path, [*alone, *beside])
    run = followed(tmp_path)

    assert run.scalars("x").steps.tolist() == run.scalars("y").steps.tolist() == steps
    assert [sample.step for sample in run.samples("histogram", "h")] == steps


@pytest.mark.parametrize(
    ("steps_of_files", "kept"),
    [
        ([(1, 3, 2), (5, 6)], [1, 2, 3, 5, 6]),
        ([(1, 2), (5, 7, 6)], [1, 2, 5, 6, 7]),
        ([(1, 2), (5, 6), (3, 4)], [1, 2, 3, 4]),
        ([(3, 4), (1, 2), (5, 6)], [1, 2, 5, 6]),
        ([(1, 2), (2, 3)], [1, 2, 3]),
        ([(1, 2), (3, 3)], [1, 2, 3]),
    ],
)
def test_steps_ascend_in_whatever_order_files_hold_them(
    tmp_path: Path, steps_of_files: list[tuple[int, ...]], kept: list[int]
) -> None:
    for second, steps in enumerate(steps_of_files, 100):
        records = [values_at(step, {"x": step / 4, "h": histogram(step)}) for step in steps]
        write_summary(tmp_path, records, second)
    run = followed(tmp_path)

    assert run.scalars("x").steps.tolist() == kept
    assert run.scalars("x").values.tolist() == [step / 4 for step in kept]
    assert [sample.step for sample in run.samples("histogram", "h")] == kept


def test_a_run_without_files_has_no_news_until_it_has_one(tmp_path: Path) -> None:
    run = FollowedRun(str(tmp_path))
    assert run.is_complete
    assert not run.refresh()
    assert (run.state, run.is_complete, run.graphs(), run.time_spans()) == (None, True, [], [])

    write_summary(tmp_path, [values_at(1, {"x": 1.0}), values_at(4, {"x": 2.0})])
    assert run.refresh()
    state = run.state
    assert state is not None
    assert not run.refresh()
    assert run.state is state
    assert run.time_spans() == [(1700000001.0, 1700000004.0)]


def test_nothing_is_read_twice(tmp_path: Path) -> None:
    path = write_summary(tmp_path, [values_at(1, {"x": 1.0})])
    found = followed(tmp_path)
    assert not found.refresh()

    with open(path, "r+b") as file:
        file.write(b"\0" * 50)  # what has been read is not looked at again
        file.seek(0, os.SEEK_END)
        file.write(values_at(2, {"x": 2.0}))

    assert found.refresh()
    assert found.scalars("x").steps.tolist() == [1, 2]


def test_a_file_that_grows_many_times_keeps_every_sample(tmp_path: Path) -> None:
    before_zero = [*range(-(2**40), 20 - 2**40)]
    path = write_summary(
        tmp_path, [values_at(step, {"x": float(step), "y": 1.0}) for step in before_zero]
    )
    found = followed(tmp_path)
    steps = [*before_zero, *range(20), *range(2**40, 2**40 + 20)]
    for step in steps[20:]:
        with open(path, "ab") as file:
            file.write(values_at(step, {"x": float(step), "y": 1.0}))
        found.refresh()

    assert found.scalars("x").steps.tolist() == steps
    assert found.scalars("x").values.tolist() == [float(np.float32(step)) for step in steps]
    before = found.nbytes
    with open(path, "ab") as file:
        file.writelines(values_at(2**40 + 20 + step, {"x": 1.0, "y": 1.0}) for step in range(1000))
    found.refresh()
    assert found.nbytes - before < 40 * 1000


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="a system without devices")
def test_a_value_whose_file_has_become_a_device_is_not_read_from_it(tmp_path: Path) -> None:
    path = write_summary(tmp_path, [values_at(1, {"h": histogram(1)})])
    (sample,) = followed(tmp_path).samples("histogram", "h")

    path.unlink()
    path.symlink_to("/dev/zero")

    with pytest.raises(OSError, match="not a regular file"):
        read_value(sample.location)


def test_a_file_that_was_replaced_by_one_of_the_same_size_is_read_again(tmp_path: Path) -> None:
    path = write_summary(tmp_path, [values_at(1, {"x": 1.0})])
    found = followed(tmp_path)

    other = write_summary(tmp_path / "other", [values_at(1, {"y": 1.0})])
    os.utime(other, ns=(path.stat().st_mtime_ns, path.stat().st_mtime_ns))
    other.replace(path)
    found.refresh()

    assert found.tags()["scalar"] == ["y"]


def test_a_file_that_was_deleted_takes_its_values_with_it(tmp_path: Path) -> None:
    write_summary(tmp_path, [values_at(1, {"x": 1.0})], 100)
    write_summary(tmp_path, [values_at(2, {"x": 2.0})], 200).unlink()
    path = write_summary(tmp_path, [values_at(2, {"x": 2.0})], 200)
    found = followed(tmp_path)
    assert len(found.scalars("x")) == 2

    path.unlink()
    found.refresh()

    assert found.scalars("x").steps.tolist() == [1]


def test_a_damaged_record_costs_itself_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    records = [values_at(step, {"x": float(step)}) for step in range(5)]
    records[2] = records[2][:-1] + bytes([records[2][-1] ^ 1])
    records[3] = b"".join(frame([b"\x0a\xff\xff"]))
    write_summary(tmp_path, records)

    found = followed(tmp_path)

    assert found.scalars("x").steps.tolist() == [0, 1, 4]
    assert not found.is_complete
    assert len(caplog.records) == 2


def test_what_was_read_before_a_disk_failed_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class FailingScanner(RecordScanner):
        delivers = True

        def batches(self) -> Iterator[list[bytes]]:
            if self.delivers:
                yield from super().batches()
            raise OSError(errno.EIO, os.strerror(errno.EIO), self.path)

    path = write_summary(tmp_path, [values_at(1, {"x": 1.0})])
    found = followed(tmp_path)
    with open(path, "ab") as file:
        file.write(values_at(1, {"y": 2.0}))
    monkeypatch.setattr(followed_file, "RecordScanner", FailingScanner)

    assert found.refresh()
    assert found.tags()["scalar"] == ["x", "y"]
    other = followed(tmp_path)
    FailingScanner.delivers = False
    with open(path, "ab") as file:
        file.write(values_at(1, {"z": 2.0}))
    assert not found.refresh()
    monkeypatch.undo()
    assert found.refresh()  # it is tried again
    assert found.tags()["scalar"] == ["x", "y", "z"]
    path.unlink()
    assert other.refresh()
    assert other.tags()["scalar"] == []


def test_of_several_files_the_one_that_could_not_be_read_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = write_summary(tmp_path, [values_at(1, {"x": 1.0})], 100)
    write_summary(tmp_path, [values_at(2, {"y": 2.0})], 200)
    run = FollowedRun(str(tmp_path))

    class Refusing(RecordScanner):
        def batches(self) -> Iterator[list[bytes]]:
            if self.path == str(refused):
                raise OSError(errno.EACCES, os.strerror(errno.EACCES), self.path)
            yield from super().batches()

    with monkeypatch.context() as patch:
        patch.setattr(followed_file, "RecordScanner", Refusing)
        assert run.refresh()
        assert run.tags()["scalar"] == ["y"]

    assert run.refresh()
    assert run.tags()["scalar"] == ["x", "y"]


def test_an_incomplete_last_record_is_read_once_it_is_complete(tmp_path: Path) -> None:
    last = values_at(2, {"x": 2.0})
    path = write_summary(tmp_path, [values_at(1, {"x": 1.0}), last[:-3]])
    found = followed(tmp_path)
    assert (found.scalars("x").steps.tolist(), found.is_complete) == ([1], False)

    for part, is_news in ((last[-3:-1], False), (last[-1:], True)):
        with open(path, "ab") as file:
            file.write(part)
        assert found.refresh() is is_news

    assert (found.scalars("x").steps.tolist(), found.is_complete) == ([1, 2], True)


def test_an_interrupted_file_is_whole_again_with_the_one_that_resumes_it(tmp_path: Path) -> None:
    write_summary(tmp_path, [values_at(1, {"x": 1.0})[:-3]], 100)
    write_summary(tmp_path, [values_at(1, {"x": 2.0})], 200)
    (tmp_path / "events.out.events.summary.300.0.h_MS").touch()

    assert followed(tmp_path).is_complete
    torn = write_summary(tmp_path, [values_at(2, {"x": 2.0})[:-3]], 250)
    for size in (torn.stat().st_size, 5):
        os.truncate(torn, size)
        assert not followed(tmp_path).is_complete


def test_samples_are_located_with_their_size_and_read_from_the_file(tmp_path: Path) -> None:
    values = {"i": Image(3, 7, b"png"), "t": Tensor(np.arange(3)), "x": 1.0}
    write_summary(tmp_path, [values_at(step, values) for step in range(4)])
    found = followed(tmp_path)

    (newest,) = found.samples("image", "i", lambda steps: np.flatnonzero(steps == 3))

    assert (newest.step, newest.width, newest.height) == (3, 7, 3)
    assert read_value(newest.location) == Image(3, 7, b"png")
    assert len(found.samples("tensor", "t")) == 4
    assert found.scalars("x").steps.tolist() == [0, 1, 2, 3]
    for kind, tag in (("image", "t"), ("histogram", "i"), ("scalar", "nothing")):
        with pytest.raises(LookupError):
            found.samples(kind, tag)


def test_the_newest_graph_of_the_events_and_every_saved_graph_are_found(tmp_path: Path) -> None:
    for second in (100, 200):
        write_summary(
            tmp_path, [record(Event(float(second), 0, Graph((GraphNode("1", "ReLU"),))))], second
        )
    (tmp_path / "empty.pb").touch()
    found = followed(tmp_path)
    (newest,) = found.graphs()
    assert read_graph(newest)[0].nodes == (GraphNode("1", "ReLU"),)
    for name in ("b.pb", "a.pb"):
        (tmp_path / name).write_bytes(b"model")
        os.utime(tmp_path / name, (1, 1))

    assert found.refresh()
    graphs = found.graphs()

    assert [(graph.name, graph.is_model) for graph in graphs] == [
        ("events.out.events.summary.200.0.h_MS", False),
        ("a.pb", True),
        ("b.pb", True),
    ]


def test_a_saved_graph_and_one_of_an_event_are_read_as_they_were_written(tmp_path: Path) -> None:
    recorded, saved = (Graph((GraphNode("1", kind),)) for kind in ("ReLU", "Conv2D"))
    write_summary(tmp_path, [record(Event(1.0, 0, recorded))])
    model = anf_ir_pb2.ModelProto()
    model.graph.MergeFromString(encode_graph(saved))
    (tmp_path / "saved.pb").write_bytes(model.SerializeToString())

    read = [read_graph(graph)[0] for graph in followed(tmp_path).graphs()]

    assert [graph.nodes for graph in read] == [recorded.nodes, saved.nodes]


def test_a_file_rewritten_in_place_at_the_same_size_shows_its_new_values(tmp_path: Path) -> None:
    path = write_summary(tmp_path, [values_at(1, {"x": 1.0, "h": histogram(1, 2)})])
    reader, watched = SummaryReader(tmp_path), followed(tmp_path)
    location = watched.samples("histogram", "h")[0].location
    before = path.stat()
    assert reader.scalars("x").values.tolist() == [1.0]
    assert watched.cached(location, lambda: read_value(location)).counts.tolist() == [1, 2]  # type: ignore[union-attr]

    write_summary(tmp_path, [values_at(1, {"x": 2.0, "h": histogram(3, 4)})])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert (path.stat().st_size, path.stat().st_ino) == (before.st_size, before.st_ino)

    assert watched.refresh()
    assert reader.scalars("x").values.tolist() == watched.scalars("x").values.tolist() == [2.0]
    assert watched.cached(location, lambda: read_value(location)).counts.tolist() == [3, 4]  # type: ignore[union-attr]
    assert [value.counts.tolist() for _, _, value in reader.histograms("h")] == [[3, 4]]
    for key in range(4):
        watched.cached(key, lambda: np.zeros(1 << 12))
    assert watched.cached(0, lambda: None) is not None

    os.truncate(path, 0)  # and a shorter one by a clock that has not gone on
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert watched.refresh()
    assert watched.tags()["scalar"] == []


def test_a_file_rewritten_in_place_and_longer_shows_its_new_values_alone(tmp_path: Path) -> None:
    path = write_summary(tmp_path, [values_at(step, {"loss": 1.0}) for step in range(5)])
    found, reader = followed(tmp_path), SummaryReader(tmp_path)
    assert len(reader.scalars("loss")) == 5
    inode = path.stat().st_ino

    write_summary(tmp_path, [values_at(step, {"longer/tag": 2.0}) for step in range(9)])
    found.refresh()

    assert path.stat().st_ino == inode
    assert found.tags() == reader.tags()
    assert (found.tags()["scalar"], len(found.scalars("longer/tag"))) == (["longer/tag"], 9)


def test_a_file_of_damaged_records_is_given_up_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed_file, "MAX_DAMAGES", 3)
    good = [values_at(step, {"x": float(step)}) for step in range(10)]
    spoilt = [one if step % 2 else one[:-1] + bytes([one[-1] ^ 1]) for step, one in enumerate(good)]
    path = write_summary(tmp_path, spoilt)
    found = followed(tmp_path)

    with open(path, "ab") as file:
        file.write(values_at(10, {"x": 10.0}))
    found.refresh()

    assert (found.scalars("x").steps.tolist(), found.is_complete) == ([1, 3], False)
    assert len(caplog.records) == 1


def test_results_are_cached_for_a_limited_number_of_keys(tmp_path: Path) -> None:
    found = followed(tmp_path)
    for key in range(5000):
        found.cached(key, lambda: "first")

    assert found.cached(4999, lambda: "second") == "first"
    assert found.cached(0, lambda: "second") == "second"
    for number in range(20):
        found.cached("again", lambda: np.zeros(1 << 18), number)
    assert found.cached(0, lambda: "third") == "second"
    for number in range(20):
        found.cached(("large", number), lambda: np.zeros(1 << 18))
    assert found.nbytes < 1 << 25


def test_a_run_behind_a_torn_record_is_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    torn = values_at(2, {"t": Tensor(np.zeros(1000, np.float32))})[:900]
    rest = [values_at(step, {"x": float(step)}) for step in range(3, 60)]
    write_summary(tmp_path, [values_at(1, {"x": 1.0}), torn, *rest])

    watched = followed(tmp_path)

    assert watched.scalars("x").steps.tolist() == [1, *range(3, 60)]
    assert not watched.is_complete
    assert "complete records follow" in caplog.text
    for read in (SummaryReader(tmp_path).tags, lambda: list(SummaryReader(tmp_path).events())):
        with pytest.raises(DamagedFileError, match="complete records follow"):
            read()


def test_bytes_that_arrive_late_are_no_damage(tmp_path: Path) -> None:
    last = values_at(2, {"x": 2.0})
    path = write_summary(tmp_path, [values_at(1, {"x": 1.0}), last[:20] + bytes(len(last) - 20)])
    found = followed(tmp_path)
    assert (found.scalars("x").steps.tolist(), found.is_complete) == ([1], False)

    content = path.read_bytes()[: -len(last)] + last + values_at(3, {"x": 3.0})
    with open(path, "r+b") as file:
        file.write(content)
    found.refresh()

    assert (found.scalars("x").steps.tolist(), found.is_complete) == ([1, 2, 3], True)


def test_links_are_not_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    outside = write_summary(tmp_path / "outside", [values_at(1, {"x": 1.0})])
    run = tmp_path / "run"
    write_summary(run, [], 100)
    (run / "events.summary.200.h_MS").symlink_to(outside)
    (run / "linked.pb").symlink_to(outside)
    (run / "last.ckpt").symlink_to(outside)  # which is none of the run's files

    found = followed(run)

    assert (found.tags()["scalar"], found.graphs()) == ([], [])
    assert {one.getMessage().partition(" is a symbolic link")[0] for one in caplog.records} == {
        str(run / "events.summary.200.h_MS"),
        str(run / "linked.pb"),
    }


def test_a_run_that_vanished_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FollowedRun(str(tmp_path / "nothing")).refresh()


def test_what_a_run_takes_grows_with_its_samples_of_every_kind(tmp_path: Path) -> None:
    values = {"i": Image(3, 7, b"png"), "t": Tensor(np.arange(3)), "h": histogram(1), "x": 1.0}
    path = write_summary(tmp_path, [values_at(0, values)])
    found = followed(tmp_path)
    before = found.nbytes

    with open(path, "ab") as file:
        file.writelines(values_at(step, values) for step in range(1, 101))
    found.refresh()

    # three rows of 92 bytes, and a scalar of 28
    assert found.nbytes - before == 100 * (3 * SAMPLE.itemsize + 28)


def test_what_a_run_takes_grows_with_its_tags_and_with_what_is_cached(tmp_path: Path) -> None:
    few, many = ({f"i{tag}": Image(3, 7, b"png") for tag in range(tags)} for tags in (1, 101))
    write_summary(tmp_path / "few", [values_at(0, few)])
    write_summary(tmp_path / "many", [values_at(0, many)])
    run = followed(tmp_path / "many")

    # a tag takes more than a row of its samples
    assert run.nbytes - followed(tmp_path / "few").nbytes > 100 * 3 * SAMPLE.itemsize
    before = run.nbytes
    run.cached("numbers", lambda: np.zeros(1000))
    assert 8000 <= run.nbytes - before < 10_000


def test_no_more_files_are_open_at_a_time_than_allowed(tmp_path: Path) -> None:
    paths = [tmp_path / str(number) for number in range(70)]
    for number, path in enumerate(paths):
        path.write_bytes(b"head" + str(number).encode())
    descriptors = Path("/proc/self/fd")
    is_counted = descriptors.is_dir()
    before = len(os.listdir(descriptors)) if is_counted else 0

    with OpenFiles() as files:
        for path in [*paths, *paths[:3], paths[69]]:
            location = Location(str(path), 4, path.stat().st_size, 0)
            assert files.decoded(location, bytes) == path.name.encode()
        is_open = len(os.listdir(descriptors)) - before if is_counted else 64
        paths[69].unlink()  # an open file is not opened again
        assert files.decoded(Location(str(paths[69]), 0, 4, 0), bytes) == b"head"

    assert is_open == 64
    assert not is_counted or len(os.listdir(descriptors)) == before


def test_a_million_scalars_take_twenty_megabytes_at_most(tmp_path: Path) -> None:
    content = b"".join(values_at(step, {"x": 1.0}) for step in range(20_000))
    write_summary(tmp_path, [content])

    assert followed(tmp_path).nbytes <= 20 * 20_000


@pytest.mark.slow
def test_all_curves_of_a_run_with_many_tags_are_read_in_a_time_that_their_number_gives(
    tmp_path: Path,
) -> None:
    tags = {f"tag{number}": float(number) for number in range(3000)}
    write_summary(tmp_path, [values_at(step, tags) for step in (1, 2)])
    run = followed(tmp_path)

    began = time.process_time()
    last = [run.scalars(tag).values[-1] for tag in tags]

    assert last == list(tags.values())
    # 0.1 s; a search among all tags for each of them took 7 s
    assert time.process_time() - began < 2


def test_a_first_step_whose_record_is_unlike_the_others_costs_no_second_copy(
    tmp_path: Path,
) -> None:
    # step 0 is not written
    write_summary(tmp_path, [values_at(step, {"loss": 0.5}) for step in range(60_000)])
    run = followed(tmp_path)

    with memory_below(60_000 * 24):
        first, *others = run.scalar_parts("loss", size=1000)

    assert (first.steps[0], sum(map(len, others))) == (0, 59_999)
