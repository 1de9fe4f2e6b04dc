from __future__ import annotations

import errno
import os
import random
from pathlib import Path
from unittest import mock

import pytest

from mindsummary_lightning.fileio import salvage
from mindsummary_lightning.fileio.regular import open_regular
from mindsummary_lightning.fileio.salvage import find_record, read_pieces
from tests.reading.runs import values_at, write_summary
from tests.support import memory_below

_RECORDS = [values_at(step, {"loss": float(step)}) for step in range(1, 6)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_summary(tmp_path, _RECORDS)


def _whole(path: Path) -> list[bytes]:
    data = path.read_bytes()
    return [
        data[piece.start : piece.end]
        for piece in read_pieces(str(path))
        if piece.payload is not None
    ]


def test_a_whole_file_is_all_records(path: Path) -> None:
    assert b"".join(_whole(path)) == path.read_bytes()


@pytest.mark.parametrize(
    "within", [0, 8, 14, -1], ids=["length", "length crc", "payload", "payload crc"]
)
def test_reading_goes_on_behind_a_damaged_record(path: Path, within: int) -> None:
    data = bytearray(path.read_bytes())
    start = len(data) - sum(map(len, _RECORDS[2:]))
    data[start + within if within >= 0 else start + len(_RECORDS[2]) + within] ^= 0x55
    path.write_bytes(data)

    assert _whole(path)[1:] == _RECORDS[:2] + _RECORDS[3:]


def test_reading_goes_on_behind_a_torn_record_and_behind_zeros(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole + _RECORDS[0][:20] + _RECORDS[1] + bytes(5000) + _RECORDS[2])

    assert _whole(path)[-2:] == [_RECORDS[1], _RECORDS[2]]


@pytest.mark.parametrize(
    "beyond", [-4, 0, 7], ids=["across the edge", "at the edge", "behind the edge"]
)
def test_a_record_a_block_away_is_found(path: Path, beyond: int) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole + b"\xff" * ((1 << 20) + beyond) + _RECORDS[2])

    assert _whole(path)[-1] == _RECORDS[2]


@pytest.mark.parametrize(
    "tail",
    [b"\x01", _RECORDS[0][:-1], bytes(4096), _RECORDS[0][:-9] + bytes(4096)],
    ids=["byte", "unfinished", "zeros", "unfinished, then zeros"],
)
def test_what_an_interrupted_writer_leaves_is_told_from_damage(path: Path, tail: bytes) -> None:
    with path.open("ab") as file:
        file.write(tail)

    last = list(read_pieces(str(path)))[-1]

    assert (last.is_tail, last.payload, last.end - last.start) == (True, None, len(tail))


@pytest.mark.parametrize(
    ("tail", "is_tail", "damage"),
    [
        (_RECORDS[0][:11], True, "11 bytes are left, a record has at least 16"),
        (_RECORDS[0][:12], True, "the record should end at byte {whole}, the file ends at {size}"),
        (_RECORDS[0][:-1], True, "the record should end at byte {whole}, the file ends at {size}"),
        (b"\xff" * 11, True, "11 bytes are left, a record has at least 16"),
        (b"\xff" * 13, False, "CRC is"),
        (_RECORDS[0][:-1] + b"?", False, "CRC is"),
        (_RECORDS[0][:-1] + b"?" + bytes(9), True, "CRC is"),
        (_RECORDS[0][:-1] + b"?" + bytes(9) + b"x", False, "CRC is"),
    ],
    ids=range(8),
)
def test_what_an_incomplete_record_lacks_is_told(
    path: Path, tail: bytes, is_tail: bool, damage: str
) -> None:
    begin = path.stat().st_size
    path.write_bytes(path.read_bytes() + tail)

    last = list(read_pieces(str(path)))[-1]

    told = damage.format(whole=begin + len(_RECORDS[0]), size=begin + len(tail))
    assert (last.start, last.end, last.is_tail) == (begin, begin + len(tail), is_tail)
    assert last.damage is not None
    assert told in last.damage


def test_records_that_are_damaged_one_after_another_are_one_stretch(path: Path) -> None:
    data = bytearray(path.read_bytes())
    first = len(data) - sum(map(len, _RECORDS[1:]))
    second = first + len(_RECORDS[1])
    behind = second + len(_RECORDS[2])
    data[first + 15] ^= 1
    data[second + 15] ^= 1
    path.write_bytes(data)

    damaged = [piece for piece in read_pieces(str(path)) if piece.payload is None]

    assert [(piece.start, piece.end, piece.is_tail) for piece in damaged] == [
        (first, behind, False)
    ]
    assert find_record(str(path), first) == find_record(str(path), second) == behind


