from __future__ import annotations

import os
from pathlib import Path
from unittest import mock

import pytest

from mindsummary_lightning.fileformat.framing import frame
from mindsummary_lightning.fileio import append
from mindsummary_lightning.fileio.append import RecordFile
from mindsummary_lightning.fileio.salvage import read_pieces
from mindsummary_lightning.fileio.torn_tail import cut_damaged_end, cut_torn_tail

RECORDS = [b"".join(frame([payload])) for payload in (b"first", b"2", b"the third one")]
WHOLE = b"".join(RECORDS)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.summary.1_MS"


@pytest.mark.parametrize("size", range(len(RECORDS[0] + RECORDS[1]) + 1, len(WHOLE)))
def test_a_torn_tail_is_cut_back_to_the_last_whole_record(path: Path, size: int) -> None:
    path.write_bytes(WHOLE[:size])
    kept = len(RECORDS[0] + RECORDS[1])

    assert cut_torn_tail(str(path)) == size - kept
    assert path.read_bytes() == WHOLE[:kept]
    (cut,) = (file for file in path.parent.rglob("*") if file.is_file() and file != path)
    assert cut.read_bytes() == WHOLE[kept:size]


@pytest.mark.parametrize("size", [1, 12, len(RECORDS[0]) - 1])
def test_a_file_of_a_torn_record_alone_is_cut_to_nothing(path: Path, size: int) -> None:
    path.write_bytes(WHOLE[:size])

    assert cut_torn_tail(str(path)) == size
    assert path.read_bytes() == b""
    (cut,) = (path.parent / ".damaged").iterdir()
    assert cut.read_bytes() == WHOLE[:size]


@pytest.mark.parametrize("zeros", [1, 12, 16, 4096, 3 << 20])
def test_a_tail_of_zeros_is_cut(path: Path, zeros: int) -> None:
    path.write_bytes(WHOLE + bytes(zeros))

    assert cut_torn_tail(str(path)) == zeros
    assert path.read_bytes() == WHOLE


@pytest.mark.parametrize("written", range(1, len(RECORDS[2]) - 1))
def test_a_last_record_that_runs_out_into_zeros_is_cut(path: Path, written: int) -> None:
    path.write_bytes(RECORDS[0] + RECORDS[2][:written] + bytes(5000))

    assert cut_torn_tail(str(path)) == written + 5000
    assert path.read_bytes() == RECORDS[0]


def test_a_whole_file_is_not_cut(path: Path) -> None:
    path.write_bytes(WHOLE)

    assert cut_torn_tail(str(path)) == 0
    assert path.read_bytes() == WHOLE


@pytest.mark.parametrize("position", [0, 9, 15, len(RECORDS[0]) - 1])
def test_damage_with_more_behind_it_is_left_to_repair(path: Path, position: int) -> None:
    damaged = bytearray(WHOLE)
    damaged[position] ^= 1
    path.write_bytes(damaged)

    assert cut_torn_tail(str(path)) == 0
    assert path.read_bytes() == bytes(damaged)


def test_a_damaged_last_record_is_left_to_repair(path: Path) -> None:
    damaged = bytearray(WHOLE)
    damaged[-6] ^= 1
    path.write_bytes(damaged)

    assert cut_torn_tail(str(path)) == 0
    assert path.read_bytes() == bytes(damaged)


def test_a_file_that_is_being_written_is_not_touched(path: Path) -> None:
    live = RecordFile(str(path))
    live.append(frame([b"one"]))
    with path.open("ab") as file:
        file.write(b"half a rec")
    before = path.read_bytes()

    assert cut_torn_tail(str(path)) == 0
    assert path.read_bytes() == before


def test_nothing_is_cut_where_locks_do_not_tell(path: Path) -> None:
    path.write_bytes(WHOLE[:-3])

    with mock.patch.object(append, "fcntl", None):
        assert cut_torn_tail(str(path)) == 0
    assert path.read_bytes() == WHOLE[:-3]


def test_a_damaged_end_is_cut_off_and_kept_once(path: Path) -> None:
    path.write_bytes(WHOLE)
    kept = len(RECORDS[0])
    for _ in range(2):
        cut_damaged_end(str(path), kept)

    assert path.read_bytes() == RECORDS[0]
    (cut,) = (path.parent / ".damaged").iterdir()
    assert cut.name == f"events.summary-1_MS.cut-at-{kept}"
    assert cut.read_bytes() == WHOLE[kept:]


@pytest.mark.parametrize("reason", ["a second name", "locked", "shorter"])
def test_a_file_that_is_not_ours_alone_is_not_cut(path: Path, reason: str) -> None:
    path.write_bytes(WHOLE[:-3])
    at = len(WHOLE) if reason == "shorter" else len(RECORDS[0])
    if reason == "a second name":
        os.link(path, path.with_name("backup"))
    with path.open("rb") as writing:
        if reason == "locked":
            assert append.try_lock(writing.fileno())
        cut_damaged_end(str(path), at)
        if reason != "shorter":
            assert cut_torn_tail(str(path)) == 0

    assert path.read_bytes() == WHOLE[:-3]
    assert not (path.parent / ".damaged").exists()


@pytest.mark.parametrize("is_ours", [False, True])
def test_a_file_of_another_program_is_not_cut(path: Path, is_ours: bool) -> None:
    path.write_bytes(WHOLE[:-3])
    shown: list[bytes] = []

    def judge(beginning: bytes) -> bool:
        shown.append(beginning)
        return is_ours

    assert cut_torn_tail(str(path), judge) == is_ours * (len(RECORDS[2]) - 3)
    assert shown == [WHOLE[:-3]]
    assert path.read_bytes() == WHOLE[: len(RECORDS[0] + RECORDS[1]) if is_ours else -3]


def test_a_torn_record_with_whole_ones_behind_it_is_left_to_repair(path: Path) -> None:
    giant = b"".join(frame([bytes(1000)]))
    torn = RECORDS[0] + giant[:20] + RECORDS[1] + RECORDS[2]
    path.write_bytes(torn)

    assert cut_torn_tail(str(path)) == 0
    assert path.read_bytes() == torn


@pytest.mark.parametrize("size", range(len(RECORDS[0]) + 1, len(RECORDS[0] + RECORDS[1])))
@pytest.mark.parametrize("zeros", [0, 1, 12, 4096])
def test_what_is_cut_is_what_verify_calls_unfinished(path: Path, size: int, zeros: int) -> None:
    path.write_bytes(WHOLE[:size] + bytes(zeros))
    *whole, last = read_pieces(str(path))

    assert all(piece.payload for piece in whole)
    assert last.is_tail == (cut_torn_tail(str(path)) > 0)
