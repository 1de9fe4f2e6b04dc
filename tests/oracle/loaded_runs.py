"""Runs as MindInsight's own loader and lineage reader see them, many in one process of MindInsight's environment."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mindsummary_lightning import SummaryReader
from tests.oracle.mindinsight_server import PYTHON_VARIABLE

needs_mindinsight = pytest.mark.skipif(
    not os.environ.get(PYTHON_VARIABLE),
    reason=f"{PYTHON_VARIABLE} names no Python with MindInsight 2.3.1; `nox -s mindinsight` makes one",
)
_SCRIPT = Path(__file__).with_name("load_runs_there.py")


def shown(*runs: Path) -> list[dict[str, Any]]:
    """What ``load_runs_there.py`` says of each run."""
    done = subprocess.run(
        [os.environ[PYTHON_VARIABLE], str(_SCRIPT), *map(str, runs)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": ""},
        timeout=1000,
        check=False,
    )
    assert not done.returncode, done.stderr
    answers: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return answers


def assert_shown_whole(run: Path, answer: dict[str, Any]) -> None:
    """The loader came to the end of every file, and its scalars are those that the files hold."""
    assert (answer["is_done"], answer["is_integrity"]) == (True, True)
    recorded = SummaryReader(run).all_scalars()
    assert set(answer["scalars"]) == set(recorded)
    for tag, series in recorded.items():
        steps, values = zip(*answer["scalars"][tag], strict=True)
        assert list(steps) == series.steps.tolist()
        np.testing.assert_array_equal(np.array(values, np.float32), series.values)
    assert "unreadable" not in answer["lineage"]
