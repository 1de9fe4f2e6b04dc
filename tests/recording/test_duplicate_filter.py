"""DuplicateFilter: which values are new, and what is forgotten."""

from __future__ import annotations

import numpy as np

from mindsummary_lightning.conversion.histograms import to_histogram
from mindsummary_lightning.recording.duplicate_filter import DuplicateFilter


def test_a_value_is_new_once_per_step() -> None:
    written = DuplicateFilter("run")
    values = [("a", 1.0), ("h", to_histogram(np.arange(5.0)))]

    assert [written.new_values(step, values) for step in (1, 1, 2)] == [values, [], values]


def test_one_tag_may_have_several_kinds() -> None:
    written = DuplicateFilter("run")
    values = [("a", 1.0), ("a", to_histogram(np.arange(5.0)))]
    written.new_values(1, values)

    assert written.new_values(1, values) == []


def test_of_several_values_only_the_new_ones_remain_in_order() -> None:
    written = DuplicateFilter("run")
    written.new_values(1, [("b", 2.0)])

    assert written.new_values(1, [("a", 1.0), ("b", 2.0), ("c", 3.0)]) == [("a", 1.0), ("c", 3.0)]


def test_what_could_not_be_written_is_new_again() -> None:
    written = DuplicateFilter("run")
    new = written.new_values(1, [("a", 1.0), ("b", 2.0)])
    written.forget(new[:1])

    assert written.new_values(1, [("a", 1.0), ("b", 2.0)]) == [("a", 1.0)]


def test_a_new_file_makes_everything_new() -> None:
    written = DuplicateFilter("run")
    written.new_values(1, [("a", 1.0)])
    written.clear()

    assert written.new_values(1, [("a", 1.0)]) == [("a", 1.0)]
