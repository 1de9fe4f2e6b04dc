from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindsummary_lightning.fileformat.event_outline import (
    EventOutline,
    ValueLocation,
    outline_event,
)
from mindsummary_lightning.fileformat.summary_codec import decode_event, decode_value, encode_event
from mindsummary_lightning.fileformat.wire import varint
from mindsummary_lightning.values import Event, Graph, GraphNode, Image, Tensor, kind_of
from tests.fileformat.sameness import same
from tests.reading.runs import histogram

_MIXED = Event(
    2.5,
    -3,
    (
        ("s", 0.5),
        ("i", Image(1, 2, b"png")),
        ("h", histogram(1, 2)),
        ("t", Tensor(np.ones((2, 3), np.float32))),
    ),
)


def test_an_outline_names_the_values_in_order_and_says_where_they_lie() -> None:
    payload = b"".join(encode_event(_MIXED))

    outline = outline_event(payload)

    assert (outline.wall_time, outline.step, outline.holds) == (2.5, -3, "values")
    assert outline.histograms is None
    assert [(*value[:2], *value[4:]) for value in outline.values] == [
        ("s", "scalar", 0.5, 0, 0),
        ("i", "image", 0.0, 2, 1),
        ("h", "histogram", 0.0, 0, 0),
        ("t", "tensor", 0.0, 0, 0),
    ]
    assert outline.tags == [(kind, tag) for tag, kind, *_ in outline.values]
    assert outline.values[-1].end == len(payload)
    values = [decode_value(payload[value.start : value.end]) for value in outline.values]
    assert same(tuple(zip("siht", values, strict=True)), _MIXED.what)


def test_an_outline_tells_a_graph_and_a_version_from_values() -> None:
    graph = b"".join(encode_event(Event(1.0, 0, Graph((GraphNode("1", "ReLU"),)))))
    version = b"".join(encode_event(Event(1.0, 0, "MindSpore.Event:1")))

    unknown = b"".join(encode_event(Event(1.0, 3, ())))[:11] + b"\x32\x02\x08\x01"  # field 6

    assert [outline_event(payload) for payload in (graph, version, unknown)] == [
        EventOutline(1.0, 0, "graph", ()),
        EventOutline(1.0, 0, "version", ()),
        EventOutline(1.0, 3, None, ()),
    ]


def test_of_a_version_behind_values_only_the_version_counts() -> None:
    values = b"".join(encode_event(Event(1.0, 1, (("a", 1.0),))))
    version = b"\x1a\x01v"

    assert decode_event(values + version).what == "v"
    assert outline_event(values + version)[2:] == ("version", (), None)


def _value(*parts: bytes) -> bytes:
    """A value of an event, of parts in any order."""
    message = b"".join(parts)
    return b"\x0a" + varint(len(message)) + message


def _event(*values: bytes) -> bytes:
    summary = b"".join(values)
    return b"\x09" + bytes(8) + b"\x2a" + varint(len(summary)) + summary


_TAG, _SCALAR, _UNKNOWN = b"\x0a\x02ab", b"\x1d\0\0\0\x3f", b"\x58\x96\x01"
# 300 rows of 7 pixels, and fields of their numbers that are no ints
_IMAGE = b"\x22\x10\x18\x03\x10\x07\x08\xac\x02\x22\x01p\x0a\x01x\x12\x01x"


