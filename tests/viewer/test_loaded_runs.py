"""``LoadedRuns``: runs found, followed and forgotten."""

from __future__ import annotations

import os
import random
import shutil
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mindsummary_lightning.reading.followed_run import FollowedRun
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns, RunSummary
from tests.reading.runs import values_at, write_lineage, write_summary
from tests.support import Clock


def loaded(base: Path, **options: Any) -> tuple[LoadedRuns, Clock]:
    clock = Clock()
    return LoadedRuns(str(base), clock=clock, **options), clock


def test_runs_are_named_by_their_path_below_the_base_directory(tmp_path: Path) -> None:
    for run in (tmp_path, tmp_path / "a", tmp_path / "logs" / "net" / "version_0"):
        write_summary(run, [])
    runs, _ = loaded(tmp_path)

    assert sorted(run.train_id for run in runs.listing()) == ["./", "./a", "./logs/net/version_0"]


def test_a_run_that_grows_is_read_on(tmp_path: Path) -> None:
    path = write_summary(tmp_path / "a", [values_at(1, {"loss": 0.5})])
    runs, _ = loaded(tmp_path)
    run = runs.run("./a")
    assert run is not None
    assert run.scalars("loss").steps.tolist() == [1]

    with open(path, "ab") as file:
        file.write(values_at(2, {"loss": 0.25, "new": 1.0}))

    assert runs.run("./a") is run
    assert run.scalars("loss").values.tolist() == [0.5, 0.25]
    summary = runs.summary("./a")
    assert summary is not None
    assert summary.tags["scalar"] == ["loss/scalar", "new/scalar"]


def test_a_new_run_appears_and_a_deleted_one_vanishes_within_a_second(tmp_path: Path) -> None:
    write_summary(tmp_path / "a", [])
    runs, clock = loaded(tmp_path)
    assert [run.train_id for run in runs.listing()] == ["./a"]
    assert runs.run("./a") is not None

    write_summary(tmp_path / "b", [])
    shutil.rmtree(tmp_path / "a")
    clock.now += 1.0

    assert [run.train_id for run in runs.listing()] == ["./b"]
    assert (runs.is_loaded("./a"), runs.summary("./a")) == (False, None)  # nor does it keep memory


def test_directories_are_scanned_once_a_second(tmp_path: Path) -> None:
    runs, clock = loaded(tmp_path)
    runs.listing()
    write_summary(tmp_path / "new", [])
    clock.now += 0.9
    assert [run.train_id for run in runs.listing()] == []
    clock.now += 0.1

    assert [run.train_id for run in runs.listing()] == ["./new"]


def test_a_tree_that_takes_long_to_scan_is_scanned_less_often(tmp_path: Path) -> None:
    scans: list[float] = []

    def slow_time() -> int:
        scans.append(clock.now)
        clock.now += 3.0  # a scan takes three seconds
        return 0

    runs, clock = loaded(tmp_path, wall_clock_ns=slow_time)
    for _ in range(60):
        runs.listing()
        clock.now += 1.0

    assert len(scans) == 2


def test_directories_that_were_seen_some_time_ago_are_not_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_summary(tmp_path / "a", [])
    passed_s = 0
    runs, clock = loaded(tmp_path, wall_clock_ns=lambda: time.time_ns() + passed_s * 10**9)
    runs.listing()
    passed_s = 3
    write_summary(tmp_path / "b", [])

    runs.scan_again()

    assert {run.train_id for run in runs.listing()} == {"./a", "./b"}
    passed_s = 6
    runs.scan_again()  # "./b" was new, and is settled now
    listed: list[str] = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: (listed.append(path), scandir(path))[1])
    clock.now += 1.0
    assert {run.train_id for run in runs.listing()} == {"./a", "./b"}
    assert listed == []


