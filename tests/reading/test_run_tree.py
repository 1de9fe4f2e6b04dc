from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from mindsummary_lightning.cli import runs
from mindsummary_lightning.fileformat.file_names import MAX_TIMESTAMP
from mindsummary_lightning.reading import run_tree
from mindsummary_lightning.reading.run_tree import (
    ListedRun,
    RunTree,
    find_run_directories,
    list_train_jobs,
    with_lineage_files,
)
from tests.cli.command import mindsummary
from tests.reading.runs import values_at, write_lineage, write_summary
from tests.support import skip_without_packages

LONG_AGO = 1_600_000_000


def train_ids(runs: list[ListedRun]) -> list[str]:
    return sorted(run.train_id for run in runs)


def age(*paths: Path) -> None:
    for path in paths:
        os.utime(path, (LONG_AGO, LONG_AGO))


def test_runs_of_every_layout_are_found(tmp_path: Path) -> None:
    for run in ("a", "lightning_logs/version_0", "outputs/2026-01-01/12-00-00/logs/net/version_3"):
        write_summary(tmp_path / run, [])
    write_lineage(tmp_path / "lineage only", [])
    (tmp_path / "empty").mkdir()

    assert train_ids(RunTree(str(tmp_path / "a")).scan()) == ["./"]
    assert RunTree(str(tmp_path / "nothing")).scan() == []
    assert train_ids(RunTree(str(tmp_path)).scan()) == [
        *("./a", "./lightning_logs/version_0", "./lineage only"),
        "./outputs/2026-01-01/12-00-00/logs/net/version_3",
    ]


def test_a_name_that_is_not_utf8_is_one_that_addresses_can_hold(tmp_path: Path) -> None:
    write_summary(tmp_path / os.fsdecode(b"\xff \xc3\xa4"), [])

    (run,) = RunTree(str(tmp_path)).scan()

    # a locale whose file names are ASCII has no name for it either
    umlaut = os.fsdecode("ä".encode()).encode(errors="backslashreplace").decode()
    assert run.train_id == rf"./\udcff {umlaut}"
    assert os.path.isdir(run.path)


def test_a_saved_graph_alone_is_a_run_only_where_mindinsight_looks(tmp_path: Path) -> None:
    for directory in (tmp_path, tmp_path / "a", tmp_path / "a" / "saved_model"):
        directory.mkdir(exist_ok=True)
        (directory / "model.pb").touch()
        (directory / "memory_usage_1.pb").touch()
    runs = RunTree(str(tmp_path)).scan()

    assert train_ids(runs) == ["./", "./a"]
    assert [run.graph_files for run in runs] == [1, 1]


def test_the_newest_time_in_a_name_decides_which_file_dates_the_run(tmp_path: Path) -> None:
    for second, mtime in ((1000, 9_000), (5000, 5_000), (200, 7_000), (900, 1_000)):
        path = write_summary(tmp_path / "a", [], second)
        os.utime(path, (mtime, mtime))
    tree = RunTree(str(tmp_path))
    (run,) = tree.scan()
    assert (run.create_time_s, run.update_time_us, run.summary_files) == (5000.0, 5_000_000_000, 4)

    os.utime(tmp_path / "a" / "events.out.events.summary.5000.0.h_MS", (6_000, 6_000))

    assert tree.scan()[0].update_time_us == 6_000_000_000


def test_a_run_is_listed_with_all_of_its_files(tmp_path: Path) -> None:
    for number, second in enumerate((300, 99, 1000)):
        lineage = write_lineage(tmp_path / "a", [], second)
        os.utime(lineage, (5_000 + number, 5_000 + number))
        if number:
            os.utime(write_summary(tmp_path / "a", [], second + 1), (7_000 + number,) * 2)
    for name in ("a.pb", "b.pb", "c.pb"):
        (tmp_path / "a" / name).touch()
    os.utime(tmp_path / "a" / "c.pb", ns=(0, 8_000_000_001_499))
    # the reader dates a graph by its creation, which is now
    created_s = (tmp_path / "a" / "c.pb").stat().st_ctime

    (run,) = RunTree(str(tmp_path)).scan()

    assert run == ListedRun(
        "./a",
        str(tmp_path / "a"),
        created_s,
        8_000_000_001,
        2,
        tuple(f"events.out.events.summary.{second}.0.h_lineage" for second in (99, 300, 1000)),
        3,
    )
    assert run.lineage_files == 3


