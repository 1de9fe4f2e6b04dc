"""Row 30: SIGKILL inside repair, the start of a run, import, export, a landscape and its
checkpoints, at every call.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.processes import run_training_victim

pytestmark = [
    pytest.mark.slow,
    pytest.mark.faults,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
]

# Each with the calls between two kills of the short form; the long form kills at each.
WORKS = {
    "repair": 3,
    "start": 6,
    "export csv": 3,
    "export npy": 14,
    "export parquet": 4,
    "export tensorboard": 5,
    "import": 34,
    "checkpoint": 9,
    "landscape": 9,
}


@pytest.mark.parametrize("work", WORKS)
def test_a_kill_at_any_call_leaves_the_old_files_or_complete_new_ones(
    tmp_path: Path, times: Callable[[int, int], int], figure: Callable[[int, str], None], work: str
) -> None:
    for package in (
        ("tensorboard", "pyarrow", "pandas")
        if work.startswith(("export", "import"))
        else ("torch",)
    ):
        pytest.importorskip(package)
    done = run_training_victim("kill_at_calls", work, tmp_path, times(WORKS[work], 1))
    assert not done.returncode, done.stderr

    told = json.loads(done.stdout.splitlines()[-1])
    assert told["kills"] > 1
    figure(
        30,
        (
            f"{work}: {told['kills']} kills at its {told['calls']} calls that change files: 0 "
            "lost, 0 incomplete"
        ),
    )
