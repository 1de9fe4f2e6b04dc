"""Histogram statistics of a run, as the reader gives the histograms one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindsummary_lightning import SummaryReader, SummaryRecord
from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileformat.framing import HEADER_SIZE, frame
from mindsummary_lightning.fileformat.summary_codec import encode_event
from mindsummary_lightning.values import Event, Histogram
from tests.reading.runs import histogram, values_at, write_summary


def check(run: Path) -> None:
    reader = SummaryReader(run)
    statistics = reader.histogram_statistics()
    assert sorted(statistics) == reader.tags()["histogram"]
    for tag, columns in statistics.items():
        samples = [(step, value) for step, _, value in reader.histograms(tag)]
        assert columns.steps.tolist() == [step for step, _ in samples]
        for found, name in ((columns.minimum, "min"), (columns.maximum, "max")):
            expected = [
                np.nan if getattr(value, name) is None else getattr(value, name)
                for _, value in samples
            ]
            np.testing.assert_array_equal(found, expected)
        for name in ("count", "nan_count", "pos_inf_count", "neg_inf_count"):
            assert getattr(columns, name).tolist() == [getattr(value, name) for _, value in samples]
        finite = [
            value.count - value.nan_count - value.pos_inf_count - value.neg_inf_count
            for _, value in samples
        ]
        with np.errstate(invalid="ignore", divide="ignore"):
            means = [
                np.float64(np.nan if value.sum is None else value.sum) / number
                if number > 0
                else np.nan
                for number, (_, value) in zip(finite, samples, strict=True)
            ]
        np.testing.assert_array_equal(columns.mean, means)


def test_damage_among_many_events_is_named_with_its_byte(tmp_path: Path) -> None:
    before = [values_at(step, {"loss": 1.0, "w": histogram(1)}) for step in range(1, 50)]
    path = write_summary(tmp_path, [*before, b"".join(frame([b"no event"])), *before])

    with pytest.raises(DamagedFileError) as raised:
        SummaryReader(tmp_path).histogram_statistics()

    assert raised.value.offset == path.read_bytes().index(b"no event") - HEADER_SIZE


def test_numbers_of_a_resumed_run_are_those_of_the_reader(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    for steps in (range(1, 9), range(6, 12)):  # the second fit resumes at step 6
        with SummaryRecord(tmp_path) as record:
            for step in steps:
                record.add_value("scalar", "loss", float(step + len(steps)))
                record.add_value(
                    "histogram", "w", np.append(random.normal(size=20 * step**3), np.nan)
                )
                record.add_value("histogram", "b", random.normal(size=20 * step**3))
                record.record(step)

    check(tmp_path)


def test_what_mindspore_wrote_reads_alike() -> None:
    for path in sorted((Path(__file__).parents[1] / "oracle" / "mindspore_runs").iterdir()):
        if path.is_dir():
            check(path)


def test_statistics_are_those_of_each_value_however_it_is_encoded(tmp_path: Path) -> None:
    def one(count: int, *others: int, **numbers: float | None) -> Histogram:
        found = dict(zip(("nan_count", "pos_inf_count", "neg_inf_count"), others, strict=True))
        edges = np.arange(2.0)
        values = {"min": -1.5, "max": 8.25, "sum": 3.0 * count, **numbers}
        return Histogram(edges, edges + 1, np.array([count, 0]), count, **found, **values)

    usual = [one(count, 0, 0, 0) for count in (0, 1, 127, 128, 2**14, 2**35, 2**62)]
    unusual = [
        one(9, 1, 0, 0),
        one(9, 0, 2, 0),
        one(9, 0, 0, 3),
        one(9, 1, 2, 3, min=None),
        one(9, 4, 3, 2, max=None, sum=None),
    ]
    values = [value for pair in zip(usual, unusual, strict=False) for value in pair] + usual[5:]
    steps = list(enumerate(values))
    write_summary(tmp_path, [values_at(step, {"a": value}) for step, value in steps[:5]], 99)
    write_summary(
        tmp_path,
        [values_at(step, {"a": value, "b": values[-1 - step]}) for step, value in steps[5:]],
        1000,
    )

    check(tmp_path)


def test_statistics_of_very_many_histograms_are_all_there(tmp_path: Path) -> None:
    tags = [f"w{number}" for number in range(25)]
    values = tuple((tag, histogram(3, number)) for number, tag in enumerate(tags))
    event = b"".join(encode_event(Event(1.0, 200, values)))
    step = event.index(b"\x10\xc8\x01")
    records = []
    for high in range(2, 15):
        for low in range(128, 256):  # a record with another step, of 128 * high and more
            other = event[:step] + bytes((0x10, low, high)) + event[step + 3 :]
            records.append(b"".join(frame([other])))
    write_summary(tmp_path, records)

    found = SummaryReader(tmp_path).histogram_statistics()

    assert list(found) == tags
    for number, statistics in enumerate(found.values()):
        assert statistics.steps.tolist() == [*range(256, 1920)]
        assert set(statistics.count.tolist()) == {3 + number}


@st.composite
def _histograms(draw: st.DrawFn) -> Histogram:
    counts = draw(st.lists(st.integers(0, 2**40), max_size=12))
    edges = np.arange(len(counts), dtype=float)
    numbers = {
        name: draw(st.floats(allow_nan=False, allow_infinity=False) | st.none())
        for name in ("min", "max", "sum")
    }
    others = {
        name: draw(st.integers(0, 3)) for name in ("nan_count", "pos_inf_count", "neg_inf_count")
    }
    return Histogram(
        edges, edges, np.array(counts, np.int64), draw(st.integers(0, 2**62)), **others, **numbers
    )


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 2**40), st.sampled_from("ab"), _histograms()),
        min_size=1,
        max_size=9,
    )
)
def test_statistics_are_those_of_the_whole_values(
    tmp_path_factory: pytest.TempPathFactory, samples: list[tuple[int, str, Histogram]]
) -> None:
    run = tmp_path_factory.mktemp("run")
    write_summary(run, [values_at(step, {tag: value, "loss": 0.5}) for step, tag, value in samples])

    check(run)
