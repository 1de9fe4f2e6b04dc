from __future__ import annotations

import numpy as np
import pytest

from mindsummary_lightning.landscape import workers


def test_a_log_gets_at_most_a_line_for_every_tenth(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = iter(range(0, 1000, 6))
    monkeypatch.setattr(workers.time, "monotonic", lambda: next(seconds))
    with workers.Progress(100, True) as shown:
        for done in range(1, 101):
            shown.show(done, "landscape_[3]", {0: np.array([1.0, 2.0, np.nan])})
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 10
    assert lines[0].startswith("loss landscape: 10 of 100 rows in ")
    assert lines[0].endswith("s, landscape_[3], loss 1 to 2")


def test_other_processes_and_short_landscapes_say_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    for total, is_shown in ((100, False), (3, True), (0, True)):
        with workers.Progress(total, is_shown) as shown:
            for done in range(1, total + 1):
                shown.show(done, "landscape_[3]", {0: np.ones(1)})
    assert capsys.readouterr().err == ""
