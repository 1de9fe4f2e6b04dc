"""Histograms of records with many of them are located as columns; what is read is the same as of
records with few.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mindsummary_lightning import SummaryReader, SummaryRecord
from mindsummary_lightning.values import Image
from tests.reading.runs import histogram, values_at, write_summary


def _write(directory: Path, steps: int, tags: int, rare: int = 0) -> list[str]:
    """A run of so many histograms a step; every ``rare``-th step holds one of them alone, beside an
    image.
    """
    random = np.random.default_rng(0)
    names = [f"layer{index}.weight" for index in range(tags)]
    with SummaryRecord(directory) as record:
        for step in range(1, steps + 1):
            record.add_value("scalar", "loss", 1.0 / step)
            is_rare = bool(rare) and step % rare == 0
            if is_rare:
                record.add_value("image", "input", np.zeros((1, 3, 4, 4), np.float32))
            for index, name in enumerate(names[: 1 if is_rare else None]):
                record.add_value(
                    "histogram",
                    name,
                    (random.normal(size=40) + 100 * step + index).astype(np.float32),
                )
            record.record(step)
    return names


@pytest.mark.parametrize("rare", [0, 3])
def test_many_histograms_of_a_step_are_read_as_few_are(rare: int, tmp_path: Path) -> None:
    names = _write(tmp_path, 150, 20, rare)  # more records than are joined at once

    reader = SummaryReader(tmp_path)
    found = reader.histogram_statistics()

    assert reader.tags()["histogram"] == sorted(names)
    for index, name in enumerate(names):
        steps = [step for step in range(1, 151) if not index or not rare or step % rare]
        samples = [*reader.histograms(name)]
        assert [sample.step for sample in samples] == found[name].steps.tolist() == steps
        np.testing.assert_allclose(
            found[name].mean, [100 * step + index for step in steps], atol=1.0
        )
        assert samples[-1].value.max == found[name].maximum[-1]


def test_of_two_histograms_of_one_step_the_later_one_counts(tmp_path: Path) -> None:
    alone, many = {"w7": histogram(2)}, {f"w{index}": histogram(3) for index in range(20)}
    write_summary(
        tmp_path,
        [values_at(step, values) for step in (1, 2) for values in (alone, many)[:: 2 * step - 3]],
    )

    assert [sample.value.count for sample in SummaryReader(tmp_path).histograms("w7")] == [2, 3]


def test_an_image_with_the_tag_of_one_of_many_histograms_is_read_beside_it(tmp_path: Path) -> None:
    many = {f"w{index}": histogram(index) for index in range(20)}
    image = Image(3, 7, b"png")
    write_summary(tmp_path, [values_at(1, many), values_at(2, {"w7": image}), values_at(3, many)])
    reader = SummaryReader(tmp_path)

    assert [(sample.step, sample.value) for sample in reader.images("w7")] == [(2, image)]
    assert [(sample.step, sample.value.count) for sample in reader.histograms("w7")] == [
        (1, 7),
        (3, 7),
    ]


def test_a_run_that_grows_is_read_on(tmp_path: Path) -> None:
    with SummaryRecord(tmp_path) as record:
        reader = None
        for step in range(1, 4):
            for index in range(20):
                record.add_value("histogram", f"w{index}", np.full(8, step, np.float32))
            record.record(step)
            record.flush()
            reader = reader or SummaryReader(tmp_path)
            assert reader.histogram_statistics()["w7"].maximum.tolist() == [*range(1, step + 1)]
