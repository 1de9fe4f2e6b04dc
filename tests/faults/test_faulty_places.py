"""Row 48: places whose file system goes away and comes back, for each kind of file that
a run has.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.place_plans import (
    ENDS,
    KINDS,
    PLANS,
    RESUMES_WITHIN_S,
    SECONDS_A_VALUE,
    VALUES,
    run_plan,
)

pytestmark = pytest.mark.faults

Figure = Callable[[int, str], None]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("plan", PLANS)
def test_what_is_logged_is_recorded_or_counted_and_recording_resumes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, figure: Figure, plan: str, kind: str
) -> None:
    run = tmp_path / "mount" / "run"
    run.parent.mkdir()
    outcome = run_plan(PLANS[plan], KINDS[kind], run)

    assert len(outcome.recorded) + outcome.lost == VALUES, caplog.text
    assert len(caplog.records) <= 2, caplog.text
    assert bool(outcome.lost) <= ("total" in caplog.text)
    if not PLANS[plan].is_for_ever:
        first = ENDS + round(RESUMES_WITHIN_S / SECONDS_A_VALUE)
        assert outcome.recorded >= set(range(first, VALUES)), caplog.text
    figure(48, f"{plan}, {kind}: {VALUES} logged, {len(outcome.recorded)} recorded, "
        f"{outcome.lost} counted as lost, "
               f"{len(caplog.records)} lines")  # fmt: skip
