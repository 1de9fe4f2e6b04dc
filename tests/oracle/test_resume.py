"""Runs that were killed at random points and resumed are one curve in a real MindInsight."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.oracle.mindinsight_server import MindInsight, publish

Amount = Callable[[int, int], int]


@pytest.fixture(scope="module")
def resumed(
    mindinsight: MindInsight, tmp_path_factory: pytest.TempPathFactory, runs: Path, amount: Amount
) -> dict[str, Path]:
    """Train id of each run -> what its witness noted."""
    directory = tmp_path_factory.mktemp("resumed")
    kills = amount(3, 20)
    command = [sys.executable, "-m", "tests.oracle.resumed_runs", str(directory), str(kills)]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = sorted((directory / "runs").iterdir())
    assert len(found) == kills
    return {publish(run, runs): directory / f"{run.name}.witness" for run in found}


def test_each_run_is_one_curve_with_each_step_once_and_its_newest_value(
    mindinsight: MindInsight, resumed: dict[str, Path]
) -> None:
    from tests.oracle.resumed_runs import LAST_STEP

    for train_id, witness in resumed.items():
        mindinsight.wait_cached(train_id, summary_files=2)
        newest = {
            int(step): float(loss)
            for step, loss in map(str.split, witness.read_text(encoding="utf-8").splitlines())
        }
        expected = [(step, float(np.float32(newest[step]))) for step in range(1, LAST_STEP + 1)]

        assert mindinsight.scalars(train_id, "loss/auto/scalar") == expected
        logged = mindinsight.scalars(train_id, "train/loss/scalar")
        assert [step for step, _ in logged] == list(range(LAST_STEP))
        histograms = mindinsight.histograms(train_id, "first.weight/auto/histogram")
        assert [step for step, _ in histograms] == list(range(1, LAST_STEP + 1))


def test_each_run_has_one_lineage_row_of_its_end(
    mindinsight: MindInsight, resumed: dict[str, Path]
) -> None:
    from tests.oracle.resumed_runs import EPOCHS

    for train_id in resumed:
        row = mindinsight.wait_lineage(train_id)
        assert (row["network"], row["epoch"]) == ("Net", EPOCHS)
        assert "status" not in row["user_defined"]  # only our readers show it