def test_a_request_does_not_wait_for_the_scan_of_another_one(tmp_path: Path) -> None:
    write_summary(tmp_path / "a", [])
    seen: list[object] = []
    is_second_scan = False

    def ask_meanwhile() -> int:
        if not is_second_scan:
            return time.time_ns()
        other = threading.Thread(target=lambda: seen.append(runs.listing()))
        other.start()
        other.join(timeout=10)
        return 0

    runs, clock = loaded(tmp_path, wall_clock_ns=ask_meanwhile)
    first = runs.listing()
    clock.now += 1.0
    is_second_scan = True
    write_summary(tmp_path / "b", [])
    runs.listing()

    assert seen
    assert all(listing is first for listing in seen)


def test_a_run_deleted_since_the_last_scan_is_unknown(tmp_path: Path) -> None:
    write_summary(tmp_path / "a", [])
    runs, _ = loaded(tmp_path)
    assert runs.run("./a") is not None

    shutil.rmtree(tmp_path / "a")

    assert runs.run("./a") is None
    assert runs.summary("./a") is None


def test_no_name_of_a_request_leads_to_a_path(tmp_path: Path) -> None:
    write_summary(tmp_path / "outside", [])
    write_summary(tmp_path / "base" / "a", [])
    runs, _ = loaded(tmp_path / "base")

    for name in (
        "./../outside",
        "../outside",
        str(tmp_path / "outside"),
        "./a/.",
        "./a/",
        "a",
        "",
        "./a\0",
    ):
        assert runs.run(name) is None