@pytest.mark.parametrize(
    ("message", "found"),
    [
        ((_SCALAR, _TAG), [("ab", "scalar", 0.5, 0, 0)]),
        ((_TAG, _UNKNOWN, _SCALAR), [("ab", "scalar", 0.5, 0, 0)]),
        ((_TAG, _SCALAR, _UNKNOWN), [("ab", "scalar", 0.5, 0, 0)]),
        ((_SCALAR,), [("", "scalar", 0.5, 0, 0)]),
        ((_TAG, _IMAGE), [("ab", "image", 0.0, 7, 300)]),
        ((_IMAGE, _TAG), [("ab", "image", 0.0, 7, 300)]),
        ((_TAG, _UNKNOWN, _IMAGE), [("ab", "image", 0.0, 7, 300)]),
        ((_TAG, b"\x4a\0", _IMAGE), [("ab", "image", 0.0, 7, 300)]),
        ((_TAG, _IMAGE, _UNKNOWN), [("ab", "image", 0.0, 7, 300)]),
        ((_TAG, b"\x22\x02\x10\x07"), [("ab", "image", 0.0, 7, 0)]),
        ((b"\x22\x02\x08\x07", _TAG), [("ab", "image", 0.0, 0, 7)]),
        ((_TAG, b"\x22\0"), [("ab", "image", 0.0, 0, 0)]),
        ((b"\x4a\0", _TAG), [("ab", "histogram", 0.0, 0, 0)]),
        ((b"\x52\x01x", _TAG), [("ab", "loss_landscape", 0.0, 0, 0)]),
        ((_TAG, b"\x42\0"), [("ab", "tensor", 0.0, 0, 0)]),
        ((_TAG, b"\x25\0\0\0\0", b"\x19" + bytes(8)), []),  # of other wire types
        ((_TAG, b"\x25\x03\x08\x01x"), []),  # would fit if it were an image
        ((_TAG, b"\x1a\x03abc"), []),  # or a scalar
        ((_TAG, _UNKNOWN), []),
        ((_TAG,), []),
        ((), []),
    ],
)
def test_fields_of_a_value_may_have_any_order_and_others_between(
    message: tuple[bytes, ...], found: list[tuple[object, ...]]
) -> None:
    payload = _event(_value(_TAG, _SCALAR), _value(*message), _value(_TAG, _SCALAR))
    size = sum(map(len, message))

    first, *values, last = outline_event(payload).values
    assert (first[:2], first.end) == (("ab", "scalar"), first.start + 9)
    assert (last[:2], last.start, last.end) == (first[:2], first.end + size + 4, len(payload))
    assert [(*value[:2], *value[4:]) for value in values] == found
    assert [value[2:4] for value in values] == [(first.end + 2, first.end + 2 + size)] * len(found)


@pytest.mark.parametrize("length", [0, 1, 127, 128, 129, 300])
def test_a_tag_of_any_length_is_found(length: int) -> None:
    tag = "x" * (length - 1) + "J" * (length > 0)  # the key of a histogram too
    field = b"\x0a" + varint(length) + tag.encode()
    payload = _event(_value(field, b"\x4a\x49" + b"p" * 73), _value(field, _SCALAR))

    histogram, scalar = outline_event(payload).values
    assert (histogram.tag, histogram.kind) == (tag, "histogram")
    assert (scalar.tag, scalar.kind, scalar.scalar) == (tag, "scalar", 0.5)


def test_values_between_fields_that_are_not_known_and_in_two_messages_are_found() -> None:
    value = _value(_TAG, _SCALAR)
    payload = b"\x31" + bytes(8) + _event(value, b"\x58\x96\x01", b"\x65abcd", value, b"\x72\x01x")
    again = payload + b"\x2a" + varint(len(value)) + value + b"\x10\x05"

    starts = [len(payload) - 31, len(payload) - 12]
    assert outline_event(payload).values == tuple(
        ValueLocation("ab", "scalar", start, start + 9, 0.5) for start in starts
    )
    assert outline_event(again)[1:3] == (5, "values")
    assert [location.start for location in outline_event(again).values] == [
        *starts,
        len(payload) + 4,
    ]


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), min_size=1, max_size=3))
@settings(max_examples=400, deadline=None)
def test_an_outline_of_damaged_bytes_agrees_with_protobuf_or_says_so(
    changes: list[tuple[int, int]],
) -> None:
    payload = bytearray(b"".join(encode_event(_MIXED)))
    for place, byte in changes:
        payload[place % len(payload)] = byte
    try:
        event = decode_event(bytes(payload))
    except ValueError:
        event = None
    try:
        outline = outline_event(bytes(payload))
    except ValueError:
        return  # stricter is fine: the reader names the record then

    if event is not None and isinstance(event.what, tuple):
        assert [(value.tag, value.kind) for value in outline.values] == [
            (tag, kind_of(what)) for tag, what in event.what
        ]
        assert repr((outline.wall_time, outline.step)) == repr((event.wall_time, event.step))


def _of_many(step: int, sizes: np.ndarray, image: int = 5) -> bytes:
    values = [
        (f"layer{index}.weight/auto", histogram(*range(1, size)))
        for index, size in enumerate(sizes.tolist())
    ]
    return b"".join(
        encode_event(Event(1.0, step, (("loss", 0.5), *values, ("i", Image(1, 2, bytes(image))))))
    )


def _flat(payload: bytes, like: EventOutline | None) -> object:
    """What an outline says, ``None`` if it is refused."""
    try:
        outline = outline_event(payload, like)
    except ValueError:
        return None
    many = outline.histograms
    places = zip(many.tags, many.starts.tolist(), many.ends.tolist(), strict=True) if many else ()
    histograms = [ValueLocation(tag, "histogram", start, end) for tag, start, end in places]
    return outline[:3], sorted([*outline.values, *histograms], key=lambda value: value.start)


