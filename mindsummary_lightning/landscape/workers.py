"""Compute rows of loss landscapes in parallel, on devices of Lightning Fabric."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch
from lightning.fabric import Fabric
from lightning.fabric.accelerators.accelerator import Accelerator
from lightning.fabric.accelerators.cpu import CPUAccelerator
from lightning.fabric.plugins.environments.lsf import LSFEnvironment
from lightning.fabric.plugins.environments.slurm import SLURMEnvironment
from lightning.fabric.plugins.environments.torchelastic import TorchElasticEnvironment
from lightning.fabric.strategies.single_device import SingleDeviceStrategy
from numpy.typing import NDArray
from tqdm.auto import tqdm

from mindsummary_lightning.landscape.batches import Batch
from mindsummary_lightning.landscape.checkpoints import RowStore
from mindsummary_lightning.landscape.evaluation import EvaluationOptions, PlaneLoss
from mindsummary_lightning.landscape.grid import LandscapeGrid
from mindsummary_lightning.landscape.mean_loss import MeanLoss
from mindsummary_lightning.landscape.shortcuts import loss_on_plane

AnyAccelerator: TypeAlias = str | Accelerator

_TENTHS = 10
_SECONDS_BETWEEN_LINES = 5.0
_LAUNCHERS = (TorchElasticEnvironment, SLURMEnvironment, LSFEnvironment)
_KEEP_FREED_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 34),
}


def make_fabric(
    accelerator: AnyAccelerator, devices: int | str | Sequence[int], num_nodes: int, precision: Any
) -> Fabric:
    """Create the Fabric whose processes compute a landscape.

    If torchrun, SLURM or LSF has started the processes, the Fabric uses these. Otherwise it starts
    them.

    On the CPU the number of devices is the number of processes per machine. Several machines need a
    launcher.

    Raises:
        ValueError: ``num_nodes`` is larger than 1 without a launcher.
    """
    is_launched = any(environment.detect() for environment in _LAUNCHERS)
    if num_nodes > 1 and not is_launched:
        example = f"torchrun --nnodes {num_nodes} --nproc-per-node DEVICES SCRIPT"
        raise ValueError(
            f"num_nodes is {num_nodes}, but this process was not started by torchrun, SLURM or "
            f"LSF. Start this script on each machine, for example with {example}"
        )
    kind: Any = Fabric(accelerator=accelerator, devices=1).strategy.accelerator
    if not isinstance(devices, (int, str)):
        devices = len(devices) if isinstance(kind, CPUAccelerator) else list(devices)
    wanted = kind.auto_device_count() if devices == "auto" else devices
    chosen = kind.get_parallel_devices(kind.parse_devices(wanted))
    strategy: Any = "auto"
    if is_launched:
        strategy = "ddp"
    elif len(chosen) > 1:
        # not forked: a fork after torch has started threads or an accelerator hangs
        strategy = "ddp_spawn"
    elif chosen[0].type != "cpu":
        # Fabric would use the CPU for accelerators it does not know
        strategy = SingleDeviceStrategy(chosen[0])
    return Fabric(
        accelerator=accelerator,
        devices=devices,
        num_nodes=num_nodes,
        strategy=strategy,
        precision=precision,
    )


def launch(fabric: Fabric, work: Callable[[Fabric], Any]) -> Any:
    """Run ``work`` in every process of a Fabric, and return the first result."""
    if not isinstance(fabric.strategy, SingleDeviceStrategy):
        with _environment_of_workers():
            return fabric.launch(work)
    # Fabric's own launch would change DataLoader and BatchSampler, and change them back only if
    # nothing is raised.
    fabric.strategy.setup_environment()
    return work(fabric)


@contextlib.contextmanager
def _environment_of_workers() -> Iterator[None]:
    """Make processes that start in a ``with`` block keep the memory that they free.

    glibc gives memory of the size of a layer's activations back to the system and requests it
    again, zeroed page by page, for every layer of every grid point. This is a quarter of the time
    of a convolutional network, and slows parallel processes. It reads these variables only when a
    process starts.
    """
    added = [name for name in _KEEP_FREED_MEMORY if name not in os.environ]
    os.environ.update({name: _KEEP_FREED_MEMORY[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def compute_rows(
    fabric: Fabric,
    jobs: Sequence[LandscapeGrid],
    stores: Sequence[RowStore],
    loss: MeanLoss,
    batches: Sequence[Batch],
    options: EvaluationOptions,
) -> list[list[NDArray[np.float64]]]:
    """Compute the losses of all rows of all landscapes, together with other processes.

    :func:`launch` runs it in each process. A process takes the next row that no other process has
    taken, so that a slow process does not delay the others. It stores finished rows in the store of
    the row's landscape. Each process returns all rows: they are exchanged through the store of the
    process group, which ``torch.distributed.distributed_c10d._get_default_store`` returns (torch
    2.5 to 2.13). Then the process group is destroyed.
    """
    all_rows = [job.rows() for job in jobs]
    found = [store.rows(rows) for store, rows in zip(stores, all_rows, strict=True)]
    # Every process must have read the stores before one of them stores more, or their lists of rows
    # would differ.
    fabric.barrier()
    missing = []
    for job, rows in enumerate(all_rows):
        missing += [(job, row) for row in range(len(rows)) if row not in found[job]]
    shared = None
    if fabric.world_size > 1:
        c10d: Any = torch.distributed.distributed_c10d
        shared = c10d.PrefixStore(
            f"mindsummary_lightning/{stores[0].directory}", c10d._get_default_store()
        )
    with Progress(len(missing), fabric.global_rank == 0) as progress, _alone(fabric):

        def finish(position: int, losses: NDArray[np.float64]) -> None:
            job, row = missing[position]
            found[job][row] = losses
            stores[job].write(row, losses)
            if shared is not None:
                shared.set(str(position), losses.tobytes().hex())
            progress.show(position + 1, jobs[job].tag, found[job])

        positions = _positions(fabric, len(missing), shared)
        for job, some in itertools.groupby(positions, lambda position: missing[position][0]):
            make = partial(
                loss_on_plane,
                loss,
                jobs[job],
                tuple(batches),
                fabric.device,
                options,
                fabric.autocast,
            )
            work = ((position, missing[position][1]) for position in some)
            _compute(make, jobs[job], work, finish)
    return _gathered(fabric, found, missing, shared)


def _gathered(
    fabric: Fabric,
    found: Sequence[dict[int, NDArray[np.float64]]],
    missing: Sequence[tuple[int, int]],
    shared: Any,
) -> list[list[NDArray[np.float64]]]:
    """Collect the losses of all rows from all processes.

    The process group is destroyed.
    """
    if shared is not None:
        fabric.barrier()  # all are there
        for position, (job, row) in enumerate(missing):
            found[job][row] = np.frombuffer(bytes.fromhex(shared.get(str(position)).decode()))
        fabric.barrier()  # all are read, and the process that has the store may end
        # A process that exits before its process group is destroyed is sometimes aborted by one of
        # the group's threads.
        torch.distributed.destroy_process_group()
    return [list(map(rows.__getitem__, range(len(rows)))) for rows in found]


def _compute(
    make: Callable[[], tuple[PlaneLoss, PlaneLoss]],
    job: LandscapeGrid,
    work: Iterable[tuple[int, int]],
    finish: Callable[[int, NDArray[np.float64]], None],
) -> None:
    """Compute the losses of some rows of a landscape, and pass them to ``finish``.

    This is a separate function, so that its plane is freed before the plane of the next landscape
    is made.
    """
    points = job.rows()
    plain, fastest = make()
    with plain.prepared(), fastest.prepared():
        for position, row in work:
            # The path has few points, which a reader compares with the training's losses.
            evaluation = plain if row == len(job.y) else fastest
            finish(position, evaluation.losses(points[row]))
    plain.release()


def _positions(fabric: Fabric, count: int, shared: Any) -> Iterator[int]:
    """Yield the indices of the missing rows that this process is to compute.

    The first index is the process's rank; then the next free rows follow.
    """
    position = fabric.global_rank
    while position < count:
        yield position
        position = fabric.world_size + shared.add("taken", 1) - 1 if shared else position + 1


@contextlib.contextmanager
def _alone(fabric: Fabric) -> Iterator[None]:
    """Hide the process group from the user's code within a ``with`` block.

    In its collectives, the user's code would wait for processes that compute other points. A
    torchmetrics metric, for example, gathers from all processes when it is computed.
    """
    if fabric.world_size == 1:
        yield
        return
    members = torch.distributed.GroupMember
    group, members.WORLD = members.WORLD, None
    try:
        yield
    finally:
        members.WORLD = group


class Progress:
    """Context manager that shows how many of ``total`` rows are done.

    On a terminal and in a notebook it is a bar; in a log at most a line for every tenth of the
    rows.
    """

    def __init__(self, total: int, is_shown: bool) -> None:
        self._total, self._is_shown = total, is_shown and total > 0
        has_bar = sys.stderr.isatty() or "ipykernel" in sys.modules
        self._bar: Any = tqdm(
            total=total, unit="row", dynamic_ncols=True, disable=not (self._is_shown and has_bar)
        )
        self._tenth = 0
        self._start = self._last_line = time.monotonic()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def show(self, done: int, tag: str, rows: Mapping[int, NDArray[np.float64]]) -> None:
        """Show that ``done`` rows are finished, with the range of a landscape's losses.

        ``rows`` are the finished rows of the landscape ``tag``.
        """
        every = np.concatenate(list(rows.values()))
        good = every[np.isfinite(every)]
        losses = f"loss {good.min():.4g} to {good.max():.4g}" if good.size else "loss not finite"
        if not self._bar.disable:
            self._bar.set_description(f"{tag}, {losses}", refresh=False)
            self._bar.update(done - self._bar.n)
            return
        tenth, now = _TENTHS * done // max(self._total, 1), time.monotonic()
        if (
            self._is_shown
            and tenth > self._tenth
            and now > self._last_line + _SECONDS_BETWEEN_LINES
        ):
            self._tenth, self._last_line = tenth, now
            took = f"{now - self._start:.0f} s"
            sys.stderr.write(
                f"loss landscape: {done} of {self._total} rows in {took}, {tag}, {losses}\n"
            )
