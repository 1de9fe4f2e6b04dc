"""Records in one block of memory: their payloads, checksums and places."""

from __future__ import annotations

from array import array
from itertools import accumulate

import numpy as np
import pytest

from mindsummary_lightning.fileformat.framing import frame, masked_crc32c
from mindsummary_lightning.fileformat.records import Records, count_alike
from tests.support import counted_calls


def _payload(number: int, length: int) -> bytes:
    return bytes((number * 7 + place) % 251 for place in range(length))


def _records(payloads: list[bytes]) -> tuple[bytearray, array[int]]:
    """A block of framed payloads, and where each begins and the last ends."""
    framed = [b"".join(frame([payload])) for payload in payloads]
    return bytearray(b"".join(framed)), array("q", accumulate(map(len, framed), initial=0))


def test_payloads_are_read_out_of_the_block_in_order() -> None:
    payloads = [b"abc", b"d", b"ef" * 20]
    block, bounds = _records(payloads)
    records = Records(bytes(block) + b"more", bounds)

    assert (len(records), [*records], records[1]) == (3, payloads, b"d")
    assert records.nbytes == len(block) == 3 * 16 + 3 + 1 + 40
    assert records.bounds.tolist() == [0, 19, 36, 92]
    assert [records.place(row) for row in range(3)] == [(12, 15), (31, 32), (48, 88)]
    assert records.last_checksum == masked_crc32c(payloads[2]).to_bytes(4, "little")


def test_separate_payloads_are_held_like_records_of_a_file() -> None:
    payloads = [b"abc", b"d", b"ef" * 20]
    records = Records.of(payloads)

    assert [*records] == payloads
    assert records.bounds.tolist() == Records(*_records(payloads)).bounds.tolist()  # type: ignore[arg-type]
    assert records.nbytes == 92
    assert (len(Records.of([])), Records.of([]).nbytes) == (0, 0)


@pytest.mark.parametrize("rows", [[1], [3], [0, 1], [2, 3, 4], [1, 2, 4], [0, 4], [1, 4], [3, 4]])
def test_payloads_of_one_length_are_the_rows_of_a_matrix(rows: list[int]) -> None:
    payloads = [b"x", *(_payload(number, 5) for number in range(1, 5))]
    if rows[0] == 0:
        payloads[0] = _payload(9, 5)
    records = Records(bytes(_records(payloads)[0]), _records(payloads)[1])

    matrix = records.side_by_side(np.array(rows))

    assert [row.tobytes() for row in matrix] == [payloads[row] for row in rows]
    assert matrix.shape == (len(rows), 5)


@pytest.mark.parametrize(
    "lengths",
    [
        [5],
        [5] * 31,
        [5] * 32,
        [5] * 100,
        [*range(1, 32)],
        [*range(1, 80)],
        [1] * 40,
        [9, *[5] * 40],
    ],
    ids=lambda lengths: f"{len(lengths)} of {len({*lengths})} lengths",
)
def test_the_first_record_with_a_wrong_checksum_is_found(lengths: list[int]) -> None:
    payloads = [_payload(number, length) for number, length in enumerate(lengths)]
    block, bounds = _records(payloads)
    last = len(lengths) - 1

    assert Records(bytes(block), bounds).first_mismatch() == (len(lengths), None)
    for wrong in [*{0, last // 2, last}]:
        damaged = bytearray(block)
        damaged[bounds[wrong + 1] - 5] ^= 1  # the last byte of the payload
        damaged[bounds[last + 1] - 1] ^= wrong != last  # and a checksum behind it
        row, problem = Records(bytes(damaged), bounds).first_mismatch()
        assert row == wrong
        assert problem is not None
        stored = masked_crc32c(payloads[wrong])
        assert problem.startswith("payload CRC is ")
        assert problem.endswith(f"the file states {stored:#010x}")


@pytest.mark.parametrize("lengths", [[5] * 40, [*range(1, 80)]], ids=["of one length", "of many"])
def test_the_checksums_of_many_records_are_compared_in_one(lengths: list[int]) -> None:
    records = Records(*_records([_payload(7, length) for length in lengths]))  # type: ignore[arg-type]

    with counted_calls() as counted:
        assert records.first_mismatch() == (len(lengths), None)
    assert counted["crc32c"] == 1


def test_bytes_behind_the_last_record_do_not_count() -> None:
    block, bounds = _records([_payload(number, 8) for number in range(40)])

    assert Records(bytes(block) + b"\1" * 33, bounds).first_mismatch() == (40, None)


def test_records_with_the_same_header_are_counted_until_another_comes() -> None:
    block = b"??" + bytes(
        _records([b"abc", b"def", b"ghi", b"jklm", b"nop"])[0]
    )  # 19 bytes each, but for one

    assert [count_alike(block, 2, 19, most) for most in (1, 2, 3, 9)] == [1, 2, 3, 3]
    assert [count_alike(block, 2 + 19 * row, 19, 9) for row in (1, 2)] == [2, 1]
    assert count_alike(block, 2 + 19 * 3 + 20, 19, 9) == 1


@pytest.mark.parametrize("cut", [0, 1, 18])
def test_a_record_that_is_not_complete_is_not_counted(cut: int) -> None:
    block, _ = _records([b"abc"] * 3)

    assert count_alike(bytes(block[: len(block) - cut]), 0, 19, 9) == (3 if not cut else 2)


@pytest.mark.parametrize("place", [0, 7, 8, 11])
def test_a_header_that_differs_in_length_or_checksum_is_another(place: int) -> None:
    block, _ = _records([b"abc"] * 4)
    block[2 * 19 + place] ^= 1

    assert count_alike(bytes(block), 0, 19, 9) == 2
