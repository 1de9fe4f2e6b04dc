"""Columns and outlines say what protobuf says of the same records, however the records
are grouped.
"""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindsummary_lightning.fileformat.event_outline import outline_event
from mindsummary_lightning.fileformat.scalar_columns import ScalarDecoder
from mindsummary_lightning.fileformat.summary_codec import decode_event, encode_event
from mindsummary_lightning.values import Event, Image
from mindsummary_lightning.values.events import SummaryValue
from tests.support import counted_calls

_STEPS = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 300)
_TAGS = st.text(max_size=5) | st.sampled_from(["loss", "acc", "\x1dabcd", "\x10", "ø"])


def payload_of(wall_time: float, step: int, pairs: list[tuple[str, SummaryValue]]) -> bytes:
    return b"".join(encode_event(Event(wall_time, step, tuple(pairs))))


_PAYLOADS = st.builds(
    payload_of, st.floats(), _STEPS, st.lists(st.tuples(_TAGS, st.floats(width=32)), max_size=3)
)
_Scalars = list[tuple[int, int, float, str, float]]  # row, step, wall time, tag, value


def found(batches: list[list[bytes]]) -> _Scalars:
    decoder, scalars, first = ScalarDecoder(), [], 0
    for payloads in batches:
        columns, others = decoder.decode(payloads)
        rows = [row for one in columns for row in one.rows.tolist()] + [row for row, _ in others]
        assert sorted(rows) == list(range(len(payloads)))
        for one in columns:
            for tag, values in zip(one.tags, one.values.tolist(), strict=True):
                numbers = (one.rows.tolist(), one.steps.tolist(), one.wall_times.tolist(), values)
                for row, step, wall_time, value in zip(*numbers, strict=True):
                    scalars.append((first + row, step, wall_time, tag, value))
        for row, outline in others:
            for value in () if isinstance(outline, ValueError) else outline.values:
                if value.kind == "scalar":
                    scalars.append(
                        (first + row, outline.step, outline.wall_time, value.tag, value.scalar)
                    )
        first += len(payloads)
    return sorted(scalars, key=lambda scalar: (scalar[0], scalar[3], repr(scalar)))


def expected(batches: list[list[bytes]]) -> _Scalars:
    scalars = []
    for row, event in enumerate(
        map(decode_event, (payload for payloads in batches for payload in payloads))
    ):
        for tag, value in event.what if isinstance(event.what, tuple) else ():
            if isinstance(value, float):
                scalars.append((row, event.step, event.wall_time, tag, value))
    return sorted(scalars, key=lambda scalar: (scalar[0], scalar[3], repr(scalar)))


def check(batches: list[list[bytes]]) -> None:
    assert repr(found(batches)) == repr(expected(batches))


@pytest.mark.slow
@given(st.lists(_PAYLOADS, min_size=1, max_size=12), st.integers(1, 3), st.integers(1, 9))
@settings(max_examples=200, deadline=None)
def test_columns_say_what_protobuf_says(payloads: list[bytes], times: int, size: int) -> None:
    several = payloads * times
    check([several[begin : begin + size] for begin in range(0, len(several), size)])


@pytest.mark.slow
@given(_PAYLOADS, st.integers(0, 60), st.integers(0, 255))
@settings(max_examples=300, deadline=None)
def test_a_changed_byte_never_makes_the_columns_differ_from_protobuf(
    payload: bytes, place: int, byte: int
) -> None:
    changed = bytearray(payload)
    changed[place % len(changed)] = byte
    try:
        decode_event(bytes(changed))
        # stricter than protobuf, which is fine: the reader names the record then
        outline_event(bytes(changed))
    except ValueError:
        return

    check([[payload, payload, bytes(changed)], [bytes(changed), payload]])


def test_columns_say_what_protobuf_says_of_events_with_few_sets_of_tags_in_any_order() -> None:
    chance = random.Random(3)
    sets = [["loss"], ["lose"], ["acc", "loss"], ["loss", "acc"], ["abcdefghij"], [], ["ø", "loss"]]
    steps = [0, 1, 127, 128, 300, 2**14, 2**40, 2**63 - 1, -1]
    payloads = [
        payload_of(
            chance.uniform(0, 2e9),
            chance.choice(steps),
            [(tag, chance.uniform(-2, 2)) for tag in chance.choice(sets)],
        )
        for _ in range(400)
    ]

    check([payloads[:250], payloads[250:280], payloads[280:281], payloads[281:]])


def test_an_event_whose_length_occurs_once_is_a_column_among_few_and_an_outline_among_many() -> (
    None
):
    others = [payload_of(1.0, 1, [("a", 1.0)])] * 40
    alone = payload_of(1.0, 1, [("alone", 1.0)])

    for number in (31, 32, 40):
        columns, outlined = ScalarDecoder().decode([*others[:number], alone])
        assert [(one.tags, one.rows.tolist()) for one in columns] == [(("a",), [*range(number)])]
        assert [row for row, _ in outlined] == [number]


def test_the_layouts_of_earlier_records_are_remembered_once_each() -> None:
    decoder, fresh = ScalarDecoder(), ScalarDecoder()
    batch = [payload_of(1.0, step, [(tag, 1.0)]) for step in range(1, 90) for tag in ("a", "long")]
    assert decoder.nbytes == 0
    decoder.decode(batch)
    once = decoder.nbytes

    for _ in range(4):
        decoder.decode(batch)

    assert 0 < decoder.nbytes == once
    for tag in ("a", "long"):  # neither times nor steps nor values are remembered
        fresh.decode([payload_of(1.0, 1, [(tag, 1.0)])] * 20)
    assert fresh.nbytes == once


