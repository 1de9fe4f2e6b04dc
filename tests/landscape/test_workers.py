from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from lightning.fabric import Fabric
from lightning.fabric.strategies import DDPStrategy, SingleDeviceStrategy
from torch.utils.data import DataLoader

from mindsummary_lightning.landscape import workers
from mindsummary_lightning.landscape.workers import launch, make_fabric

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


class Terminal(io.StringIO):
    """Standard error on a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_bar_of_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", Terminal())
    with workers.Progress(3, True) as shown:
        shown.show(1, "landscape_[3]", {0: np.array([np.nan])})
        shown.show(3, "landscape_[4]", {0: np.array([4.0, np.inf]), 1: np.array([2.5])})
        text = sys.stderr.getvalue()  # type: ignore[attr-defined]
    text = sys.stderr.getvalue()  # type: ignore[attr-defined]
    assert "landscape_[4], loss 2.5 to 4: 100%" in text
    assert "3/3 [" in text
    assert text.endswith("\n")


def test_nothing_to_do_and_other_processes_have_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", Terminal())
    for total, is_shown in ((0, True), (3, False)):
        with workers.Progress(total, is_shown) as shown:
            for done in range(1, total + 1):
                shown.show(done, "landscape_[3]", {0: np.ones(1)})
    assert sys.stderr.getvalue() == ""  # type: ignore[attr-defined]


def test_several_machines_need_a_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        ValueError,
        match="num_nodes is 2, but this process was not started by torchrun, SLURM or LSF",
    ):
        make_fabric("cpu", 1, 2, "32-true")
    launched = {"WORLD_SIZE": "6", "RANK": "4", "LOCAL_RANK": "1", "GROUP_RANK": "1"}
    for name, value in {"TORCHELASTIC_RUN_ID": "1", **launched}.items():
        monkeypatch.setenv(name, value)
    strategy = make_fabric("cpu", 3, 2, "32-true").strategy
    assert isinstance(strategy, DDPStrategy)
    assert (strategy.num_nodes, strategy.num_processes) == (2, 3)
    assert isinstance(make_fabric("cpu", 1, 1, "32-true").strategy, DDPStrategy)


@pytest.mark.parametrize(
    ("devices", "processes"), [(1, 1), ([5], 1), (2, 2), ("3", 3), ([0, 4, 9], 3), ("auto", 1)]
)
def test_devices_of_the_cpu_are_processes_of_this_machine(devices: Any, processes: int) -> None:
    strategy = make_fabric("cpu", devices, 1, "32-true").strategy

    if processes == 1:
        assert isinstance(strategy, SingleDeviceStrategy)
        return
    assert isinstance(strategy, DDPStrategy)
    assert (strategy.num_processes, strategy._start_method) == (processes, "spawn")


def test_other_processes_and_short_landscapes_say_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for total, is_shown in ((100, False), (3, True), (0, True)):
        with workers.Progress(total, is_shown) as shown:
            for done in range(1, total + 1):
                shown.show(done, "landscape_[3]", {0: np.ones(1)})
    assert capsys.readouterr().err == ""
