"""Rows 7, 8, 10, 13, 16 and 19: forks, other processes, other threads, and what recording costs."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from mindsummary_lightning import SummaryRecord
from tests.faults.processes import run_training_victim, run_victim
from tests.support import read_scalars, read_values, summary_paths

pytestmark = [pytest.mark.faults, pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")]

Times = Callable[[int, int], int]
Figure = Callable[[int, str], None]
needs_proc = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


@pytest.mark.slow
@needs_proc
def test_children_forked_while_a_thread_logs_neither_hang_nor_write(
    tmp_path: Path, times: Times, figure: Figure
) -> None:
    forks = times(20, 200)
    done = run_victim("fork_while_logging", tmp_path, forks)
    assert not done.returncode, done.stderr
    told = json.loads(done.stdout)

    assert (told["hung"], told["wrote"]) == (0, 0)
    assert read_values(tmp_path) == [
        (step, "loss", float(step)) for step in range(told["steps"] + 1)
    ]
    assert len(summary_paths(tmp_path)) == 1
    # once in each child
    assert done.stderr.count("was forked from the one that records the run") == forks
    figure(
        7,
        (
            f"{forks} forks while a thread logs: 0 hang, 0 write, parent's {told['steps']} steps "
            "all there"
        ),
    )


@pytest.mark.slow
def test_a_spawned_process_opens_nothing_until_it_records(tmp_path: Path, figure: Figure) -> None:
    done = run_victim("spawn", tmp_path)

    assert (done.returncode, done.stdout.split()) == (0, ["1", "2"]), done.stderr
    assert read_scalars(tmp_path, "parent") + read_scalars(tmp_path, "child") == [
        (0, 1.0),
        (0, 1.0),
    ]
    figure(
        8,
        (
            "spawn, pickle, deepcopy, before and after the first record: opens nothing until it "
            "records"
        ),
    )


@pytest.mark.slow
def test_writers_that_start_in_one_second_lose_nothing(tmp_path: Path, figure: Figure) -> None:
    done = run_victim("start_together", tmp_path, 50)
    assert not done.returncode, done.stderr

    assert len(summary_paths(tmp_path)) == 50
    for number in range(50):
        assert read_scalars(tmp_path, f"writer {number}") == [
            (step, float(step)) for step in range(20)
        ]
    figure(10, "50 writers of one directory in one second: 50 files, 0 of 1,000 records lost")


@pytest.mark.slow
@needs_proc
def test_recording_much_grows_nothing(tmp_path: Path, is_full: bool, figure: Figure) -> None:
    arguments = (1_000_000, 10_000, 500, 20) if is_full else (50_000, 300, 500, 1)
    done = run_victim("measure", tmp_path, *arguments)
    assert not done.returncode, done.stderr
    cost = json.loads(done.stdout)

    assert cost["growth"] < 1.1
    assert cost["opened"] <= 2
    assert cost["threads"] == 0
    # Not the processor time: a busy machine charges even a process that sleeps with some now and
    # then.
    assert cost["wakes"] <= 1
    figure(
        13,
        (
            f"{arguments[0]:,} scalars and {arguments[1]:,} histograms: resident memory x "
            f"{cost['growth']:.3f}"
        ),
    )
    figure(
        16,
        f"{arguments[2]} tags: {cost['opened']} descriptor, {cost['threads']} threads, 0 processes",
    )
    figure(
        19,
        (
            f"idle for {arguments[3]} s: woken {cost['wakes']} times, {cost['idle'] * 100:.4f} % "
            "of a core"
        ),
    )


@pytest.mark.slow
def test_threads_that_log_at_once_lose_nothing(tmp_path: Path) -> None:
    record = SummaryRecord(tmp_path)

    def log(name: str) -> None:
        for step in range(500):
            record.add_scalar(name, float(step), step)

    threads = [threading.Thread(target=log, args=(str(number),)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    for number in range(8):
        assert read_scalars(tmp_path, str(number)) == [(step, float(step)) for step in range(500)]


@pytest.mark.parametrize(
    "host", ["a/../b", "主机", "x" * 300, "", "new\nline", "summary.99", "nul\0"]
)
def test_an_odd_host_name_makes_an_ordinary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    SummaryRecord(tmp_path / "run").add_scalar("a", 1.0)

    assert os.listdir(tmp_path) == ["run"]
    assert read_scalars(tmp_path / "run", "a") == [(0, 1.0)]


@pytest.mark.slow
@pytest.mark.timeout(600)  # six spawned workers import torch
@pytest.mark.parametrize("way", ["fork", pytest.param("spawn", marks=pytest.mark.long)])
def test_workers_that_hold_all_that_records_lose_nothing_and_write_nothing_twice(
    tmp_path: Path, figure: Figure, way: str
) -> None:
    pytest.importorskip("lightning")
    places = ["processes", "loader", "training"]
    done = run_training_victim("inherit", tmp_path, way, *places)
    assert not done.returncode, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    said = {part.split("\n")[0]: part for part in done.stderr.split("== ")[1:]}

    assert len(told) == len(places)
    for case, found in told.items():
        run = tmp_path / case
        values = [(step, tag) for step, tag, _ in read_values(run)]
        of_worker = {
            name: sorted(step for step, tag in values if tag == f"of the {name}")
            for name in ("logger", "record")
        }

        assert [step for step, tag in values if tag == "loss"] == list(range(6))
        assert len(values) == len(set(values))
        assert found["read"] == [5] * 8, case  # the reader works in the workers
        if way == "fork":  # refused
            assert (len(summary_paths(run)), found["written"]) == (1, 0), case
            assert of_worker == {"logger": [], "record": []}
        else:  # a copy has a file of its own once it logs; the worker that does not log has none
            assert (len(summary_paths(run)), found["written"]) == (2, 4), case
            assert of_worker == {"logger": [1, 3, 5, 7], "record": [1, 3, 5, 7]}
        assert said[case].count("was forked from the one that records the run") == (
            way == "fork"
        ), said[case]
        assert "Traceback" not in said[case]
        if "training" in case:
            assert sorted(step for step, tag in values if tag == "of the step") == list(range(8))
    figure(
        7,
        (
            f"{way}: workers of {len(places)} kinds that hold logger, record, collector and "
            "reader: 0 lost, 0 twice"
        ),
    )
