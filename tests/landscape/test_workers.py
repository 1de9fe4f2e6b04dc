from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from lightning.fabric import Fabric
from torch.utils.data import DataLoader

from mindsummary_lightning.landscape import workers
from mindsummary_lightning.landscape.workers import launch

NAMES = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")


class FakeFabric:
    """Runs the work here, where the environment is the one that its processes would start with."""

    strategy = None

    def launch(self, work: Callable[[Any], Any]) -> Any:
        return work(self)


def kept(_: Any) -> list[str | None]:
    return [os.environ.get(name) for name in NAMES]


def test_processes_of_a_landscape_keep_freed_memory_and_nobody_elses_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(NAMES[0], raising=False)
    monkeypatch.setenv(NAMES[1], "12345")

    assert launch(FakeFabric(), kept) == [str(1 << 30), "12345"]  # type: ignore[arg-type]  # a user's own stays
    assert launch(Fabric(accelerator="cpu", devices=1), kept) == kept(None) == [None, "12345"]


def test_an_error_in_one_process_leaves_the_users_loaders_as_they_were() -> None:
    def fail(fabric: Any) -> None:
        raise RuntimeError("mine")

    before = DataLoader.__init__
    with pytest.raises(RuntimeError, match="mine"):
        launch(Fabric(accelerator="cpu", devices=1), fail)

    assert DataLoader.__init__ is before


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


def test_other_processes_and_short_landscapes_say_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for total, is_shown in ((100, False), (3, True), (0, True)):
        with workers.Progress(total, is_shown) as shown:
            for done in range(1, total + 1):
                shown.show(done, "landscape_[3]", {0: np.ones(1)})
    assert capsys.readouterr().err == ""