@pytest.mark.parametrize(
    ("depth", "runs"),
    [
        (0, ["./"]),
        (1, ["./", "./a", "./b"]),
        (2, ["./", "./a", "./a/c", "./b"]),
        (None, ["./", "./a", "./a/c", "./a/c/d", "./b"]),
    ],
)
def test_runs_are_found_as_deep_as_asked_for_the_last_updated_first(
    tmp_path: Path, depth: int | None, runs: list[str]
) -> None:
    for age_s, run in enumerate((".", "b", "a", "a/c/d", "a/c")):
        os.utime(write_lineage(tmp_path / run, []), (LONG_AGO - age_s // 2,) * 2)

    assert train_ids(RunTree(str(tmp_path), depth).scan()) == runs
    write_summary(tmp_path / "without lineage", [])
    assert [run.summary_dir for run in list_train_jobs(str(tmp_path), depth)] == [
        run for run in ("./", "./b", "./a", "./a/c/d", "./a/c") if run in runs
    ]
    assert list_train_jobs(str(tmp_path / "nowhere"), depth) == []


def test_the_files_of_a_listed_run_have_their_present_states(tmp_path: Path) -> None:
    first, gone, linked, last = (
        write_lineage(tmp_path, [], second) for second in (99, 300, 400, 1000)
    )
    tree = RunTree(str(tmp_path))
    (run,) = tree.scan()
    first.write_bytes(b"12345")
    os.utime(first, ns=(7, 7))
    gone.unlink()
    linked.unlink()
    linked.symlink_to(last)

    found = with_lineage_files(run)

    assert list(found.files) == [str(first), str(last)]
    assert found.files[str(first)] == (5, 7, first.stat().st_ino)
    assert (found.summary_dir, found.path, found.update_time_us) == (
        "./",
        str(tmp_path),
        run.update_time_us,
    )


def test_a_name_whose_digits_are_not_a_time_hides_only_that_file(tmp_path: Path) -> None:
    for second in (10**17, MAX_TIMESTAMP + 1, MAX_TIMESTAMP, 1_700_000_000):
        write_summary(tmp_path / "a", [], second)
    write_summary(tmp_path / "b", [], 10**17)
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "events.summary.5.h_explain").touch()

    (run,) = RunTree(str(tmp_path)).scan()

    assert (run.train_id, run.summary_files, run.create_time_s) == ("./a", 2, MAX_TIMESTAMP)


def test_an_unchanged_tree_is_not_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = {name: write_summary(tmp_path / name, []) for name in "abc"}
    age(*paths.values(), *(tmp_path / name for name in "abc"), tmp_path)
    tree = RunTree(str(tmp_path))
    assert [run.train_id for run in tree.scan()] == ["./a", "./b", "./c"]

    monkeypatch.setattr(run_tree.os, "scandir", None)
    for seconds, name in enumerate("bca", 7):
        with open(paths[name], "ab") as file:
            file.write(b"more")
        os.utime(paths[name], (LONG_AGO + seconds, LONG_AGO + seconds))
        grown, *_ = tree.scan()
        assert (grown.train_id, grown.update_time_us) == (
            *(f"./{name}", (LONG_AGO + seconds) * 10**6),
        )

    assert [run.train_id for run in tree.scan()] == ["./a", "./c", "./b"]


@pytest.mark.parametrize("ahead_s", [-3600, 1, 3600])
def test_a_run_of_this_or_another_machine_is_seen_whatever_its_clock_says(
    tmp_path: Path, ahead_s: int
) -> None:
    write_summary(tmp_path / "a", [])
    now_ns = (LONG_AGO + ahead_s) * 10**9
    age(tmp_path)
    tree = RunTree(str(tmp_path), wall_clock_ns=lambda: now_ns)
    tree.scan()

    write_summary(tmp_path / "b", [])  # within the same tick of the file system's clock
    age(tmp_path)

    assert train_ids(tree.scan()) == ["./a", "./b"]


def test_a_directory_that_changed_long_after_it_was_first_seen_may_change_again_at_once(
    tmp_path: Path,
) -> None:
    write_summary(tmp_path / "a", [])
    age(tmp_path)
    now_s = float(LONG_AGO)
    tree = RunTree(str(tmp_path), wall_clock_ns=lambda: int(now_s * 1e9))
    tree.scan()

    for run, seconds, clock_s in (("b", LONG_AGO + 10, 10.0), ("c", LONG_AGO + 10, 10.5)):
        now_s = LONG_AGO + clock_s
        write_summary(tmp_path / run, [])
        os.utime(tmp_path, (seconds, seconds))  # both within a tick of the file system's clock
        assert f"./{run}" in train_ids(tree.scan())


def test_a_run_whose_only_file_is_gone_is_not_listed_though_its_directory_looks_unchanged(
    tmp_path: Path,
) -> None:
    path = write_summary(tmp_path / "a", [])
    write_summary(tmp_path / "b", [])
    age(tmp_path / "a", tmp_path)
    tree = RunTree(str(tmp_path))
    assert train_ids(tree.scan()) == ["./a", "./b"]

    path.unlink()
    age(tmp_path / "a")

    assert train_ids(tree.scan()) == ["./b"]


def test_a_tree_of_a_machine_whose_clock_is_ahead_is_not_listed_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_summary(tmp_path / "a", [])
    age(tmp_path / "a", tmp_path)
    times_ns = iter(range((LONG_AGO - 3600) * 10**9, LONG_AGO * 10**9, 10**9))
    tree = RunTree(str(tmp_path), wall_clock_ns=lambda: next(times_ns))
    for _ in range(4):
        tree.scan()

    monkeypatch.setattr(run_tree.os, "scandir", None)
    assert train_ids(tree.scan()) == ["./a"]


def test_files_and_runs_come_and_go(tmp_path: Path) -> None:
    first = write_summary(tmp_path / "a", [], 100)
    write_summary(tmp_path / "b", [])
    tree = RunTree(str(tmp_path))
    tree.scan()

    first.unlink()
    write_summary(tmp_path / "c", [])

    assert train_ids(tree.scan()) == ["./b", "./c"]
    assert {run.path for run in tree.scan()} == {str(tmp_path / name) for name in "bc"}


@pytest.fixture
def closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that cannot be listed, whoever runs the test."""
    directory = tmp_path / "closed"
    directory.mkdir()
    scandir = os.scandir

    def refusing(path: str) -> object:
        if not isinstance(path, int) and Path(path) == directory:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return scandir(path)

    monkeypatch.setattr(run_tree.os, "scandir", refusing)
    return directory


def test_a_directory_that_cannot_be_listed_is_skipped_with_one_warning(
    tmp_path: Path, closed: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_summary(tmp_path / "a", [])
    tree = RunTree(str(tmp_path))

    assert train_ids(tree.scan()) == train_ids(tree.scan()) == ["./a"]
    assert [str(closed) in record.getMessage() for record in caplog.records] == [True]


@pytest.mark.usefixtures("closed")
@pytest.mark.parametrize(
    "verb",
    [("list",), ("verify",), ("lineage",), ("show",), ("export", "--to", "csv", "--out", "out")],
)
def test_every_verb_skips_it_with_one_warning(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    verb: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    write_summary(tmp_path / "a", [values_at(1, {"loss": 1.0})])

    assert mindsummary(capsys, verb[0], tmp_path, *verb[1:]).code == 0
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "skipped a directory that cannot be listed"
    ]


@pytest.mark.parametrize("is_removed", [False, True], ids=["not readable", "removed meanwhile"])
@pytest.mark.parametrize(
    ("words", "told_of_a", "told_of_b"),
    [
        (("list", "runs"), "MS: permission denied", "1 scalar"),
        (("verify", "runs"), "MS: permission denied", "1 run checked: 0 damages"),
        (("repair", "runs"), "MS: permission denied", "nothing is damaged in its other runs"),
        (
            ("export", "runs", "--to", "parquet", "--out", "out"),
            "skipped because it cannot be read: a:",
            "scalars/b/",
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_run_that_cannot_be_read_or_is_removed_meanwhile_keeps_no_verb_from_the_other_runs(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    told_of_a: str,
    told_of_b: str,
    is_removed: bool,
) -> None:
    skip_without_packages(*words)
    monkeypatch.chdir(tmp_path)
    closed = write_summary(tmp_path / "runs" / "a", [values_at(1, {"loss": 1.0})])
    write_summary(tmp_path / "runs" / "b", [values_at(1, {"loss": 1.0})])
    real_open = os.open

    def refusing(path: str, *arguments: int, **options: int) -> int:
        if os.path.basename(os.path.dirname(path)) == "a" and os.path.basename(path) == closed.name:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return real_open(path, *arguments, **options)

    monkeypatch.setattr(os, "open", refusing)
    if is_removed:
        shutil.rmtree(tmp_path / "runs" / "a")
        monkeypatch.setattr(runs, "find_run_directories", lambda directory: ["runs/a", "runs/b"])
    answer = mindsummary(capsys, *words)

    assert answer.code == 1
    assert is_removed or told_of_a in answer.out + answer.err
    assert told_of_b in answer.out


def test_a_run_without_a_file_by_now_is_a_line_of_the_list(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "find_run_directories", lambda directory: [directory])

    assert mindsummary(capsys, "list", tmp_path).out.splitlines()[1].split() == [
        ".",
        "-",
        "-",
        "0",
        "B",
        "-",
        "-",
    ]


def test_one_rule_for_links_and_hidden_directories_says_which_runs_a_command_finds(
    tmp_path: Path,
) -> None:
    path = write_summary(tmp_path / "outside", [])
    base = tmp_path / "base"
    for run in (".hidden", ".hidden/deeper", "a/.git", "b", "b/deeper", "b-c"):
        write_summary(base / run, [])
    (base / "linked").symlink_to(tmp_path / "outside", target_is_directory=True)
    (base / "c").mkdir()
    (base / "c" / path.name).symlink_to(path)
    write_summary(base / "misdated", [], 10**17)
    for name in (
        "e/events.summary.17000000000000000.h_explain",
        "f/events.summary.17000000000000000.h_MS/file",
    ):
        (base / name).parent.mkdir(parents=True)
        (base / name).touch()
    (base / "g").mkdir()
    (base / "g" / "events.summary.17000000000000000.h_MS").symlink_to("nowhere")
    (base / "model.pb").touch()

    # of its graph the base is one, too
    assert train_ids(RunTree(str(base)).scan()) == [
        *("./", "./.hidden", "./b", "./b-c", "./b/deeper"),
    ]
    assert find_run_directories(str(base)) == [
        str(base / name) for name in (".hidden", "b", "b/deeper", "b-c", "misdated")
    ]
    assert find_run_directories(str(base / "c")) == []
    assert find_run_directories(str(base / "linked")) == [str(base / "linked")]  # it was named
    with pytest.raises(FileNotFoundError):
        find_run_directories(str(base / "nothing"))


@pytest.mark.parametrize("verb", ["list", "verify", "lineage", "sync"])
def test_a_tree_of_links_to_runs_is_told_from_an_empty_one(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_summary(tmp_path / "outside", [])
    tree = tmp_path / "tree"
    for name in ("a", "deeper/b"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).symlink_to(tmp_path / "outside", target_is_directory=True)
    (tree / path.name).symlink_to(path)
    (tree / "notes.txt").symlink_to("nowhere")

    answer = mindsummary(capsys, verb, tree, *(["far"] if verb == "sync" else []))

    assert answer.code == 1
    (line,) = answer.err.splitlines()
    assert (
        f"; symbolic links are not followed, and there are 3 links. Give their paths: {tree}/*"
        in line
    )
    assert "outside" in mindsummary(capsys, "list", *tree.glob("a*"), tmp_path / "outside").out


def test_a_misdated_file_that_appears_and_goes_is_known_at_the_next_scan(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    tree = RunTree(str(tmp_path))
    path = tmp_path / "run" / "events.out.events.summary.99999999999999.0.h_MS"
    seen = []
    for change in (lambda: None, path.touch, path.unlink):
        change()
        tree.scan()
        seen.append(tree.event_directories())

    assert seen == [set(), {str(tmp_path / "run")}, set()]