def test_tags_of_the_same_lengths_share_a_layout() -> None:
    one, both = ScalarDecoder(), ScalarDecoder()
    batches = [[payload_of(1.0, 1, [(tag, 1.0)])] * 9 for tag in ("aa", "bb", "other")]
    both.decode(batches[2])
    other = both.nbytes
    one.decode(batches[0])
    both.decode([*batches[0], *batches[1]])

    assert (2 * (both.nbytes - other), one.nbytes > 0) == (3 * one.nbytes, True)
    check([batches[0] + batches[1], batches[1] + batches[0]])


def test_of_records_of_one_length_sixty_four_layouts_are_remembered() -> None:
    decoder, sizes = ScalarDecoder(), []
    for begin in range(70):
        tags = ["x" * (begin + 1), "x" * (100 - begin)]  # the first value lies elsewhere in each
        decoder.decode([payload_of(1.0, 1, [(tag, 1.0) for tag in tags])] * 9)
        sizes.append(decoder.nbytes)

    assert sizes == [min(number, 64) * sizes[0] for number in range(1, 71)]


def test_layouts_beyond_four_megabytes_are_forgotten() -> None:
    decoder, sizes = ScalarDecoder(), []
    for length in range(200_000, 200_012):
        decoder.decode([payload_of(1.0, 1, [("x" * length, 1.0)])] * 2)
        sizes.append(decoder.nbytes)

    assert sizes[9] < 1 << 22 < sizes[10]
    assert sizes[:11] == sorted(sizes[:11])
    assert 0 < sizes[11] < sizes[1]


def test_one_record_with_another_tag_is_told_from_many_wherever_it_stands() -> None:
    one, other = (payload_of(1.0, 1, [(tag, 1.0)]) for tag in ("loss", "lose"))

    for row in range(300):
        tags = [tag for _, _, _, tag, _ in found([[one] * row + [other] + [one] * (299 - row)])]
        assert (len(tags), tags.count("lose"), tags[row]) == (300, 1, "lose")


def test_a_tag_behind_its_value_is_no_layout() -> None:
    # Field order is free in protobuf; the tag's last bytes look like a scalar here.
    value = b"\x1d" + struct.pack("<f", 1.0) + b"\x0a\x06a\x1dabcd"
    summary = b"\x0a" + bytes((len(value),)) + value
    payload = b"\x09" + bytes(8) + b"\x2a" + bytes((len(summary),)) + summary

    assert found([[payload] * 3]) == [(row, 0, 0.0, "a\x1dabcd", 1.0) for row in range(3)]


def test_tags_that_differ_where_other_events_have_values_are_told_apart() -> None:
    # All of one length; in the first a value lies where the others keep the middle of their tags.
    events = [[("a", 1.0), ("b", 2.0)], [("xxAAAAxxxxx", 3.0)], [("xxBBBBxxxxx", 4.0)]]
    payloads = [payload_of(1.0, 1, event) for event in events]  # type: ignore[arg-type]

    assert len(set(map(len, payloads))) == 1
    check([payloads * 3, payloads])


def test_scalars_beside_other_kinds_and_records_of_any_size_are_read_alike() -> None:
    wide = [(f"tag{number}", float(number)) for number in range(3000)]  # 60 kB
    mixed = [("a", 1.0), ("b", Image(1, 1, b"png")), ("a", 2.0)]

    check(
        [[payload_of(step, step, pairs) for pairs in (wide, mixed)] for step in (1, 127, 128, 300)]
    )  # type: ignore[arg-type]


def test_what_is_not_an_event_is_named_and_costs_itself_only() -> None:
    good = payload_of(1.0, 1, [("a", 1.0)])

    columns, others = ScalarDecoder().decode([good, b"\xff" * len(good), good, b"no event"])

    assert [(row, type(outline) is ValueError) for row, outline in others] == [(1, True), (3, True)]
    assert [one.rows.tolist() for one in columns] == [[0, 2]]


@pytest.mark.slow
@pytest.mark.parametrize(
    "names", ["metric{:02d}", "{0:d}" + "x" * 9], ids=["of one length", "of two lengths"]
)
def test_of_a_thousand_sets_of_tags_a_batch_is_compared_with_a_few(names: str) -> None:
    chance = random.Random(1)
    tags = [names.format(number) for number in range(20)]
    sets = [sorted(chance.sample(tags, 8)) for _ in range(1000)]
    batches = [
        [
            payload_of(step, step, [(tag, 1.0) for tag in sets[step % 1000]])
            for step in range(begin, begin + 2000)
        ]
        for begin in range(128, 8128, 2000)
    ]
    decoder = ScalarDecoder()
    with counted_calls() as counted:
        columns = [one for batch in batches for one in decoder.decode(batch)[0]]

    lengths = {len(payload) for batch in batches for payload in batch}
    # each takes up to a batch of bytes
    assert 0 < counted["frombuffer"] <= 12 * len(lengths) * len(batches)
    assert len(columns) <= 8 * len(lengths) * len(batches)
    check(batches[:1])
