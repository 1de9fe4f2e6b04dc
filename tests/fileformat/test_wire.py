from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindsummary_lightning.fileformat._proto import summary_pb2
from mindsummary_lightning.fileformat.wire import length_delimited, varint


@pytest.mark.parametrize(
    ("number", "packed"),
    [
        *[(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (16383, "ff7f"), (16384, "808001")],
        *[(-1, "ff" * 9 + "01"), (2**63 - 1, "ff" * 8 + "7f")],
    ],
)
def test_a_varint_has_the_bytes_that_protobuf_documents(number: int, packed: str) -> None:
    assert varint(number).hex() == packed


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_varint_reads_back_as_its_number(number: int) -> None:
    assert summary_pb2.Event.FromString(b"\x10" + varint(number)).step == number


def test_a_field_announces_its_length() -> None:
    assert length_delimited(5, 300) == bytes([5 << 3 | 2]) + varint(300)
