from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lightning.fabric import Fabric
from lightning.fabric.strategies import DDPStrategy, SingleDeviceStrategy
from torch import distributed as dist
from torch.utils.data import DataLoader

from mindsummary_lightning.landscape import workers
from mindsummary_lightning.landscape.batches import take_batches
from mindsummary_lightning.landscape.checkpoints import RowStore
from mindsummary_lightning.landscape.evaluation import EvaluationOptions
from mindsummary_lightning.landscape.grid import LandscapeGrid
from mindsummary_lightning.landscape.mean_loss import MeanLoss
from mindsummary_lightning.landscape.workers import compute_rows, launch, make_fabric
from tests.landscape import nets
from tests.landscape.plain_loop import CPU, plane_of
from tests.support import Terminal, of_two_threads

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


class Rank:
    """What the rows are computed with of a Fabric, whose processes are threads of this one."""

    device, autocast = CPU, contextlib.nullcontext

    def __init__(self, rank: int, size: int, barrier: Callable[[], object]) -> None:
        self.global_rank, self.world_size, self.barrier = rank, size, barrier


class CountedRows(RowStore):
    """A store of rows that knows what was written to it, and that may be slow to read."""

    def __init__(self, directory: str, seconds: float) -> None:
        super().__init__(directory)
        self.written: list[int] = []
        self._seconds = seconds

    def rows(self, points: Any) -> Any:
        time.sleep(self._seconds)
        return super().rows(points)

    def write(self, index: int, losses: Any) -> None:
        self.written.append(index)
        super().write(index, losses)


class Landscapes:
    """Two landscapes of a network: the first of 4 + 1 rows, the second of 2."""

    def __init__(self, folder: Path) -> None:
        self._net = nets.Mlp()
        self._batches = take_batches(nets.loader(self._net), 96, 0)
        plane = plane_of(self._net)
        x, y, path = np.linspace(-1, 1, 3), np.linspace(-0.9, 0.6, 4), np.array([[0.5, 1], [0, 0]])
        self._jobs = [
            LandscapeGrid((1, 7), lambda: plane, x, y, path),
            LandscapeGrid((7,), lambda: plane, 2 * y, y[1:3]),
        ]
        self._folders = [str(folder / name) for name in ("first", "second")]
        for name in self._folders:
            os.makedirs(name)

    def stores(self, seconds: float = 0.0) -> list[CountedRows]:
        return [CountedRows(name, seconds) for name in self._folders]

    def computed(
        self, fabric: Any, stores: list[CountedRows], loss_fn: Any = nets.LOSS
    ) -> list[list[list[float]]]:
        loss = MeanLoss(self._net, loss_fn)
        options = EvaluationOptions()
        rows = compute_rows(fabric, self._jobs, stores, loss, self._batches, options)
        return [[row.tolist() for row in of_one] for of_one in rows]


@pytest.fixture
def landscapes(tmp_path: Path) -> Landscapes:
    return Landscapes(tmp_path)


class GroupStore(dist.Store):
    """A store of a process group, which ends with the first process that leaves the group."""

    def __init__(self, left: list[bool]) -> None:
        super().__init__()
        self._store, self._left = dist.HashStore(), left
        self._store.set_timeout(timedelta(milliseconds=1))  # whatever is read must be there

    def set(self, key: str, value: Any) -> None:
        self._store.set(key, value)

    def add(self, key: str, number: int) -> int:
        return self._store.add(key, number)

    def get(self, key: str) -> bytes:
        time.sleep(0.002 if threading.current_thread().name == "rank 1" else 0)
        assert self._left == []
        return self._store.get(key)


@pytest.fixture
def who_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """A default process group, and for each time it was left, whether it was there."""
    left: list[bool] = []
    store = GroupStore(left)
    c10d: Any = dist.distributed_c10d
    monkeypatch.setattr(c10d, "_get_default_store", lambda: store)
    monkeypatch.setattr(dist, "destroy_process_group", lambda: left.append(dist.is_initialized()))
    c10d.GroupMember.WORLD = object()
    yield left
    c10d.GroupMember.WORLD = None


@pytest.mark.parametrize("stored", [[], [(0, 0), (0, 3), (1, 1)]])
def test_two_processes_share_the_rows_and_each_returns_them_all(
    landscapes: Landscapes,
    tmp_path: Path,
    who_left: list[bool],
    stored: list[tuple[int, int]],
) -> None:
    alone = landscapes.stores()
    expected = landscapes.computed(Rank(0, 1, lambda: None), alone)
    every = [(job, row) for job, rows in enumerate(expected) for row in range(len(rows))]
    assert [(job, row) for job in (0, 1) for row in alone[job].written] == every
    assert [[len(row) for row in rows] for rows in expected] == [[3, 3, 3, 3, 2], [4, 4]]
    assert who_left == []
    for job, row in set(every) - set(stored):
        os.remove(tmp_path / ("first", "second")[job] / f"{row:04d}.row")

    barrier = threading.Barrier(2, timeout=5)
    # the second reads what is stored when the first could have stored more
    stores = [landscapes.stores(), landscapes.stores(0.03)]

    def as_rank(rank: int) -> list[list[list[float]]]:
        return landscapes.computed(Rank(rank, 2, barrier.wait), stores[rank])

    assert of_two_threads(as_rank) == [expected, expected]
    written = [(job, row) for of_rank in stores for job in (0, 1) for row in of_rank[job].written]
    assert sorted(written) == [row for row in every if row not in stored]
    assert len(who_left) == 2


def test_a_users_loss_sees_no_process_group_which_is_there_again_afterwards(
    landscapes: Landscapes, tmp_path: Path, who_left: list[bool]
) -> None:
    def loss_of(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return nets.LOSS(output, target) + 100 * dist.is_initialized()

    def broken(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        raise ArithmeticError("mine")

    expected = landscapes.computed(Rank(0, 1, lambda: None), landscapes.stores())
    first_of_two = Rank(0, 2, lambda: None)
    os.remove(tmp_path / "second" / "0001.row")  # the only row, which the first process takes

    with pytest.raises(ArithmeticError, match="mine"):
        landscapes.computed(first_of_two, landscapes.stores(), broken)
    assert (dist.is_initialized(), who_left) == (True, [])

    assert landscapes.computed(first_of_two, landscapes.stores(), loss_of) == expected
    assert (dist.is_initialized(), who_left) == (True, [True])
