from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from lightning.fabric import Fabric
from torch.utils.data import DataLoader

from mindsummary_lightning.landscape.workers import launch

NAMES = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")


class FakeFabric:
    """Runs the work here, where the environment is the one that its processes would start with."""

    def __init__(self, world_size: int) -> None:
        self.world_size = world_size

    def launch(self, work: Callable[[Any], Any]) -> Any:
        return work(self)


def kept(_: Any) -> list[str | None]:
    return [os.environ.get(name) for name in NAMES]


def test_processes_of_a_landscape_keep_freed_memory_and_nobody_elses_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(NAMES[0], raising=False)
    monkeypatch.setenv(NAMES[1], "12345")

    assert launch(FakeFabric(2), kept) == [str(1 << 30), "12345"]  # type: ignore[arg-type]  # a user's own stays
    assert kept(None) == [None, "12345"]


def test_one_process_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)

    assert launch(FakeFabric(1), kept) == [None, None]  # type: ignore[arg-type]


def test_an_error_in_one_process_leaves_the_users_loaders_as_they_were() -> None:
    def fail(fabric: Any) -> None:
        raise RuntimeError("mine")

    before = DataLoader.__init__
    with pytest.raises(RuntimeError, match="mine"):
        launch(Fabric(accelerator="cpu", devices=1), fail)

    assert DataLoader.__init__ is before