def test_the_runs_viewed_least_recently_are_forgotten_and_read_again(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        write_summary(
            tmp_path / name, [values_at(step, {"loss": float(step)}) for step in range(1000)]
        )
    nbytes = _nbytes(loaded(tmp_path)[0].run("./a"))
    runs, _ = loaded(tmp_path, memory_bytes=2 * nbytes + nbytes // 2)
    first, second = runs.run("./a"), runs.run("./b")
    assert first is not None
    assert [runs.run("./a"), runs.run("./b")] == [first, second]  # there is room for two
    runs.run("./a")
    runs.run("./c")

    assert runs.run("./a") is first
    assert runs.summary("./b") is not None
    again = runs.run("./b")
    assert again is not None
    assert again is not second
    np.testing.assert_array_equal(again.scalars("loss").values, first.scalars("loss").values)


def test_small_runs_count_as_what_they_take_so_that_few_of_many_stay(tmp_path: Path) -> None:
    for number in range(120):
        write_summary(tmp_path / str(number), [values_at(1, {"loss": 0.5})])
    runs, _ = loaded(tmp_path, memory_bytes=100_000)

    for number in range(120):
        runs.run(f"./{number}")

    held = [number for number in range(120) if runs.is_loaded(f"./{number}")]
    assert held == [*range(held[0], 120)]
    assert 5 < len(held) < 50  # of about 5 kB each


def test_the_run_viewed_last_stays_however_large_it_is(tmp_path: Path) -> None:
    for name in "abc":
        write_summary(tmp_path / name, [values_at(1, {"loss": 1.0})])
    runs, _ = loaded(tmp_path, memory_bytes=1)

    for name in "abc":
        runs.run(f"./{name}")
        assert [one for one in "abc" if runs.is_loaded(f"./{one}")] == [name]


def test_a_new_run_lets_the_others_stay_in_memory(tmp_path: Path) -> None:
    write_summary(tmp_path / "a", [values_at(1, {"loss": 1.0})])
    runs, clock = loaded(tmp_path)
    first = runs.run("./a")
    write_summary(tmp_path / "b", [])
    clock.now += 1.0

    assert {run.train_id for run in runs.listing()} == {"./a", "./b"}
    assert (runs.is_loaded("./a"), runs.is_loaded("./b")) == (True, False)
    assert runs.summary("./a") is not None
    assert runs.run("./a") is first


def test_a_run_of_lineage_alone_is_told_from_the_others(tmp_path: Path) -> None:
    for name in ("lineage", "both", "graph"):
        write_lineage(tmp_path / name, [])
    write_summary(tmp_path / "both", [])
    write_summary(tmp_path / "values", [])
    (tmp_path / "graph" / "a.pb").touch()
    runs, _ = loaded(tmp_path)

    names = ("lineage", "both", "graph", "values", "none")
    assert [name for name in names if runs.has_lineage_only(f"./{name}")] == ["lineage"]
    assert runs.run_directory("./none") is None


def test_a_directory_behind_a_link_has_its_own_name(tmp_path: Path) -> None:
    write_summary(tmp_path / "runs" / "a", [])
    (tmp_path / "link").symlink_to(tmp_path / "runs")
    runs, _ = loaded(tmp_path / "link")

    assert (runs.base_dir, runs.name) == (str(tmp_path / "runs"), "runs")
    assert [run.path for run in runs.listing()] == [str(tmp_path / "runs" / "a")]


def test_kept_tags_count_as_about_what_they_take() -> None:
    tags = {"scalar": [f"{at:0100d}" for at in range(70)], "image": [f"{at}" for at in range(5)]}
    taken = sum(sys.getsizeof(tag) for names in tags.values() for tag in names)

    assert taken < RunSummary(tags, True).nbytes < 1.2 * taken + 500
    assert 100 < RunSummary({"scalar": []}, True).nbytes < 500


def _nbytes(run: FollowedRun | None) -> int:
    assert run is not None
    assert run.nbytes > 10_000
    return run.nbytes


def test_run_directories_hold_a_state_of_the_lineage_files_that_is_at_most_a_second_old(
    tmp_path: Path,
) -> None:
    from mindsummary_lightning.values import TrainInfo

    path = write_lineage(tmp_path / "logs" / "version_0", [TrainInfo(network="LeNet")])
    write_summary(tmp_path / "plain", [])
    runs, clock = loaded(tmp_path)
    (directory,) = runs.run_directories()
    ((size, _, _),) = directory.files.values()

    path.write_bytes(path.read_bytes() * 2)

    assert runs.run_directories() is runs.run_directories()
    found = runs.run_directory("./logs/version_0")
    assert found is not None
    assert [state[0] for state in found.files.values()] == [2 * size]
    clock.now += 1.0
    assert directory.summary_dir == "./logs/version_0"
    assert [state[0] for state in runs.run_directories()[0].files.values()] == [2 * size]


@pytest.mark.slow
def test_many_threads_see_a_growing_run_while_memory_is_short(tmp_path: Path) -> None:
    paths = [
        write_summary(tmp_path / name, [values_at(0, {"loss": 0.0})]) for name in ("a", "b", "c")
    ]
    runs = LoadedRuns(str(tmp_path), memory_bytes=2_000)
    problems: list[BaseException] = []

    def look(seed: int) -> None:
        chance = random.Random(seed)
        try:
            for _ in range(150):
                name = chance.choice(("./a", "./b", "./c"))
                run = runs.run(name)
                assert run is not None
                steps = run.scalars("loss").steps
                assert steps.tolist() == list(range(len(steps)))
                assert runs.summary(name) is not None
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=look, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for step in range(1, 100):
        for path in paths:
            with open(path, "ab") as file:
                file.write(values_at(step, {"loss": 0.0}))
    for thread in threads:
        thread.join()

    assert problems == []
    final = runs.run("./a")
    assert final is not None
    assert len(final.scalars("loss")) == 100


@pytest.mark.slow
def test_tags_of_forgotten_runs_are_forgotten_too_before_they_take_100_mb(tmp_path: Path) -> None:
    path = write_summary(
        tmp_path / "0", [values_at(1, {f"{number:0500d}": 0.5 for number in range(15_000)})]
    )
    for number in range(1, 10):
        shutil.copytree(Path(path).parent, tmp_path / str(number))
    runs, _ = loaded(tmp_path, memory_bytes=1)

    for number in range(10):
        runs.run(f"./{number}")

    known = [number for number in range(10) if runs.summary(f"./{number}") is not None]
    assert known == [*range(known[0], 10)]
    assert 6 <= len(known) <= 9
