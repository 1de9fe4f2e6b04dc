from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mindsummary_lightning._proto import summary_pb2
from mindsummary_lightning.fileformat.scalar_event import encode_scalars, float32, scalar_head
from mindsummary_lightning.fileformat.summary_codec import encode_values
from tests.fileformat.strategies import steps, wall_times

SCALARS = st.lists(st.tuples(st.text(min_size=1), st.floats(width=32)), min_size=1, max_size=40)


@given(wall_times, steps, SCALARS)
def test_a_step_of_scalars_is_byte_for_byte_what_any_step_is(
    wall_time: float, step: int, values: list[tuple[str, float]]
) -> None:
    pieces = [piece for tag, value in values for piece in (scalar_head(tag), float32(value))]

    payload = encode_scalars(wall_time, step, pieces)

    assert payload == b"".join(encode_values(wall_time, step, values))  # type: ignore[arg-type]
    assert len(summary_pb2.Event.FromString(payload).SerializeToString()) == len(payload)  # a NaN may change its sign
