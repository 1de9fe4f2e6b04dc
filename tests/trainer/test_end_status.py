from __future__ import annotations

import pytest
from lightning.pytorch.utilities.exceptions import SIGTERMException

from mindsummary_lightning.trainer.end_status import REQUEUED, recorded_status


class TrialPruned(Exception):
    """As Optuna's."""


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [
        ("success", None, "success"),
        ("failed", ValueError("mine"), "failed"),
        ("failed", SystemExit(3), "failed"),
        ("failed", KeyboardInterrupt(), "interrupted"),
        ("failed", SIGTERMException(), "interrupted"),
        (REQUEUED, None, "interrupted"),
        ("failed", TrialPruned(), "pruned"),
        ("whatever", None, "whatever"),
    ],
)
def test_a_status_says_whether_a_signal_ended_the_call(
    status: str, error: BaseException | None, expected: str
) -> None:
    assert recorded_status(status, error) == expected
