"""Runs as MindInsight's own loader and lineage reader see them, many in one process of
MindInsight's environment.
"""

from __future__ import annotations

import functools
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
    reason=(
        f"{PYTHON_VARIABLE} names no Python with MindInsight 2.3.1; `nox -s mindinsight` makes one"
    ),
)
_SCRIPT = Path(__file__).with_name("load_runs_there.py")


@functools.cache
def _loader() -> subprocess.Popen[str]:
    """One process for all tests, as its imports take longest; it ends with pytest, which closes its
    standard input.
    """
    command = [os.environ[PYTHON_VARIABLE], str(_SCRIPT)]
    environment = {**os.environ, "PYTHONPATH": ""}
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )


def shown(*runs: Path) -> list[dict[str, Any]]:
    """What ``load_runs_there.py`` says of each run."""
    loader = _loader()
    loader.stdin.write(json.dumps([str(run) for run in runs]) + "\n")
    loader.stdin.flush()
    line = loader.stdout.readline()
    if not line:
        _loader.cache_clear()
        raise AssertionError(
            f"MindInsight's loader ended with {loader.wait()}; standard error has its reason"
        )
    answers: list[dict[str, Any]] = json.loads(line)
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
    train = SummaryReader(run).lineage().train
    assert (answer["lineage"] or [None])[-1] == (train and (train.epoch or 0))
