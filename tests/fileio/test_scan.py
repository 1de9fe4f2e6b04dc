from __future__ import annotations

import os
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileformat.framing import frame, masked_crc32c
from mindsummary_lightning.fileio import scan
from mindsummary_lightning.fileio.blocks import blocks_of
from mindsummary_lightning.fileio.regular import open_regular
from mindsummary_lightning.fileio.scan import RecordScanner
from tests.support import memory_below

PAYLOADS = [b"first", b"2", b"the third one"]
RECORDS = [b"".join(frame([payload])) for payload in PAYLOADS]
WHOLE = b"".join(RECORDS)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.summary.1_MS"


def test_a_whole_file_gives_all_payloads(path: Path) -> None:
    path.write_bytes(WHOLE)
    scanner = RecordScanner(str(path))

    assert list(scanner) == PAYLOADS
    assert scanner.offset == len(WHOLE)


@pytest.mark.parametrize("size", range(len(WHOLE)))
def test_wherever_a_file_ends_its_whole_records_are_read(path: Path, size: int) -> None:
    path.write_bytes(WHOLE[:size])
    scanner = RecordScanner(str(path))
    ends = [len(RECORDS[0]), len(RECORDS[0] + RECORDS[1]), len(WHOLE)]
    whole = sum(end <= size for end in ends)

    assert list(scanner) == PAYLOADS[:whole]
    assert scanner.offset == sum(map(len, RECORDS[:whole]))


def test_a_file_that_grows_byte_by_byte_is_followed(path: Path) -> None:
    path.touch()
    scanner = RecordScanner(str(path))
    seen: list[bytes] = []
    for position in range(len(WHOLE)):
        with path.open("ab") as file:
            file.write(WHOLE[position : position + 1])
        seen += scanner

    assert seen == PAYLOADS


def test_reading_begins_where_it_is_told_to(path: Path) -> None:
    path.write_bytes(WHOLE)

    assert list(RecordScanner(str(path), offset=len(RECORDS[0]))) == PAYLOADS[1:]


@pytest.mark.parametrize("position", range(len(WHOLE)))
def test_any_changed_byte_is_an_error_with_the_records_offset_or_a_tail(
    path: Path, position: int
) -> None:
    damaged = bytearray(WHOLE)
    damaged[position] ^= 0x10
    path.write_bytes(damaged)
    starts = [0, len(RECORDS[0]), len(RECORDS[0] + RECORDS[1])]
    hit = max(index for index, start in enumerate(starts) if start <= position)
    seen: list[bytes] = []

    with pytest.raises(DamagedFileError) as raised:
        seen.extend(RecordScanner(str(path)))
    assert raised.value.offset == starts[hit]
    assert raised.value.path == str(path)
    assert "CRC is 0x" in raised.value.reason


def test_an_empty_record_is_damage(path: Path) -> None:
    length = bytes(8)
    empty = (
        length + struct.pack("<I", masked_crc32c(length)) + struct.pack("<I", masked_crc32c(b""))
    )
    path.write_bytes(RECORDS[0] + empty + RECORDS[1])

    with pytest.raises(
        DamagedFileError, match=f"record at byte {len(RECORDS[0])} .*an empty record"
    ):
        list(RecordScanner(str(path)))


def test_an_incomplete_record_is_silent_only_as_the_last_one(path: Path) -> None:
    torn = b"".join(frame([bytes(range(256)) * 40]))[:5000]
    path.write_bytes(RECORDS[0] + torn)
    assert list(RecordScanner(str(path))) == PAYLOADS[:1]

    path.write_bytes(RECORDS[0] + torn + RECORDS[1] + RECORDS[2])

    for read in (list, RecordScanner.batches):
        seen: list[object] = []
        with pytest.raises(
            DamagedFileError, match=f"complete records follow at byte {len(RECORDS[0]) + 5000}"
        ) as raised:
            seen.extend(read(RecordScanner(str(path))))
        assert raised.value.offset == len(RECORDS[0])


