from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from lightning.fabric import Fabric
from torch.utils.data import DataLoader

from mindsummary_lightning.landscape.workers import compute_rows, launch

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


def test_gathered_tensors_live_until_the_process_group_is_destroyed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With torch 2.5 the processes could otherwise wait forever; on a busy machine they did."""
    exchanged: list[weakref.ref[torch.Tensor]] = []
    alive = []

    def all_gather(others: list[torch.Tensor], own: torch.Tensor) -> None:
        exchanged.extend(map(weakref.ref, [own, *others]))
        for other in others:
            other.copy_(own)

    def destroy() -> None:
        alive.extend(tensor() is not None for tensor in exchanged)

    monkeypatch.setattr(torch.distributed, "all_gather", all_gather)
    monkeypatch.setattr(torch.distributed, "destroy_process_group", destroy)
    monkeypatch.setattr(torch.distributed.distributed_c10d, "_get_default_store", torch.distributed.HashStore)
    fabric = SimpleNamespace(world_size=2, global_rank=0, device=torch.device("cpu"), barrier=lambda: None)
    jobs = [SimpleNamespace(tag=tag, rows=lambda: [np.zeros((3, 2)), np.zeros((1, 2))]) for tag in "ab"]
    stores = [
        SimpleNamespace(
            directory="rows",
            rows=lambda rows, first=first: {k: np.full(len(row), first + k) for k, row in enumerate(rows)},
        )
        for first in (0.0, 5.0)
    ]
    options: Any = None

    found = compute_rows(fabric, jobs, stores, options, [], options)  # type: ignore[arg-type]

    assert alive == [True] * 3
    assert [[row.tolist() for row in rows] for rows in found] == [[[0.0] * 3, [1.0]], [[5.0] * 3, [6.0]]]
