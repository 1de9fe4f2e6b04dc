"""Runs of every row of the table of runs, as a real MindInsight answers them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.oracle.mindinsight_server import MindInsight, publish

_FLOWS = (
    "two_fits",
    "fit_after_failure",
    "fit_after_failed_test",
    "evaluation_after_fit",
    "evaluation_before_second_fit",
    "same_trainer_after_failure",
)


@pytest.fixture(scope="module")
def recorded(
    tmp_path_factory: pytest.TempPathFactory, runs: Path
) -> dict[str, tuple[list[int], list[float]]]:
    """Train id of each run -> steps that its fit logged, and the values that our own
    reader finds.
    """
    from tests.trainer.ownership_flows import run_flow
    from tests.trainer.support import points

    found = {}
    for name in _FLOWS:
        directory = tmp_path_factory.mktemp(name)
        for version, expected in run_flow(name, "L", "one process", directory, None).items():
            run = directory / "runs" / version
            values = [value for _, value in points(run, "train/loss")]
            train_id = publish(run.rename(run.with_name(f"{name}_{version}")), runs)
            found[train_id] = expected.train, values
    return found


def test_each_run_is_the_curve_of_its_own_fit(
    mindinsight: MindInsight, recorded: dict[str, tuple[list[int], list[float]]]
) -> None:
    assert len(recorded) == 10
    for train_id, (steps, values) in recorded.items():
        mindinsight.wait_cached(train_id)
        shown = mindinsight.scalars(train_id, "train/loss/scalar")
        assert [step for step, _ in shown] == steps
        assert [value for _, value in shown] == [float(np.float32(value)) for value in values]