@pytest.mark.parametrize(("number", "are_columns"), [(15, False), (16, True), (17, True)])
def test_sixteen_histograms_of_an_event_are_columns(number: int, are_columns: bool) -> None:
    payload = _of_many(5, np.arange(1, number + 1), 20_000)
    tags = [f"layer{index}.weight/auto" for index in range(number)]

    outline = outline_event(payload)

    assert (outline.histograms is not None) is are_columns
    assert sorted(outline.tags) == sorted(
        [("scalar", "loss"), ("image", "i"), *(("histogram", tag) for tag in tags)]
    )
    if outline.histograms is not None:
        assert outline.histograms.tags == tuple(tags)
        assert outline.histograms.places.tolist() == [*range(1, number + 1)]
        assert outline.histograms.others == (0, number + 1)
        assert [value.tag for value in outline.values] == ["loss", "i"]


def test_of_known_histograms_only_the_places_are_found_anew() -> None:
    first, second = (
        _of_many(300, sizes, image)
        for sizes, image in ((np.arange(1, 21), 5), (np.array([*range(30, 11, -1), 700]), 20_000))
    )
    known = outline_event(first)

    outline = outline_event(second, known)

    assert known.histograms is not None
    assert outline.histograms is not None
    assert outline.histograms.heads is known.histograms.heads
    decoded = decode_event(second).what
    assert isinstance(decoded, tuple)
    places = zip(outline.histograms.starts.tolist(), outline.histograms.ends.tolist(), strict=True)
    values = tuple(decode_value(second[start:end]) for start, end in places)
    assert same(tuple(zip(outline.histograms.tags, values, strict=True)), decoded[1:-1])
    assert outline.values == outline_event(second).values


@pytest.mark.parametrize("changes", [60, pytest.param(3000, marks=pytest.mark.slow)])
def test_an_event_is_outlined_alike_whatever_was_seen_before(changes: int) -> None:
    chance = np.random.default_rng(0)
    like, other = (_of_many(300, chance.integers(1, 40, 20)) for _ in range(2))
    payloads = [
        other,
        _of_many(3, chance.integers(1, 800, 20), 100_000),
        _of_many(3, chance.integers(1, 40, 21)),
    ]
    payloads += [
        other[: len(other) - 7],
        other.replace(b"layer7", b"layer8"),
        other + other,
        other + b"\x1a\x01v",
    ]
    for _ in range(changes):  # mostly where the heads are
        payload = bytearray(other)
        payload[min(int(chance.exponential(200)), len(other) - 1)] = chance.integers(256)
        payloads.append(bytes(payload))

    known = outline_event(like)
    assert known.histograms
    few = outline_event(b"".join(encode_event(_MIXED)))
    for payload in payloads:
        assert _flat(payload, known) == _flat(payload, None)
    assert _flat(other, few) == _flat(other, None)


@pytest.mark.parametrize(
    "payload",
    [
        b"\xff" * 12,
        b"\x2a\x05ab",
        b"\x07",
        b"\x00\x00",
        b"\x10" + b"\x80" * 9,
        b"\x10" + b"\x80" * 10 + b"\x01",
        b"\x09" + bytes(7),
        b"\x31" + bytes(7),
        b"\x35" + bytes(3),
        b"\x32\x02a",
        _event(b"\x0a\x05\x0a\x01a"),
        _event(_value(b"\x0a\x02a")),
        _event(_value(b"\x0a\x01\xff", _SCALAR)),
        _event(_value(_SCALAR, b"\x0a\x01\xff")),
    ],
)
def test_bytes_that_are_not_an_event_are_refused(payload: bytes) -> None:
    with pytest.raises(ValueError, match="not a summary event"):
        outline_event(payload)


def test_numbers_of_up_to_ten_bytes_are_read() -> None:
    for step in (127, 128, 2**14 - 1, 2**14, 2**21, 2**63 - 1, -1, -(2**63)):
        payload = b"\x10" + varint(step) + b"\x18" + varint(step) + b"\x28\x05\x1a\x01v"
        assert outline_event(payload) == EventOutline(0.0, step, "version", ())


def test_a_value_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="no summary value of a known kind"):
        decode_value(b"\x0a\x01a")


def test_a_value_whose_tag_is_no_text_is_refused() -> None:
    # protobuf's own words where it checks by itself
    with pytest.raises(ValueError, match=r"(?i)utf-8"):
        decode_value(b"\x0a\x01\xff\x1d\0\0\0\0")
