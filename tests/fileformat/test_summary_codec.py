from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindsummary_lightning.fileformat._proto import summary_pb2
from mindsummary_lightning.fileformat.summary_codec import (
    VERSION,
    decode_event,
    encode_event,
    encode_step,
)
from mindsummary_lightning.values import DataType, Event, Histogram, Image, Tensor
from tests.fileformat import strategies as draw
from tests.fileformat.sameness import same

pairs = st.lists(st.tuples(draw.texts, draw.summary_values), max_size=5).map(tuple)


def encoded(event: Event) -> bytes:
    return b"".join(encode_event(event))


def parsed(event: Event) -> summary_pb2.Event:
    return summary_pb2.Event.FromString(encoded(event))


def test_the_version_event_is_byte_for_byte_mindspores() -> None:
    assert (
        encoded(Event(1795246506.2659287, 0, VERSION))
        == bytes.fromhex("09fa04916a52c0da411a11") + VERSION.encode()
    )


def test_a_scalar_event_is_byte_for_byte_what_protobuf_writes() -> None:
    message = summary_pb2.Event(wall_time=1.5, step=300)
    message.summary.value.add(tag="loss", scalar_value=0.25)
    message.summary.value.add(tag="acc", scalar_value=-1.0)

    assert encoded(Event(1.5, 300, (("loss", 0.25), ("acc", -1.0)))) == message.SerializeToString()


@given(draw.wall_times, draw.steps, pairs)
def test_values_come_back_as_they_went(wall_time: float, step: int, what: Any) -> None:
    event = Event(wall_time, step, what)

    assert same(decode_event(encoded(event)), event)


@given(draw.wall_times, st.text(st.characters(exclude_categories=["Cs"])) | draw.graphs)
def test_versions_and_graphs_come_back_as_they_went(wall_time: float, what: Any) -> None:
    event = Event(wall_time, 0, what)

    assert same(decode_event(encoded(event)), event)


@given(draw.wall_times, draw.steps, pairs)
def test_hand_packed_bytes_are_what_protobuf_itself_would_write(
    wall_time: float, step: int, what: Any
) -> None:
    packed = encoded(Event(wall_time, step, what))
    message = summary_pb2.Event.FromString(packed)

    again = message.SerializeToString()

    assert not message.FindInitializationErrors()
    # by bytes: a NaN is never equal to another
    assert summary_pb2.Event.FromString(again).SerializeToString() == again
    assert same(decode_event(again), decode_event(packed))
    # Nothing is left over that protobuf would not know: it writes as many bytes as we did, but for
    # a step of 0.
    assert len(again) == len(packed)


@pytest.mark.parametrize("value", [1e40, -1e40, 3.5e38])
def test_a_scalar_beyond_float32_becomes_infinite(value: float) -> None:
    assert parsed(Event(0.0, 1, (("s", value),))).summary.value[0].scalar_value == np.copysign(
        np.inf, value
    )


def test_a_scalar_beyond_float32_may_share_its_step_with_other_kinds() -> None:
    image, tensor = Image(1, 1, b"png"), Tensor(np.ones(2, np.float32))

    payloads = encode_step(0.0, 1, [("s", 1e40), ("image", image), ("t", tensor)])

    together, alone = (decode_event(b"".join(payload)).what for payload in payloads)
    assert together == (("s", np.inf), ("image", image))
    assert isinstance(alone, tuple)
    assert [tag for tag, _ in alone] == ["t"]


def test_not_a_number_is_kept_in_a_scalar() -> None:
    assert np.isnan(parsed(Event(0.0, 1, (("s", float("nan")),))).summary.value[0].scalar_value)


@pytest.mark.parametrize("dtype", ["?", "i1", "i8", "u8", "f2", "f8"])
def test_elements_of_any_dtype_travel_as_float_data(dtype: str) -> None:
    message = (
        parsed(Event(0.0, 1, (("t", Tensor(np.array([0, 1, 3]).astype(dtype))),)))
        .summary.value[0]
        .tensor
    )

    assert list(message.float_data) == [
        float(number) for number in np.array([0, 1, 3]).astype(dtype)
    ]
    assert DataType(message.data_type).name.lower() == np.dtype(dtype).name