def test_a_length_beyond_the_file_is_not_believed(path: Path) -> None:
    with path.open("ab") as file:
        file.write((2**62).to_bytes(8, "little") + b"1234" + _RECORDS[0])

    *_, damaged, last = read_pieces(str(path))

    assert (damaged.payload, damaged.is_tail) == (None, False)
    assert last.payload is not None


def test_an_empty_file_has_no_pieces(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.touch()

    assert list(read_pieces(str(path))) == []


@pytest.mark.parametrize("knows_holes", [True, False], ids=["an error", "no such call"])
def test_where_the_system_does_not_tell_holes_all_bytes_are_read_and_copied(
    path: Path, knows_holes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_bytes(path.read_bytes() + bytes(5000) + _RECORDS[1] + b"torn")
    expected = list(read_pieces(str(path)))
    if knows_holes:
        refusing = mock.Mock(side_effect=OSError(errno.EINVAL, "not on this file system"))
        monkeypatch.setattr(salvage.os, "lseek", refusing)
    else:
        monkeypatch.delattr(salvage.os, "SEEK_DATA")

    assert list(read_pieces(str(path))) == expected
    copy = path.with_name("copy")
    with open_regular(str(path)) as file, copy.open("wb") as target:
        salvage.copy_data(file, 7, path.stat().st_size - 3, target)
    assert copy.read_bytes() == path.read_bytes()[7:-3]


def test_a_stretch_is_copied_up_to_the_end_that_a_file_has_meanwhile(path: Path) -> None:
    content = path.read_bytes()
    copy = path.with_name("copy")
    for start, left in ((5, len(content) - 9), (len(content), len(content) - 9)):
        os.truncate(path, left)
        with open_regular(str(path)) as file, copy.open("wb") as target:
            salvage.copy_data(file, start, len(content), target)
        assert copy.read_bytes() == content[start:left]


def test_holes_of_a_stretch_are_copied_as_zeros(path: Path) -> None:
    size = path.stat().st_size
    os.truncate(path, 300_000)
    with path.open("ab") as file:
        file.write(b"behind the hole")
    os.truncate(path, 600_000)
    copy = path.with_name("copy")
    with open_regular(str(path)) as file, copy.open("wb") as target:
        salvage.copy_data(file, size - 7, 590_000, target)

    assert copy.read_bytes() == path.read_bytes()[size - 7 : 590_000]


def test_memory_is_bounded_by_a_block_and_not_by_the_damage(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"\xff" * (4 << 20) + _RECORDS[2] + b"tail")

    with memory_below(3 << 20):
        *_, damaged, last, tail = read_pieces(str(path))

    assert (damaged.end - damaged.start, damaged.payload, damaged.is_tail) == (4 << 20, None, False)
    assert (last.end - last.start, last.damage) == (len(_RECORDS[2]), None)
    assert (tail.payload, tail.is_tail) == (None, True)
    assert tail.damage == "4 bytes are left, a record has at least 16"


def test_the_record_that_is_found_begins_at_or_after_the_offset(path: Path) -> None:
    size = path.stat().st_size
    last, before = size - len(_RECORDS[4]), size - len(_RECORDS[4]) - len(_RECORDS[3])
    path.write_bytes(path.read_bytes() + b"torn, and longer than a record may be at the least")

    offsets = (0, before - 1, before, before + 1, last, last + 1, size, size + 100)
    found = [find_record(str(path), at) for at in offsets]
    assert found == [0, before, before, last, last, None, None, None]


@pytest.mark.slow
def test_no_record_that_random_damage_spares_is_lost(path: Path) -> None:
    whole = path.read_bytes()
    generator = random.Random(1)
    for _ in range(1000):
        begin = generator.randrange(len(whole))
        end = min(len(whole), begin + generator.choice([1, 4, 40, 100]))
        replacement = generator.choice([generator.randbytes(end - begin), bytes(end - begin), b""])
        path.write_bytes(whole[:begin] + replacement + whole[end:])

        spared, at = [], 0
        for record in [whole[: len(whole) - sum(map(len, _RECORDS))], *_RECORDS]:
            if at + len(record) <= begin or at >= end:
                spared.append(record)
            at += len(record)
        found = _whole(path)
        assert [record for record in found if record in spared] == spared
        pieces = list(read_pieces(str(path)))
        assert [piece.end for piece in pieces[:-1]] == [piece.start for piece in pieces[1:]]
