"""The first bytes of a file prove who wrote it, or prove nothing."""

from __future__ import annotations

import pytest

from mindsummary_lightning.fileformat.file_signature import is_lineage_file, is_summary_file
from mindsummary_lightning.fileformat.framing import frame
from mindsummary_lightning.fileformat.lineage_codec import encode_lineage_event
from mindsummary_lightning.fileformat.summary_codec import VERSION, encode_event
from mindsummary_lightning.values import Event, LineageEvent, TrainInfo

_BEGINNING = b"".join(bytes(chunk) for chunk in frame(encode_event(Event(1.7e9, 0, VERSION))))


@pytest.mark.parametrize("size", [12, 20, 30, len(_BEGINNING)])
@pytest.mark.parametrize("zeros", [0, 7, 4096])
def test_a_beginning_of_the_version_record_proves_it_with_zeros_behind_it_too(
    size: int, zeros: int
) -> None:
    assert is_summary_file(_BEGINNING[:size] + bytes(zeros))


def test_what_follows_the_version_record_does_not_count() -> None:
    assert is_summary_file(_BEGINNING + b"x" * 30)
    assert is_summary_file(_BEGINNING + bytes(30) + b"x")


@pytest.mark.parametrize("place", [*range(12), 12, 21, 22, 30, len(_BEGINNING) - 5])
def test_a_version_record_with_another_byte_proves_nothing(place: int) -> None:
    changed = bytearray(_BEGINNING)
    changed[place] ^= 1

    assert not is_summary_file(bytes(changed))
    assert not is_summary_file(bytes(changed[:-4]))


def test_only_a_complete_record_proves_its_time() -> None:
    changed = bytearray(_BEGINNING)
    changed[15] ^= 1  # of the wall time

    assert not is_summary_file(bytes(changed))
    assert is_summary_file(bytes(changed[:-1]))


@pytest.mark.parametrize(
    "beginning",
    [
        b"",
        bytes(4096),
        _BEGINNING[:11],
        _BEGINNING[:11] + bytes(99),
        b"x" * 44,
        _BEGINNING[:20] + b"x" * 30,
    ],
    ids=["nothing", "zeros", "half a header", "half a header and zeros", "text", "another record"],
)
def test_anything_else_proves_nothing(beginning: bytes) -> None:
    assert not is_summary_file(beginning)


_LINEAGE = b"".join(
    frame([encode_lineage_event(LineageEvent(1.7e9, TrainInfo(optimizer="SGD", epoch=3)))])
)


@pytest.mark.parametrize("rest", [b"", bytes(40), b"x" * 40, _LINEAGE])
def test_a_complete_lineage_record_proves_a_lineage_file(rest: bytes) -> None:
    assert is_lineage_file(_LINEAGE + rest)
    assert not is_summary_file(_LINEAGE + rest)


@pytest.mark.parametrize("size", [0, 11, 12, 20, len(_LINEAGE) - 1])
def test_a_part_of_a_lineage_record_proves_nothing(size: int) -> None:
    assert not is_lineage_file(_LINEAGE[:size])


@pytest.mark.parametrize("place", range(len(_LINEAGE)))
def test_a_lineage_record_with_another_byte_proves_nothing(place: int) -> None:
    changed = bytearray(_LINEAGE)
    changed[place] ^= 1

    assert not is_lineage_file(bytes(changed))


@pytest.mark.parametrize(
    "payload",
    [encode_lineage_event(LineageEvent(1.0, TrainInfo()))[:9], b"\x09" + bytes(7), b"text"],
    ids=["unknown kind", "cut", "text"],
)
def test_a_record_without_lineage_proves_nothing(payload: bytes) -> None:
    assert not is_lineage_file(b"".join(frame([payload])))
    assert not is_lineage_file(_BEGINNING)