def test_the_elements_of_a_tensor_are_not_copied() -> None:
    tensor = Tensor(np.arange(1000, dtype=np.float32))

    pieces = encode_event(Event(0.0, 1, (("t", tensor),)))

    assert any(np.shares_memory(np.frombuffer(piece, np.uint8), tensor.data) for piece in pieces)


def test_a_histogram_without_finite_elements_leaves_its_range_unset() -> None:
    empty = np.empty(0)
    message = parsed(Event(0.0, 1, (("h", Histogram(empty, empty, empty, count=2, nan_count=2)),)))
    histogram = message.summary.value[0].histogram

    assert [histogram.HasField(name) for name in ("min", "max", "sum", "count")] == [
        False,
        False,
        False,
        True,
    ]


def test_an_image_says_its_size_and_keeps_its_bytes() -> None:
    image = parsed(Event(0.0, 1, (("i", Image(2, 3, b"\x89PNG")),))).summary.value[0].image

    assert (image.height, image.width, image.colorspace, image.encoded_image) == (
        2,
        3,
        3,
        b"\x89PNG",
    )


def test_a_kind_of_event_that_is_not_known_is_skipped() -> None:
    # field 6: explain
    message = summary_pb2.Event(wall_time=2.0, step=3).SerializeToString() + b"\x32\x02\x08\x01"

    assert decode_event(message) == Event(2.0, 3, None)


def test_a_kind_of_value_that_is_not_known_is_skipped() -> None:
    message = summary_pb2.Event(wall_time=2.0, step=3)
    message.summary.value.add(tag="new").MergeFromString(b"\x5a\x01x")  # field 11
    message.summary.value.add(tag="loss", scalar_value=1.0)

    assert decode_event(message.SerializeToString()) == Event(2.0, 3, (("loss", 1.0),))


def test_an_unknown_field_is_skipped() -> None:
    extended = encoded(Event(2.0, 3, (("loss", 1.0),))) + b"\xa2\x06\x01x"  # field 100

    assert decode_event(extended) == Event(2.0, 3, (("loss", 1.0),))


def test_data_fields_of_other_writers_are_read() -> None:
    message = summary_pb2.Event(wall_time=2.0)
    tensor = message.summary.value.add(tag="t").tensor
    tensor.dims.append(2)
    tensor.int64_data.extend([4, 5])

    ((_, value),) = decode_event(message.SerializeToString()).what  # type: ignore[misc,union-attr]
    assert value.data.tolist() == [4.0, 5.0]


def test_dimensions_that_contradict_the_elements_are_an_error() -> None:
    message = summary_pb2.Event(wall_time=2.0)
    tensor = message.summary.value.add(tag="t").tensor
    tensor.dims.append(3)
    tensor.float_data.append(1.0)

    with pytest.raises(ValueError, match=r"a tensor of shape .* cannot have 1 elements"):
        decode_event(message.SerializeToString())


@given(st.binary(max_size=80))
def test_any_bytes_are_an_event_or_the_one_error(payload: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(decode_event(payload), Event)


@given(draw.wall_times, pairs, st.data())
def test_damaged_events_are_events_or_the_one_error(
    wall_time: float, what: Any, data: st.DataObject
) -> None:
    payload = bytearray(encoded(Event(wall_time, 1, what)))
    for _ in range(data.draw(st.integers(1, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ValueError):
        decode_event(bytes(payload))


@pytest.mark.parametrize("what", [None, 3, [("loss", 1.0)]])
def test_what_no_event_carries_is_refused(what: Any) -> None:
    with pytest.raises(TypeError, match=r"event\.what must be a version"):
        encode_event(Event(0.0, 0, what))
