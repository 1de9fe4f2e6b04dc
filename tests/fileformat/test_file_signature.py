"""The first bytes of a file prove who wrote it, or prove nothing."""

from __future__ import annotations

import pytest

from mindsummary_lightning.fileformat.file_signature import is_summary_file
from mindsummary_lightning.fileformat.framing import frame
from mindsummary_lightning.fileformat.summary_codec import VERSION, encode_event
from mindsummary_lightning.values import Event

_BEGINNING = b"".join(bytes(chunk) for chunk in frame(encode_event(Event(1.7e9, 0, VERSION))))


@pytest.mark.parametrize("size", [12, 20, 30, len(_BEGINNING)])
@pytest.mark.parametrize("zeros", [0, 7, 4096])
def test_a_beginning_of_the_version_record_proves_it_with_zeros_behind_it_too(
    size: int, zeros: int
) -> None:
    assert is_summary_file(_BEGINNING[:size] + bytes(zeros))


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
