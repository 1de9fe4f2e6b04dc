"""Scalars without protobuf objects: encoded byte for byte as protobuf does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindsummary_lightning.fileformat._proto import summary_pb2
from mindsummary_lightning.fileformat.summary_codec import encode_step
from tests.fileformat.strategies import steps, wall_times

SCALARS = st.lists(
    st.tuples(st.text(min_size=1), st.floats(width=32, allow_nan=False)), min_size=1, max_size=40
)


def by_protobuf(wall_time: float, step: int, values: list[tuple[str, float]]) -> bytes:
    event = summary_pb2.Event(wall_time=wall_time)
    if step:
        event.step = step
    for tag, value in values:
        event.summary.value.add(tag=tag, scalar_value=value)
    return event.SerializeToString()


@given(wall_times, steps, SCALARS)
def test_a_step_of_scalars_is_byte_for_byte_what_protobuf_makes(
    wall_time: float, step: int, values: list[tuple[str, float]]
) -> None:
    assert encode_step(wall_time, step, values) == [[by_protobuf(wall_time, step, values)]]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "step", [0, 1, 127, 128, 129, 255, 256, 16383, 16384, 2**21, 2**63 - 1, -1, -128, -(2**63)]
)
@pytest.mark.parametrize(
    "tag", ["loss", "x" * 93, "x" * 120], ids=["short", "at 127 bytes", "long"]
)
def test_every_length_of_a_step_and_of_a_tag_is_encoded_as_protobuf_does(
    step: int, tag: str
) -> None:
    values = [(tag, 0.25), ("other", -1.0)]

    assert encode_step(1.5, step, values) == [[by_protobuf(1.5, step, values)]]  # type: ignore[arg-type]
