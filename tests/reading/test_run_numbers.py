"""Scalars and histogram statistics of a run, as the reader gives them one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mindsummary_lightning import SummaryReader, SummaryRecord
from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileformat.framing import HEADER_SIZE, frame
from mindsummary_lightning.reading import run_numbers
from mindsummary_lightning.reading.run_numbers import read_numbers
from tests.reading.runs import histogram, values_at, write_summary


@pytest.fixture
def run(tmp_path: Path) -> Path:
    random = np.random.default_rng(1)
    for steps in (range(1, 9), range(6, 12)):  # the second fit resumes at step 6
        with SummaryRecord(tmp_path) as record:
            for step in steps:
                record.add_value("scalar", "loss", float(step + len(steps)))
                record.add_value("histogram", "w", np.append(random.normal(size=20), np.nan))
                record.record(step)
    return tmp_path


def test_damage_among_many_events_is_named_with_its_byte(tmp_path: Path) -> None:
    before = [values_at(step, {"loss": 1.0, "w": histogram(1)}) for step in range(1, 50)]
    path = write_summary(tmp_path, [*before, b"".join(frame([b"no event"])), *before])

    with pytest.raises(DamagedFileError) as raised:
        read_numbers(str(tmp_path))

    assert raised.value.offset == path.read_bytes().index(b"no event") - HEADER_SIZE


def test_numbers_are_those_of_the_reader(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_numbers, "_MAX_GROUP", 1)  # many groups
    numbers, reader = read_numbers(str(run)), SummaryReader(run)

    series, statistics = reader.scalars("loss"), list(reader.histograms("w"))
    assert numbers.scalars["loss"].steps.tolist() == series.steps.tolist()
    assert numbers.scalars["loss"].values.tolist() == series.values.tolist()
    columns = reader.histogram_statistics()["w"]
    assert columns.steps.tolist() == [step for step, _, _ in statistics]
    assert columns.mean.tolist() == [value.sum / 20 for _, _, value in statistics]
    assert (columns.nan_count.tolist(), columns.count.tolist()) == ([1] * 11, [21] * 11)
