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
from mindsummary_lightning.values import Event, Graph, GraphNode, Image, Tensor, kind_of
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
    assert [(value.tag, value.kind) for value in outline.values] == [
        ("s", "scalar"),
        ("i", "image"),
        ("h", "histogram"),
        ("t", "tensor"),
    ]
    assert outline.values[0].scalar == 0.5
    image = decode_value(payload[outline.values[1].start : outline.values[1].end])
    assert image == Image(1, 2, b"png")


def test_an_outline_tells_a_graph_and_a_version_from_values() -> None:
    graph = b"".join(encode_event(Event(1.0, 0, Graph((GraphNode("1", "ReLU"),)))))
    version = b"".join(encode_event(Event(1.0, 0, "MindSpore.Event:1")))

    assert [outline_event(payload).holds for payload in (graph, version)] == ["graph", "version"]


def test_of_a_version_behind_values_only_the_version_counts() -> None:
    values = b"".join(encode_event(Event(1.0, 1, (("a", 1.0),))))
    version = b"\x1a\x01v"

    assert decode_event(values + version).what == "v"
    assert outline_event(values + version)[2:] == ("version", (), None)


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


@pytest.mark.slow
def test_an_event_is_outlined_alike_whatever_was_seen_before() -> None:
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
    for _ in range(3000):  # mostly where the heads are
        payload = bytearray(other)
        payload[min(int(chance.exponential(200)), len(other) - 1)] = chance.integers(256)
        payloads.append(bytes(payload))

    known = outline_event(like)
    assert known.histograms
    for payload in payloads:
        assert _flat(payload, known) == _flat(payload, None)


@pytest.mark.parametrize("payload", [b"\xff" * 12, b"\x2a\x05ab", b"\x07", b"\x00\x00"])
def test_bytes_that_are_not_an_event_are_refused(payload: bytes) -> None:
    with pytest.raises(ValueError, match="not a summary event"):
        outline_event(payload)


def test_a_value_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="no summary value of a known kind"):
        decode_value(b"\x0a\x01a")


def test_a_value_whose_tag_is_no_text_is_refused() -> None:
    # protobuf's own words where it checks by itself
    with pytest.raises(ValueError, match=r"(?i)utf-8"):
        decode_value(b"\x0a\x01\xff\x1d\0\0\0\0")
