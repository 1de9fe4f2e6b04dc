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
    checked_event,
    decode_event,
    decode_value,
    encode_event,
    encode_step,
)
from mindsummary_lightning.values import (
    DataType,
    Event,
    Histogram,
    Image,
    LandscapeMetadata,
    LossLandscape,
    Points,
    Tensor,
)
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


def test_tensors_and_landscapes_have_events_of_their_own_behind_the_others() -> None:
    points = Points(np.arange(2.0), np.arange(3.0), np.arange(6.0).reshape(3, 2))
    image, landscape = Image(1, 1, b"png"), LossLandscape(points)
    one, two = (Tensor(np.full(n, n, np.float32)) for n in (1, 2))
    values = [("t", one), ("a", 1.0), ("l", landscape), ("i", image), ("u", two), ("b", 2.0)]

    def tags(pairs: Any) -> list[list[str]]:
        events = [decode_event(b"".join(payload)) for payload in encode_step(2.5, 7, pairs)]
        assert {(event.wall_time, event.step) for event in events} == {(2.5, 7)}
        return [[tag for tag, _ in event.what] for event in events]  # type: ignore[misc,union-attr]

    assert tags(values) == [["a", "i", "b"], ["t"], ["l"], ["u"]]
    assert tags(values[:1]) == [["t"]]
    assert tags(values[1:2]) == [["a"]]
    assert tags(values[3:4]) == [["i"]]


def test_a_landscape_comes_back_with_each_array_in_its_place() -> None:
    surface = Points(np.arange(2.0), np.arange(5.0, 8), np.arange(6.0).reshape(3, 2))
    path = Points(np.array([1.0, 2]), np.array([3.0, 4]), np.array([5.0, 6]))
    metadata = LandscapeMetadata("PCA", "epoch", 4)
    full = LossLandscape(surface, (3, 9), path, (0.5, 1.5, 2.5), metadata)

    for landscape in (full, LossLandscape(surface)):
        event = Event(1.0, 2, (("l", landscape),))
        assert same(decode_event(encoded(event)), event)


@pytest.mark.parametrize(
    ("shape", "end"), [((2, 2), ([1.0, 2.0],) * 3), ((1,), (1.0,) * 3), ((0,), None)]
)
def test_the_end_of_a_landscape_of_another_writer_is_the_first_of_each_axis(
    shape: tuple[int, ...], end: Any
) -> None:
    message = summary_pb2.Event(wall_time=2.0)
    landscape = message.summary.value.add(tag="l").loss_landscape
    for axis in ("x", "y", "z"):
        getattr(landscape.landscape, axis).dims.append(0)
        tensor = getattr(landscape.convergence_point, axis)
        tensor.dims.extend(shape)
        tensor.float_data.extend([1.0, 2.0, 3.0, 4.0][: int(np.prod(shape))])

    ((_, value),) = decode_event(message.SerializeToString()).what  # type: ignore[misc,union-attr]
    assert (value.convergence_point, value.path, value.intervals) == (end, None, ())


@pytest.mark.parametrize("empty", ["x", "y", "z"])
def test_a_landscape_of_another_writer_whose_end_lacks_an_axis_has_no_end(empty: str) -> None:
    message = summary_pb2.Event(wall_time=2.0)
    landscape = message.summary.value.add(tag="l").loss_landscape
    for axis in ("x", "y", "z"):
        getattr(landscape.landscape, axis).dims.append(0)
        tensor = getattr(landscape.convergence_point, axis)
        tensor.dims.append(int(axis != empty))
        tensor.float_data.extend([1.0] * (axis != empty))

    ((_, value),) = decode_event(message.SerializeToString()).what  # type: ignore[misc,union-attr]
    assert value.convergence_point is None


def test_a_histogram_comes_back_with_each_number_in_its_place() -> None:
    histogram = Histogram(
        np.array([0.5, 1.5]), np.array([1.0, 2.0]), np.array([3, 4]), 12, 1, 2, 3, -1.5, 3.25, 6.0
    )
    for value in (histogram, Histogram(np.empty(0), np.empty(0), np.empty(0), 3, 3)):
        event = Event(1.0, 2, (("h", value),))
        assert same(decode_event(encoded(event)), event)


@pytest.mark.parametrize("value", [0.5, Image(2, 3, b"png", 1), Tensor(np.ones((2, 3)))], ids=repr)
def test_the_message_of_a_value_is_decoded_by_itself(value: Any) -> None:
    message = summary_pb2.Event.FromString(encoded(Event(0.0, 1, (("v", value),))))

    assert same(decode_value(message.summary.value[0].SerializeToString()), value)


def test_an_event_is_checked_by_both_ways_of_reading_it() -> None:
    event = Event(1.0, 2, (("a", 0.5),))
    message = summary_pb2.Event(wall_time=2.0)
    message.summary.value.add(tag="t").tensor.dims.append(3)

    assert checked_event(encoded(event)) == event
    with pytest.raises(ValueError, match="cannot have 0 elements"):
        checked_event(message.SerializeToString())
    group = encoded(event) + b"\x33\x34"  # which protobuf skips
    assert decode_event(group) == event
    with pytest.raises(ValueError, match="wire type 3 at byte"):
        checked_event(group)


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


@pytest.mark.parametrize(
    "field", ["float_data", "double_data", "int64_data", "int32_data", "uint64_data"]
)
def test_data_fields_of_other_writers_are_read(field: str) -> None:
    message = summary_pb2.Event(wall_time=2.0)
    tensor = message.summary.value.add(tag="t").tensor
    tensor.data_type = 5
    tensor.dims.extend([2, 3])
    getattr(tensor, field).extend([4, 5, 6, 7, 8, 9])

    ((_, value),) = decode_event(message.SerializeToString()).what  # type: ignore[misc,union-attr]
    assert value.data.tolist() == [[4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]
    assert value.data_type is DataType.INT64


@pytest.mark.parametrize(("dims", "elements"), [([3], 1), ([2**32, 2**32], 0), ([], 0), ([0], 1)])
def test_dimensions_that_contradict_the_elements_are_an_error(
    dims: list[int], elements: int
) -> None:
    message = summary_pb2.Event(wall_time=2.0)
    tensor = message.summary.value.add(tag="t").tensor
    tensor.dims.extend(dims)
    tensor.float_data.extend([1.0] * elements)

    with pytest.raises(ValueError, match=rf"a tensor of shape .* cannot have {elements} elements"):
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
