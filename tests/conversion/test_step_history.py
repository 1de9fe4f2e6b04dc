"""Numbers over steps in bounded memory."""

from __future__ import annotations

import numpy as np
import pytest

from mindsummary_lightning.conversion.step_history import StepHistory


def test_columns_are_as_added_until_there_are_too_many() -> None:
    history = StepHistory()
    history.add(1, [1.0])
    history.add(10, [2.0, 3.0])

    steps, numbers = history.columns()
    assert steps == [1, 10]
    np.testing.assert_array_equal(numbers, [[1.0, 2.0], [np.nan, 3.0]])


def test_pairs_of_columns_are_merged_whenever_there_are_512() -> None:
    history = StepHistory()
    assert history.columns()[0] == []
    assert history.columns()[1].shape == (0, 0)

    found: dict[int, tuple[list[int], list[float]]] = {}
    for step in range(1, 1029):
        history.add(10 * step, [step])
        if step in (512, 513, 514, 1024, 1025, 1026, 1027, 1028):
            steps, numbers = history.columns()
            found[step] = [at // 10 for at in steps], numbers[0].tolist()

    everything, pairs, fours = (list(range(n, 1025, n)) for n in (1, 2, 4))
    shown = {
        512: everything[:512],
        513: [*pairs[:256], 513],
        514: [*pairs[:256], 514],
        1024: pairs,
        1025: [*fours, 1025],
        1026: [*fours, 1026],
        1027: [*fours, 1027],
        1028: [*fours, 1028],
    }
    assert {step: steps for step, (steps, _) in found.items()} == shown
    assert {step: numbers for step, (_, numbers) in found.items()} == shown


def test_a_merged_column_has_the_larger_number_of_each_row_and_all_rows() -> None:
    history = StepHistory()
    for step in range(1, 512):
        history.add(step, [0.0, np.nan])
    history.add(512, [np.nan, 2.0])
    for step, numbers in enumerate(([5.0, np.nan, 1.0], [4.0], [3.0, -1.0, 7.0, np.nan]), 513):
        history.add(step, numbers)

    steps, numbers = history.columns()

    assert steps[-3:] == [512, 514, 515]
    np.testing.assert_array_equal(
        numbers[:, -3:], [[0.0, 5.0, 3.0], [2.0, np.nan, -1.0], [np.nan, 1.0, 7.0], [np.nan] * 3]
    )
    assert numbers.dtype == np.float32


@pytest.mark.slow
def test_a_spike_of_one_step_is_never_lost_and_memory_is_bounded() -> None:
    for spike in (1, 512, 513, 1024, 1025, 4999, 5000):
        history = StepHistory()
        for step in range(1, 5001):
            history.add(step, [7.0 if step == spike else 0.0, np.nan, np.nan if step % 2 else 1.0])
        steps, numbers = history.columns()

        assert numbers.shape == (3, len(steps))
        assert len(steps) <= 512
        assert steps[-1] == 5000
        assert (numbers[0] == 7).sum() == 1
        at = int(numbers[0].argmax())
        assert (steps[at - 1] if at else 0) < spike <= steps[at]
        assert np.isnan(numbers[1]).all()
        assert not np.isnan(numbers[2]).any()
