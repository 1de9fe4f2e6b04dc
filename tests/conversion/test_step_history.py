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
