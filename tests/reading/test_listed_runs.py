from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from mindsummary_lightning.lineage.query import filter_summary_lineage
from mindsummary_lightning.values import DatasetGraph, TrainInfo
from tests.lineage.lineage_tree import write_run

TRAIN = TrainInfo(network="LeNet5")


def listed(base: Path) -> list[str]:
    return [run["summary_dir"] for run in filter_summary_lineage(base)["object"]]


def touch(path: Path, mtime: float) -> None:
    path.touch()
    os.utime(path, (mtime, mtime))


def test_the_base_directory_and_its_children_are_runs_and_nothing_deeper(tmp_path: Path) -> None:
    write_run(tmp_path, TRAIN, mtime=2)
    write_run(tmp_path / ".hidden run", TRAIN, mtime=1)
    write_run(tmp_path / "deep" / "deeper", TRAIN)

    assert listed(tmp_path) == ["./", "./.hidden run"]


def test_links_are_no_runs_and_no_files(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", TRAIN)
    (tmp_path / "linked").symlink_to(tmp_path / "run", target_is_directory=True)
    (tmp_path / "holds a link").mkdir()
    (tmp_path / "holds a link" / path.name).symlink_to(path)

    assert listed(tmp_path) == ["./run"]


def test_a_link_or_directory_with_the_name_of_a_file_does_not_count(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_run(tmp_path / "first", TRAIN, seconds=1, mtime=10)
    (tmp_path / "first" / "events.summary.9.host_MS").symlink_to(
        write_run(tmp_path / "deep" / "deeper", TRAIN)
    )
    (tmp_path / "first" / "events.summary.8.host_lineage").mkdir()
    write_run(tmp_path / "second", TRAIN, seconds=1, mtime=20)

    assert listed(tmp_path) == ["./second", "./first"]
    assert not caplog.records


def test_a_run_was_updated_when_its_newest_file_by_name_was(tmp_path: Path) -> None:
    write_run(tmp_path / "first", TRAIN, seconds=1, mtime=500)
    touch(tmp_path / "first" / "events.summary.9.host_MS", 10)
    write_run(tmp_path / "second", TRAIN, seconds=5, mtime=20)
    touch(tmp_path / "second" / "events.summary.1.host_MS", 900)

    assert listed(tmp_path) == ["./second", "./first"]


def test_of_files_of_one_second_the_one_changed_first_tells_the_update(tmp_path: Path) -> None:
    write_run(tmp_path / "first", TRAIN, seconds=5, mtime=500)
    touch(tmp_path / "first" / "events.summary.5.host_MS", 10)
    write_run(tmp_path / "second", TRAIN, seconds=5, mtime=20)

    assert listed(tmp_path) == ["./second", "./first"]


def test_a_graph_file_counts_by_its_creation(tmp_path: Path) -> None:
    write_run(tmp_path / "first", TRAIN, mtime=10)
    touch(tmp_path / "first" / "model.pb", 900)
    write_run(tmp_path / "second", TRAIN, mtime=20)
    touch(tmp_path / "second" / "memory_usage_1.pb", 990)

    assert listed(tmp_path) == ["./first", "./second"]


def test_explanation_files_do_not_count(tmp_path: Path) -> None:
    write_run(tmp_path / "first", TRAIN, seconds=5, mtime=10)
    touch(tmp_path / "first" / "events.summary.9.host_explain", 900)
    write_run(tmp_path / "second", TRAIN, seconds=5, mtime=20)

    assert listed(tmp_path) == ["./second", "./first"]


def test_fractions_of_a_second_order_runs_but_not_marks(tmp_path: Path) -> None:
    for name, milliseconds in (("a", 100), ("b", 900), ("c", 500)):
        path = write_run(tmp_path / name, DatasetGraph({"op_type": name}))
        os.utime(path, ns=(0, 10**9 + milliseconds * 10**6))

    runs = filter_summary_lineage(tmp_path)["object"]

    marked = [(run["summary_dir"], run["model_lineage"]["dataset_mark"]) for run in runs]
    assert marked == [("./b", "3"), ("./c", "4"), ("./a", "2")]


def test_a_time_in_milliseconds_hides_its_file_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # In MindInsight one such name anywhere under the base directory hides every run.
    write_run(tmp_path / "good", TRAIN)
    path = write_run(tmp_path / "bad", TRAIN)
    path.rename(path.with_name("events.summary.1700000000000000.host_lineage"))

    with caplog.at_level(logging.WARNING):
        assert listed(tmp_path) == ["./good"]

    assert "is not a time in seconds" in caplog.text


@pytest.mark.slow
def test_more_runs_than_mindinsight_lists_are_found(tmp_path: Path) -> None:
    for number in range(1_005):
        write_run(tmp_path / str(number), TRAIN)

    assert filter_summary_lineage(tmp_path, {"limit": 1})["count"] == 1_005