def test_records_that_are_appended_while_the_end_is_looked_at_are_no_damage(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_bytes(RECORDS[0])

    def blocks_then_growth(*arguments: Any) -> Iterator[Any]:
        yield from blocks_of(*arguments)
        with path.open("ab") as file:
            file.write(RECORDS[1] + RECORDS[2])

    monkeypatch.setattr(scan, "blocks_of", blocks_then_growth)
    scanner = RecordScanner(str(path))

    assert list(scanner) == PAYLOADS[:1]
    monkeypatch.undo()
    assert list(scanner) == PAYLOADS[1:]


def test_a_length_that_the_file_cannot_hold_is_not_believed(path: Path) -> None:
    length = struct.pack("<Q", 1 << 40)
    path.write_bytes(WHOLE + length + struct.pack("<I", masked_crc32c(length)) + b"x" * 100)
    with memory_below(8 << 20):
        scanner = RecordScanner(str(path))
        assert list(scanner) == PAYLOADS
        assert scanner.offset == len(WHOLE)


@pytest.mark.slow
def test_memory_is_bounded_by_a_block_and_a_record(path: Path) -> None:
    record = b"".join(frame([bytes(1000)]))
    with path.open("wb") as file:
        for _ in range(20_000):
            file.write(record)
    with memory_below(6 << 20):
        assert sum(1 for _ in RecordScanner(str(path))) == 20_000


def test_batches_hold_all_payloads_and_end_where_the_offset_says(path: Path) -> None:
    payloads = [bytes([number % 251]) * (1 + number % 3000) for number in range(2000)]
    payloads[1000] = b"larger than a block" * 100_000
    path.write_bytes(b"".join(b"".join(frame([payload])) for payload in payloads))
    scanner = RecordScanner(str(path))
    seen: list[bytes] = []
    batches = 0
    for batch in scanner.batches():
        seen += batch
        batches += 1
        assert scanner.offset == sum(map(len, seen)) + 16 * len(seen)

    assert seen == payloads
    assert batches > 3


def test_a_batch_ends_before_the_damage(path: Path) -> None:
    path.write_bytes(WHOLE[:-1] + b"?")
    scanner = RecordScanner(str(path))
    batches = scanner.batches()

    assert [*next(batches)] == PAYLOADS[:2]
    with pytest.raises(DamagedFileError) as raised:
        next(batches)
    assert raised.value.offset == scanner.offset == len(RECORDS[0] + RECORDS[1])


def test_a_scan_that_was_left_goes_on_behind_the_last_payload_taken(path: Path) -> None:
    path.write_bytes(WHOLE)
    scanner = RecordScanner(str(path))

    assert next(iter(scanner)) == PAYLOADS[0]
    assert list(scanner) == PAYLOADS[1:]


def test_a_file_that_is_open_already_is_read_and_stays_open(path: Path) -> None:
    path.write_bytes(WHOLE)
    with open_regular(str(path)) as file:
        path.unlink()
        scanner = RecordScanner(str(path), len(RECORDS[0]), file)
        assert list(scanner) == PAYLOADS[1:]
        assert list(scanner) == []
        assert not file.closed


def test_a_file_that_was_rewritten_is_told_from_one_that_has_grown(path: Path) -> None:
    path.write_bytes(RECORDS[0] + RECORDS[1])
    scanner = RecordScanner(str(path))
    assert not scanner.was_rewritten()
    assert list(scanner) == PAYLOADS[:2]
    path.write_bytes(WHOLE)
    assert not scanner.was_rewritten()
    assert list(scanner) == PAYLOADS[2:]
    path.write_bytes(WHOLE[:-1] + b"?" + RECORDS[0])
    assert scanner.was_rewritten()
    path.unlink()
    assert not scanner.was_rewritten()


@given(sizes=st.lists(st.integers(1, 3000), max_size=8), cut=st.integers(0, 20_000))
def test_any_prefix_of_any_file_gives_a_prefix_of_its_payloads(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], cut: int
) -> None:
    payloads = [os.urandom(size) for size in sizes]
    path = tmp_path_factory.mktemp("scan") / "file"
    path.write_bytes(b"".join(b"".join(frame([payload])) for payload in payloads)[:cut])

    seen = list(RecordScanner(str(path)))
    assert seen == payloads[: len(seen)]
    assert path.stat().st_size - sum(map(len, seen)) - 16 * len(seen) < 3016


def _as_a_plain_loop_reads(content: bytes) -> tuple[list[bytes], int, bool]:
    """Return the payloads before the first damage or the incomplete end.

    The offset of that and whether it is damage come with them.
    """
    payloads, at = [], 0
    while at + 12 <= len(content):
        length, crc = struct.unpack_from("<QI", content, at)
        if masked_crc32c(content[at : at + 8]) != crc or not length:
            return payloads, at, True
        if at + length + 16 > len(content):
            break
        payload, (crc,) = (
            content[at + 12 : at + 12 + length],
            struct.unpack_from("<I", content, at + 12 + length),
        )
        if masked_crc32c(payload) != crc:
            return payloads, at, True
        payloads.append(payload)
        at += length + 16
    return payloads, at, False


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_many_records_are_read_and_damage_is_found_as_a_plain_loop_does_it(
    path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    content = bytearray()
    # stretches of records of one length, long and short ones
    for _ in range(chance.choice([1, 3, 40, 300])):
        length = chance.choice([1, 4, 28, 100, chance.randrange(1, 3000)])
        for _ in range(chance.choice([1, 2, 20, 40, 400, 3000 // length + 1])):
            content += b"".join(frame([chance.randbytes(length)]))
    for _ in range(chance.choice([0, 1, 2, 30])):
        at, count = chance.randrange(len(content)), chance.choice([1, 4, 100])
        content[at : at + count] = chance.choice([bytes, chance.randbytes])(
            len(content[at : at + count])
        )
    del content[len(content) - chance.choice([0, 0, 1, 50]) :]
    path.write_bytes(content)
    payloads, end, is_damaged = _as_a_plain_loop_reads(bytes(content))
    scanner, seen, damage = RecordScanner(str(path)), [], None
    try:
        for batch in scanner.batches(chance.choice([1 << 9, 1 << 14, 1 << 20])):
            seen += batch
    except DamagedFileError as error:
        damage = error.offset

    assert seen == payloads
    assert scanner.offset == end
    assert damage == (end if is_damaged else None)
