"""Scalars without protobuf objects: encoded byte for byte as protobuf does, and decoded as it does."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindsummary_lightning.fileformat._proto import summary_pb2
from mindsummary_lightning.fileformat.event_outline import outline_event
from mindsummary_lightning.fileformat.scalar_codec import decode_scalar_events
from mindsummary_lightning.fileformat.summary_codec import decode_event, encode_event, encode_step
from mindsummary_lightning.values import Event, Image
from tests.fileformat.strategies import steps, wall_times

_STEPS = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 300)
_TAGS = st.text(max_size=5) | st.sampled_from(["loss", "acc", "\x1dabcd", "\x10", "ø"])
_FLOATS = st.floats(width=32)
_PAYLOADS = st.builds(
    lambda wall_time, step, pairs: b"".join(encode_event(Event(wall_time, step, tuple(pairs)))),
    st.floats(),
    _STEPS,
    st.lists(st.tuples(_TAGS, _FLOATS), max_size=3),
)


def _decoded(payloads: list[bytes]) -> dict[int, tuple[float, int, tuple[tuple[str, float], ...]]]:
    """By index: what the column decoder says, and the general one where it declines."""
    done, left = decode_scalar_events(payloads)
    found = {
        index: (event.wall_time, event.step, event.what) for index, event in enumerate(map(decode_event, payloads))
    }
    for columns in done:
        for place, row in enumerate(columns.rows.tolist()):
            pairs = tuple(zip(columns.tags, columns.values[place].tolist(), strict=True))
            assert row not in left
            found[row] = (columns.wall_times[place].item(), columns.steps[place].item(), pairs)
    assert sorted([row for columns in done for row in columns.rows.tolist()] + left) == list(range(len(payloads)))
    return found


def _general(payloads: list[bytes]) -> dict[int, tuple[float, int, object]]:
    return {index: (event.wall_time, event.step, event.what) for index, event in enumerate(map(decode_event, payloads))}


@pytest.mark.slow
@given(st.lists(_PAYLOADS, min_size=1, max_size=12))
@settings(max_examples=200, deadline=None)
def test_columns_say_what_the_protobuf_decoder_says(payloads: list[bytes]) -> None:
    assert repr(_decoded(payloads)) == repr(_general(payloads))


@pytest.mark.slow
@given(_PAYLOADS, st.integers(0, 60), st.integers(0, 255))
@settings(max_examples=300, deadline=None)
def test_a_changed_byte_never_makes_the_columns_differ_from_protobuf(payload: bytes, place: int, byte: int) -> None:
    changed = bytearray(payload)
    changed[place % len(changed)] = byte
    try:
        decode_event(bytes(changed))
    except ValueError:
        return

    assert repr(_decoded([payload, bytes(changed)])) == repr(_general([payload, bytes(changed)]))


def test_a_tag_behind_its_value_is_left_to_the_general_decoder() -> None:
    # Field order is free in protobuf; the tag's last bytes look like a scalar here.
    value = b"\x1d" + struct.pack("<f", 1.0) + b"\x0a\x06a\x1dabcd"
    summary = b"\x0a" + bytes((len(value),)) + value
    payload = b"\x09" + bytes(8) + b"\x2a" + bytes((len(summary),)) + summary

    done, left = decode_scalar_events([payload])

    assert (done, left) == ([], [0])
    assert outline_event(payload).values[0].tag == "a\x1dabcd"


def test_many_tags_of_one_length_share_a_pass() -> None:
    payloads = [b"".join(encode_event(Event(1.0, step, ((f"tag{step % 7}", float(step)),)))) for step in range(100)]

    done, left = decode_scalar_events(payloads)

    assert left == []
    assert len(done) == 8  # seven tags, and step 0, which has no step field
    assert sorted(np.concatenate([columns.rows for columns in done]).tolist()) == list(range(100))


def test_tags_that_differ_where_other_events_have_values_are_told_apart() -> None:
    # All of one length; in the first a value lies where the others keep the middle of their tags.
    events = [(("a", 1.0), ("b", 2.0)), (("xxAAAAxxxxx", 3.0),), (("xxBBBBxxxxx", 4.0),)]
    payloads = [b"".join(encode_event(Event(1.0, 1, event))) for event in events]

    assert len(set(map(len, payloads))) == 1
    assert repr(_decoded(payloads)) == repr(_general(payloads))


def test_an_event_with_another_kind_is_left_to_the_general_decoder() -> None:
    payload = b"".join(encode_event(Event(1.0, 1, (("a", 1.0), ("b", Image(1, 1, b"png"))))))

    assert decode_scalar_events([payload, payload]) == ([], [0, 1])


SCALARS = st.lists(st.tuples(st.text(min_size=1), st.floats(width=32, allow_nan=False)), min_size=1, max_size=40)


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


@pytest.mark.parametrize("step", [0, 1, 127, 128, 129, 255, 256, 16383, 16384, 2**21, 2**63 - 1, -1, -128, -(2**63)])
@pytest.mark.parametrize("tag", ["loss", "x" * 93, "x" * 120], ids=["short", "at 127 bytes", "long"])
def test_every_length_of_a_step_and_of_a_tag_is_encoded_as_protobuf_does(step: int, tag: str) -> None:
    values = [(tag, 0.25), ("other", -1.0)]

    assert encode_step(1.5, step, values) == [[by_protobuf(1.5, step, values)]]  # type: ignore[arg-type]
