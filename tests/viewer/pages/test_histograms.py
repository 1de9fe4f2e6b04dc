from __future__ import annotations

import itertools
import math
import os
from pathlib import Path

import numpy as np
import pytest

from mindsummary_lightning.values import Histogram
from mindsummary_lightning.viewer.api import ApiError
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from tests.reading.runs import damage_unseen, histogram, values_at, write_summary
from tests.viewer.pages.asking import ask


def test_the_steps_of_a_tag_share_their_bins(tmp_path: Path) -> None:
    write_summary(
        tmp_path / "a",
        [values_at(1, {"h": histogram(2, 3)}), values_at(2, {"h": histogram(1, 0, 1, 2)})],
    )

    answer = ask(
        LoadedRuns(str(tmp_path)), "datavisual/histograms", train_id="./a", tag="h/histogram"
    )

    first, second = answer["histograms"]
    assert first["buckets"] == [(0.0, 2.0, 5), (2.0, 2.0, 0)]
    assert second["buckets"] == [(0.0, 2.0, 1), (2.0, 2.0, 3)]


def test_of_very_many_steps_a_hundred_are_shown_with_the_first_and_the_newest(
    tmp_path: Path,
) -> None:
    write_summary(tmp_path / "a", [values_at(step, {"h": histogram(2, 3)}) for step in range(200)])

    answer = ask(
        LoadedRuns(str(tmp_path)), "datavisual/histograms", train_id="./a", tag="h/histogram"
    )

    steps = [sample["step"] for sample in answer["histograms"]]
    assert (len(steps), steps[0], steps[-1]) == (100, 0, 199)
    assert {after - before for before, after in itertools.pairwise(steps)} == {2, 3}


def test_buckets_in_any_order_and_without_a_range_are_shown_from_zero(tmp_path: Path) -> None:
    def odd(low: float | None, high: float | None) -> Histogram:
        lefts, widths, counts = np.array([1.0, 0.0]), np.array([1.0, 1.0]), np.array([1, 4])
        return Histogram(lefts, widths, counts, 5, min=low, max=high)

    write_summary(
        tmp_path / "a", [values_at(1, {"h": odd(None, 2.0), "i": odd(math.nan, math.inf)})]
    )
    runs = LoadedRuns(str(tmp_path))

    def buckets(tag: str) -> object:
        (one,) = ask(runs, "datavisual/histograms", train_id="./a", tag=tag)["histograms"]
        return one["buckets"]

    assert buckets("h/histogram") == [(0.0, 1.0, 4), (1.0, 1.0, 1)]
    assert buckets("i/histogram") == [(-0.5, 0.5, 0), (0.0, 0.5, 2)]


def test_a_histogram_that_changed_since_it_was_located_is_left_out(tmp_path: Path) -> None:
    records = [values_at(step, {"h": histogram(4 - step, 2)}) for step in (1, 2, 3, 4)]
    path = write_summary(tmp_path / "a", records)
    runs = LoadedRuns(str(tmp_path))
    ask(runs, "datavisual/plugins", train_id="./a")
    for damaged in records[::2]:
        damage_unseen(path, damaged)

    answer = ask(runs, "datavisual/histograms", train_id="./a", tag="h/histogram")

    assert [(one["step"], one["buckets"]) for one in answer["histograms"]] == [
        (2, [(0.0, 1.0, 2), (1.0, 1.0, 2)]),
        (4, [(0.0, 1.0, 0), (1.0, 1.0, 2)]),
    ]


@pytest.mark.parametrize(
    ("tag", "code"), [("loss/scalar", "5054500F"), ("x/histogram", "5054500F"), ("", "50540003")]
)
def test_what_is_no_histogram_is_refused(tmp_path: Path, tag: str, code: str) -> None:
    write_summary(tmp_path / "a", [values_at(1, {"h": histogram(1), "loss": 1.0})])

    with pytest.raises(ApiError) as refused:
        ask(LoadedRuns(str(tmp_path)), "datavisual/histograms", train_id="./a", tag=tag)

    assert refused.value.code == code


@pytest.mark.parametrize("low_and_high", [(1.0, -1.0), (-1.7e308, 1.7e308)])
def test_a_range_without_bins_is_refused(tmp_path: Path, low_and_high: tuple[float, float]) -> None:
    low, high = low_and_high
    odd = Histogram(np.array([0.0]), np.array([1.0]), np.array([3]), 3, min=low, max=high)
    write_summary(tmp_path / "a", [values_at(1, {"h": odd})])

    with pytest.raises(ApiError) as refused:
        ask(LoadedRuns(str(tmp_path)), "datavisual/histograms", train_id="./a", tag="h/histogram")

    assert refused.value.code == "5054500F"


def test_a_page_that_is_asked_for_again_reads_what_has_been_added_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [values_at(step, {"h": histogram(step, 3)}) for step in range(1, 7)]
    path = write_summary(tmp_path / "a", records[:5])
    runs = LoadedRuns(str(tmp_path))

    def answer() -> object:
        return ask(runs, "datavisual/histograms", train_id="./a", tag="h/histogram")

    first = answer()
    opened: list[object] = []
    open_it = os.open
    monkeypatch.setattr(
        os, "open", lambda *found, **named: opened.append(found) or open_it(*found, **named)
    )
    assert (answer(), opened) == (first, [])
    with path.open("ab") as file:
        file.write(records[5])

    again = answer()

    assert again == ask(
        LoadedRuns(str(tmp_path)), "datavisual/histograms", train_id="./a", tag="h/histogram"
    )
    assert again != first
