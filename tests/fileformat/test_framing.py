from __future__ import annotations

import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from mindsummary_lightning.fileformat.framing import (
    HEADER_SIZE,
    OVERHEAD,
    checksum_mismatch,
    frame,
    header_mismatch,
    masked_crc32c,
    total_length,
    unpack_length,
)

# The first record of a file that MindSpore 2.7.0 wrote.
MINDSPORE_PAYLOAD = bytes.fromhex("09fa04916a52c0da411a11") + b"MindSpore.Event:1"
MINDSPORE_RECORD = (
    bytes.fromhex("1c00000000000000c8c1951d") + MINDSPORE_PAYLOAD + bytes.fromhex("7c15801f")
)


def test_a_record_is_framed_byte_for_byte_as_mindspore_frames_it() -> None:
    assert b"".join(frame([MINDSPORE_PAYLOAD])) == MINDSPORE_RECORD


def test_pieces_are_framed_like_their_whole() -> None:
    pieces = [MINDSPORE_PAYLOAD[:3], b"", memoryview(MINDSPORE_PAYLOAD)[3:]]

    assert b"".join(frame(pieces)) == MINDSPORE_RECORD


def test_large_pieces_are_passed_on_without_a_copy() -> None:
    piece = bytes(1 << 20)

    assert frame([b"head", piece])[2] is piece


def test_small_neighbours_of_a_large_record_are_one_piece() -> None:
    large = bytes(1 << 16)
    pieces = [b"a", b"b", large, b"c", b"", b"d", large, large]

    framed = frame(pieces)

    assert framed[1:-1] == [b"ab", large, b"cd", large, large]
    assert b"".join(framed[1:-1]) == b"".join(pieces)
    assert checksum_mismatch(b"".join(pieces), framed[-1]) is None


@pytest.mark.parametrize("length", [1, (1 << 16) - 1, 1 << 16, (1 << 16) + 1])
def test_a_record_of_any_length_has_the_same_form(length: int) -> None:
    payload = b"ab" * (length // 2) + b"c" * (length % 2)
    crc = masked_crc32c(payload)
    packed = struct.pack("<Q", length)
    header = packed + struct.pack("<I", masked_crc32c(packed))

    for chunks in ([payload], [payload[:1], payload[1:]]):
        framed = frame(chunks)
        assert b"".join(framed) == header + payload + struct.pack("<I", crc)
        assert (len(framed) == 1) is (length < 1 << 16)
    assert (total_length([payload]), total_length([payload, b"", b"ab"])) == (length, length + 2)


def test_a_checksum_may_go_on_from_the_bytes_before() -> None:
    assert masked_crc32c(b"load", crc32c(b"pay")) == masked_crc32c(b"payload")


def test_an_empty_payload_is_refused_because_the_reader_never_gets_past_it() -> None:
    with pytest.raises(ValueError, match="at least one byte"):
        frame([b"", b""])


@given(st.binary(min_size=1, max_size=300))
def test_a_framed_record_passes_both_checks(payload: bytes) -> None:
    record = b"".join(frame([payload]))
    end = HEADER_SIZE + unpack_length(record[:HEADER_SIZE])

    assert (len(record), header_mismatch(record[:HEADER_SIZE])) == (len(payload) + OVERHEAD, None)
    assert record[HEADER_SIZE:end] == payload
    assert checksum_mismatch(payload, record[end:]) is None


@given(st.binary(min_size=1, max_size=64), st.data())
def test_any_flipped_bit_is_noticed(payload: bytes, data: st.DataObject) -> None:
    record = bytearray(b"".join(frame([payload])))
    bit = data.draw(st.integers(0, len(record) * 8 - 1))
    record[bit // 8] ^= 1 << bit % 8

    header, rest = bytes(record[:HEADER_SIZE]), bytes(record[HEADER_SIZE:])
    assert header_mismatch(header) or checksum_mismatch(rest[:-4], rest[-4:])


def test_a_mismatch_names_what_is_stored_and_what_was_computed() -> None:
    wrong = checksum_mismatch(b"payload", struct.pack("<I", 7))

    assert wrong == f"payload CRC is {masked_crc32c(b'payload'):#010x}, the file states 0x00000007"
    assert checksum_mismatch(b"payload", b"abc" + struct.pack("<I", 7) + b"d", 3) == wrong
    length = bytes(7) + b"\x01"
    assert header_mismatch(length + struct.pack("<I", 9)) == (
        f"length CRC is {masked_crc32c(length):#010x}, the file states 0x00000009"
    )


def test_the_length_is_unsigned_and_64_bits_wide() -> None:
    assert unpack_length(b"\xff" * 8 + bytes(4)) == 2**64 - 1
