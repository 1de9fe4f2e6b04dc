"""Rows 23, 27, 28 and 29: files in a run directory that others cut, made, replaced or deleted."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mindsummary_lightning import SummaryReader, SummaryRecord
from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileformat.framing import frame, header
from mindsummary_lightning.fileio.salvage import read_pieces
from mindsummary_lightning.fileio.scan import RecordScanner
from mindsummary_lightning.maintenance.repair import repair_run
from mindsummary_lightning.maintenance.verify import verify_run
from mindsummary_lightning.recording.summary_record import recorder_of
from mindsummary_lightning.values import TrainInfo, UserDefinedInfo
from tests.faults.processes import run_victim
from tests.support import read_lineage, read_scalars, summary_paths

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a POSIX system"),
]

Figure = Callable[[int, str], None]
NAME = "events.out.events.summary.1700000000.0.h_MS"


def record_into(run: Path) -> None:
    with SummaryRecord(run) as record:
        assert recorder_of(record).write_values(1, [("a", 1.0)])
        assert recorder_of(record).write_lineage(TrainInfo(epoch=1))


def torn_file(path: Path, tail: bytes = b"\x10\0\0") -> bytes:
    """A file of this package with a truncated last record."""
    path.parent.mkdir(exist_ok=True)
    other = path.parent / "other"
    record_into(other)
    (source,) = summary_paths(other)
    path.write_bytes(source.read_bytes() + tail)
    shutil.rmtree(other)
    return path.read_bytes()


@pytest.mark.parametrize(
    "second", [253402300798, 253402300799, 253402300799 - 366 * 86_400 - 1, 1795246505000]
)
def test_a_name_from_no_clock_costs_no_value_and_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, second: int
) -> None:
    (tmp_path / f"theirs.summary.{second}").touch()
    for start in (0, 20):
        with SummaryRecord(tmp_path, max_file_size=300) as record:
            for step in range(start, start + 20):
                record.add_scalar("loss", 1.0, step)

    assert [step for step, _ in read_scalars(tmp_path, "loss")] == [*range(40)]
    assert ("MindInsight shows no new values" in caplog.text) == (second > 253370764800)


@pytest.mark.slow
def test_processes_that_start_together_on_a_torn_tail_all_live(
    tmp_path: Path, times: Callable[[int, int], int], figure: Figure
) -> None:
    trials = times(6, 100)
    done = run_victim("start_on_torn_tail", tmp_path, trials)
    assert not done.returncode, done.stderr

    assert json.loads(done.stdout) == {"killed": [], "cut": trials, "files": 5 * trials}
    figure(
        23,
        (
            f"{4 * trials} starts on {trials} torn tails, with a `verify` beside them: 0 killed, "
            "each tail cut once"
        ),
    )


def test_a_file_that_is_cut_while_it_is_read_ends_there(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(b"".join(b"".join(map(bytes, frame([bytes(1_500_000)]))) for _ in range(4)))
    pieces = read_pieces(str(path))
    first = next(pieces)
    os.truncate(path, first.end + 100)

    assert [(piece.payload, piece.is_tail) for piece in pieces] == [(None, True)]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"notes",
        bytes(4096),
        b"x" * 11,
        header(5)[:8],
        b"".join(frame([b"a TFRecord of others"])) + b"torn",
    ],
    ids=["empty", "text", "zeros", "short", "half a header", "foreign records"],
)
@pytest.mark.parametrize("name", ["model.summary.2024", "summary.1_lineage", NAME])
def test_a_file_that_is_not_ours_is_never_changed(
    tmp_path: Path, figure: Figure, content: bytes, name: str
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / name).write_bytes(content)

    record_into(run)

    assert (run / name).read_bytes() == content
    assert not (run / ".damaged").exists()
    figure(27, f"{name} of {len(content)} foreign bytes: not changed")


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_link_is_not_followed_when_tails_are_cut(
    tmp_path: Path, link: Callable[[Path, Path], None]
) -> None:
    outside = tmp_path / "outside" / NAME
    before = torn_file(outside)
    run = tmp_path / "run"
    run.mkdir()
    link(outside, run / NAME)

    record_into(run)

    assert outside.read_bytes() == before


def test_what_is_cut_is_kept_under_a_name_that_no_reader_takes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = tmp_path / "run"
    before = torn_file(run / NAME, b"\x10\0\0 and more")

    record_into(run)

    (kept,) = (run / ".damaged").iterdir()
    assert (run / NAME).read_bytes() + kept.read_bytes() == before
    assert [summary_paths(kept.parent), list(SummaryReader(run).all_scalars())] == [[], ["a"]]
    assert "12 bytes of an unfinished record" in caplog.text


def test_nothing_is_cut_when_it_cannot_be_kept(tmp_path: Path) -> None:
    run = tmp_path / "run"
    before = torn_file(run / NAME)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (run / ".damaged").symlink_to(elsewhere)

    record_into(run)

    assert (run / NAME).read_bytes() == before
    assert not list(elsewhere.iterdir())


@pytest.mark.parametrize("is_ours", [True, False])
def test_a_sparse_file_of_many_gigabytes_is_not_read_through(
    tmp_path: Path, figure: Figure, is_ours: bool
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    size = 1 << 36
    if is_ours:
        torn_file(run / NAME, b"")
    else:
        (run / NAME).touch()
    whole = (run / NAME).stat().st_size
    os.truncate(run / NAME, size)

    began = time.monotonic()
    record_into(run)
    took = time.monotonic() - began

    assert (run / NAME).stat().st_size == (whole if is_ours else size)
    assert took < 30  # reading it would take minutes
    assert [
        finding.is_damage for finding in verify_run(str(run)) if finding.path.endswith(NAME)
    ] == [True] * (not is_ours)
    figure(
        28,
        f"a sparse file of 64 GiB{', ours' * is_ours}: the first record comes after {took:.2f} s",
    )


def test_a_sparse_record_of_gigabytes_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(header(1 << 40))
    os.truncate(path, 1 << 41)

    with pytest.raises(DamagedFileError, match="more than protobuf allows"):
        list(RecordScanner(str(path)))
    assert [finding.is_damage for finding in verify_run(str(tmp_path))] == [True]
    (left,) = repair_run(str(tmp_path))
    assert (left.records, left.backup, path.stat().st_size) == (0, None, 1 << 41)


def test_the_memory_of_a_deleted_run_goes_with_its_files(tmp_path: Path, figure: Figure) -> None:
    run = tmp_path / "run"
    with SummaryRecord(run) as record:
        recorder_of(record).write_lineage(UserDefinedInfo({"of the first run": 1}))
        recorder_of(record).write_values(1, [("a", 1.0)])
    shutil.rmtree(run)
    torn_file(run / NAME)
    with SummaryRecord(run) as record:
        recorder_of(record).write_lineage(UserDefinedInfo({"of the second run": 2}))
        assert recorder_of(record).write_values(1, [("a", 1.0)])

    custom = [
        event.what.values for event in read_lineage(run) if isinstance(event.what, UserDefinedInfo)
    ]
    assert custom == [{"of the second run": 2}]
    assert read_scalars(run, "a") == [(1, 1.0), (1, 1.0)]  # of the torn file, and of the second run
    figure(29, "a deleted run at the same path in one process: nothing of it comes back")
