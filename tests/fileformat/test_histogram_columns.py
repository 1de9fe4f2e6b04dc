"""Columns of scalars and histogram statistics say what the general decoder says, whatever an event looks like."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindsummary_lightning.fileformat.histogram_columns import HistogramColumns, HistogramEventDecoder
from mindsummary_lightning.fileformat.summary_codec import decode_event, encode_step
from mindsummary_lightning.values import Histogram, Image
from mindsummary_lightning.values.events import SummaryValue

_NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.none()


@st.composite
def _histograms(draw: st.DrawFn) -> Histogram:
    counts = draw(st.lists(st.integers(0, 2**40), max_size=12))
    edges = np.arange(len(counts), dtype=float)
    numbers = {name: draw(_NUMBERS) for name in ("min", "max", "sum")}
    others = {name: draw(st.integers(0, 3)) for name in ("nan_count", "pos_inf_count", "neg_inf_count")}
    return Histogram(edges, edges, np.array(counts, np.int64), draw(st.integers(0, 2**62)), **others, **numbers)


_VALUES = _histograms() | st.floats(width=32) | st.just(Image(1, 1, b"\x89PNG"))
_TAGS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=140)
_PAIRS = st.lists(st.tuples(_TAGS, _VALUES), min_size=1, max_size=4)
_EVENTS = st.lists(st.tuples(st.integers(0, 2**40), _PAIRS), min_size=1, max_size=6)


def _payloads(events: list[tuple[int, list[tuple[str, SummaryValue]]]]) -> list[bytes]:
    return [b"".join(map(bytes, payload)) for step, pairs in events for payload in encode_step(1.5, step, pairs)]


def _columns(payloads: list[bytes], group: int = 1000) -> list[HistogramColumns]:
    """The columns, decoded a few events at a time; rows count from the first of all."""
    decoder, columns = HistogramEventDecoder(), []
    for begin in range(0, len(payloads), group):
        for payload in payloads[begin : begin + group]:
            decoder.add(payload)
        columns += [part._replace(rows=begin + part.rows) for part in decoder.take()]
    return columns


def _check(payloads: list[bytes], group: int = 1000) -> None:
    scalars, histograms = [], []
    for columns in _columns(payloads, group):
        for index, (row, step) in enumerate(zip(columns.rows.tolist(), columns.steps.tolist(), strict=True)):
            scalars += [(row, step, tag, columns.scalars[at, index]) for at, tag in enumerate(columns.scalar_tags)]
            histograms += [
                (row, step, tag, columns.numbers[at, index].tolist(), columns.counts[at, index].tolist())
                for at, tag in enumerate(columns.tags)
            ]
    expected_scalars, expected = [], []
    for row, payload in enumerate(payloads):
        event = decode_event(payload)
        for tag, value in event.what if isinstance(event.what, tuple) else ():
            if isinstance(value, float):
                expected_scalars.append((row, event.step, tag, np.float32(value)))
            elif isinstance(value, Histogram):
                numbers = [np.nan if number is None else number for number in (value.min, value.max, value.sum)]
                counts = [value.count, value.nan_count, value.pos_inf_count, value.neg_inf_count]
                expected.append((row, event.step, tag, numbers, counts))
    assert sorted(map(repr, scalars)) == sorted(map(repr, expected_scalars))
    assert sorted(map(repr, histograms)) == sorted(map(repr, expected))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(_EVENTS, st.integers(1, 3), st.integers(1, 9))
def test_columns_say_what_the_general_decoder_says(
    events: list[tuple[int, list[tuple[str, SummaryValue]]]], times: int, group: int
) -> None:
    _check(_payloads(events * times), group)


def test_events_of_one_shape_are_one_block() -> None:
    def histogram(count: int) -> Histogram:
        return Histogram(np.zeros(9), np.ones(9), np.full(9, count), 9 * count, min=0.0, max=1.0, sum=2.0)

    events = [(step, [("loss", 0.5), ("w", histogram(step**3)), ("b", histogram(7))]) for step in range(1, 200)]

    (columns,) = _columns(_payloads(events))

    assert (columns.rows.size, columns.tags, columns.scalar_tags) == (199, ("w", "b"), ("loss",))
    _check(_payloads(events))


def test_more_shapes_than_are_put_side_by_side_read_alike() -> None:
    one = Histogram(np.zeros(2), np.ones(2), np.full(2, 3), 6, min=0.0, max=1.0, sum=2.0)

    _check(_payloads([(step, [(f"w{tag}", one) for tag in range(step % 23 + 1)]) for step in range(60)]))


def test_an_empty_histogram_at_the_very_end_reads_alike() -> None:
    _check(
        [b"\x09" + bytes(8) + b"\x10\x01\x2a\x07\x0a\x05\x0a\x01w\x4a\x00", b"\x09" + bytes(8) + b"\x10\x02\x2a\x00"]
    )


def test_what_mindspore_wrote_reads_alike() -> None:
    from mindsummary_lightning.fileio.scan import RecordScanner

    folder = Path(__file__).parents[1] / "oracle" / "mindspore_runs"
    for path in sorted(folder.glob("*/*_MS")):
        _check(list(RecordScanner(str(path))))
