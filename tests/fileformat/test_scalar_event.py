from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindsummary_lightning.fileformat._proto import summary_pb2
from mindsummary_lightning.fileformat.framing import FOOTER_SIZE, HEADER_SIZE, frame
from mindsummary_lightning.fileformat.scalar_event import float32, scalar_head, scalar_record
from mindsummary_lightning.fileformat.summary_codec import encode_values
from tests.fileformat.strategies import steps, wall_times

SCALARS = st.lists(st.tuples(st.text(min_size=1), st.floats(width=32)), min_size=1, max_size=40)


def encoded(values: list[tuple[str, float]]) -> bytes:
    return b"".join(scalar_head(tag) + float32(value) for tag, value in values)


@given(wall_times, steps, SCALARS)
def test_a_step_of_scalars_is_byte_for_byte_what_any_step_is(
    wall_time: float, step: int, values: list[tuple[str, float]]
) -> None:
    written = scalar_record(wall_time, step, encoded(values))

    assert written == b"".join(frame(encode_values(wall_time, step, values)))  # type: ignore[arg-type]
    payload = written[HEADER_SIZE:-FOOTER_SIZE]
    assert len(summary_pb2.Event.FromString(payload).SerializeToString()) == len(payload)  # a NaN may change its sign


@pytest.mark.parametrize("step", [0, 1, 127, 128, 129, 255, 256, 16383, 16384, 2**21, 2**63 - 1, -1, -128, -(2**63)])
@pytest.mark.parametrize("tag", ["loss", "x" * 93, "x" * 120], ids=["short", "at 127 bytes", "long"])
def test_every_length_of_a_step_gives_the_same_bytes_as_any_step(step: int, tag: str) -> None:
    values = [(tag, 0.25), ("other", -1.0)]

    written = scalar_record(1.5, step, encoded(values))

    assert written == b"".join(frame(encode_values(1.5, step, values)))
    assert summary_pb2.Event.FromString(written[HEADER_SIZE:-FOOTER_SIZE]).step == step
