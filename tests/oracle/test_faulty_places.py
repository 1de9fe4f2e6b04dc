"""MindInsight's own loader comes to the end of every file that a place left which went away and
came back.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from mindsummary_lightning import SummaryRecord
from tests.faults.place_plans import KINDS, PLANS, run_plan
from tests.oracle.loaded_runs import assert_shown_whole, needs_mindinsight, shown

pytestmark = needs_mindinsight


@pytest.mark.filterwarnings("ignore")
def test_what_a_faulty_place_leaves_is_shown_whole(tmp_path: Path) -> None:
    runs: list[Path] = []
    for number, plan in enumerate(PLANS.values()):
        for kind in ("summary", "lineage"):
            run = tmp_path / f"{number} {kind}" / "mount" / "run"
            run.parent.mkdir(parents=True)
            run_plan(plan, KINDS[kind], run)
            with SummaryRecord(run) as record:
                record.add_scalar("afterwards", 1.0, 1)  # the loader refuses a run of lineage alone
            runs.append(run)

    for run, answer in zip(runs, shown(*runs), strict=True):
        assert_shown_whole(run, answer)
        assert answer["scalars"]["afterwards"] == [[1, 1.0]], run
