"""Rows of landscapes spread over devices and processes by Lightning Fabric."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
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
from lightning.fabric.utilities import move_data_to_device
from numpy.typing import NDArray

from mindsummary_lightning.landscape.batches import Batch
from mindsummary_lightning.landscape.evaluation import EvaluationOptions, PlaneLoss
from mindsummary_lightning.landscape.grid import LandscapeGrid
from mindsummary_lightning.landscape.mean_loss import MeanLoss
from mindsummary_lightning.landscape.progress import Progress
from mindsummary_lightning.landscape.row_store import RowStore
from mindsummary_lightning.landscape.shortcuts import loss_on_plane

AnyAccelerator: TypeAlias = str | Accelerator
Rows: TypeAlias = dict[int, NDArray[np.float64]]

_LAUNCHERS = (TorchElasticEnvironment, SLURMEnvironment, LSFEnvironment)
_KEEP_FREED_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 34)}


def make_fabric(
    accelerator: AnyAccelerator, devices: int | str | Sequence[int], num_nodes: int, precision: Any
) -> Fabric:
    """A Fabric that starts its processes itself, unless torchrun, SLURM or LSF has started them.

    On the CPU the number of devices is that of processes per machine. Several machines need a launcher.
    """
    is_launched = any(environment.detect() for environment in _LAUNCHERS)
    if num_nodes > 1 and not is_launched:
        raise ValueError(
            f"num_nodes is {num_nodes}, but this process was not started by torchrun, SLURM or LSF; start it on each "
            f"machine, for example with torchrun --nnodes {num_nodes} --nproc-per-node DEVICES SCRIPT"
        )
    kind = Fabric(accelerator=accelerator, devices=1).strategy.accelerator
    if kind is None:
        raise ValueError(f"Fabric knows no accelerator {accelerator!r}")
    if not isinstance(devices, (int, str)):
        devices = len(devices) if isinstance(kind, CPUAccelerator) else list(devices)
    chosen = kind.get_parallel_devices(kind.parse_devices(kind.auto_device_count() if devices == "auto" else devices))
    strategy: Any = "auto"
    if is_launched:
        strategy = "ddp"
    elif len(chosen) > 1:
        strategy = "ddp_spawn"  # not forked: a fork after torch has started threads or an accelerator hangs
    elif chosen[0].type != "cpu":
        strategy = SingleDeviceStrategy(chosen[0])  # Fabric would use the CPU for accelerators it does not know
    return Fabric(accelerator=accelerator, devices=devices, num_nodes=num_nodes, strategy=strategy, precision=precision)


def launch(fabric: Fabric, work: Callable[[Fabric], Any]) -> Any:
    """Run ``work`` in every process of a Fabric; returns what the first one returned."""
    if fabric.world_size > 1:
        with _environment_of_workers():
            return fabric.launch(work)
    # Fabric changes DataLoader and BatchSampler for the launch and changes them back only if nothing is raised.
    errors: list[BaseException] = []

    def run(own: Fabric) -> Any:
        try:
            return work(own)
        except BaseException as error:
            errors.append(error)

    result = fabric.launch(run)
    if errors:
        raise errors[0]
    return result


@contextlib.contextmanager
def _environment_of_workers() -> Iterator[None]:
    """Let processes that start now keep the memory that they free.

    glibc gives memory of the size of a layer's activations back to the system and takes it again, zeroed page by page,
    for every layer of every grid point: a quarter of the time of a convolutional network, and what slows processes
    side by side. It reads these variables only when a process starts.
    """
    added = [name for name in _KEEP_FREED_MEMORY if name not in os.environ]
    os.environ.update({name: _KEEP_FREED_MEMORY[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def move_to_device(batch: Any, device: torch.device) -> Any:
    """A batch with its tensors on a device, as Lightning moves it."""
    return move_data_to_device(batch, device)


def compute_rows(
    fabric: Fabric,
    jobs: Sequence[LandscapeGrid],
    stores: Sequence[RowStore],
    loss: MeanLoss,
    batches: Sequence[Batch],
    options: EvaluationOptions,
) -> list[list[NDArray[np.float64]]]:
    """The losses of every row of every job; what to give :func:`launch`.

    Each process takes the next row that no other has taken, so that a slow one does not hold the others, and stores
    what it finishes in the store of the row's job. The rows are gathered from the processes, so that each returns all
    of them.
    """
    all_rows = [job.rows() for job in jobs]
    stored = [store.rows(rows) for store, rows in zip(stores, all_rows, strict=True)]
    # Every process must have read the stores before one of them stores more, or their lists of rows would differ.
    fabric.barrier()
    missing = [(job, row) for job, rows in enumerate(all_rows) for row in range(len(rows)) if row not in stored[job]]
    mine: list[Rows] = stored if fabric.global_rank == 0 else [{} for _ in jobs]
    positions = _positions(fabric, len(missing), stores[0].directory)
    with Progress(len(missing), fabric.global_rank == 0) as progress, _alone(fabric):

        def finish(position: int, losses: NDArray[np.float64]) -> None:
            job, row = missing[position]
            mine[job][row] = losses
            stores[job].write(row, losses)
            progress.show(position + 1, jobs[job].tag, mine[job])

        for job, some in itertools.groupby(positions, lambda position: missing[position][0]):
            ways = (loss, jobs[job], tuple(batches), fabric.device, options, fabric.autocast, move_to_device)
            _compute(partial(loss_on_plane, *ways), jobs[job], ((each, missing[each][1]) for each in some), finish)
    return _gathered(fabric, all_rows, mine)


def _compute(
    make: Callable[[], tuple[PlaneLoss, PlaneLoss]],
    job: LandscapeGrid,
    work: Iterable[tuple[int, int]],
    finish: Callable[[int, NDArray[np.float64]], None],
) -> None:
    """The losses of rows of one job. A function of its own: its plane is gone when that of the next job is made."""
    points = job.rows()
    plain, fastest = make()
    active: PlaneLoss | None = None
    with ExitStack() as prepared:
        for position, row in work:
            # The path has few points, which a reader compares with the training's losses.
            wanted = plain if row == len(job.y) else fastest
            if wanted is not active:
                prepared.close()  # what one has changed in the network must not be where the other starts
                prepared.enter_context(wanted.prepared())
                active = wanted
            finish(position, wanted.losses(points[row]))
    plain.release()


def _positions(fabric: Fabric, count: int, name: str) -> Iterator[int]:
    """Positions in the list of missing rows that this process is to compute: one of its own, then the next free ones.

    Counts, under a name, in the process group's store, which
    ``torch.distributed.distributed_c10d._get_default_store`` returns (torch 2.5 to 2.13).
    """
    if fabric.world_size == 1:
        return iter(range(count))
    store = torch.distributed.distributed_c10d._get_default_store()

    def free() -> Iterator[int]:
        position = fabric.global_rank
        while position < count:
            yield position
            position = fabric.world_size + store.add(f"mindsummary_lightning/{name}", 1) - 1

    return free()


@contextlib.contextmanager
def _alone(fabric: Fabric) -> Iterator[None]:
    """Hide the process group from the user's code, which would wait in its collectives for processes at other points.

    A torchmetrics metric, for one, gathers from all processes when it is computed.
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


def _gathered(
    fabric: Fabric, all_rows: Sequence[Sequence[NDArray[np.float64]]], mine: Sequence[Rows]
) -> list[list[NDArray[np.float64]]]:
    """The losses of all rows of all jobs, from the one process that has each; ends the process group."""
    known = [of_job.get(index) for rows, of_job in zip(all_rows, mine, strict=True) for index in range(len(rows))]
    lengths = [len(points) for rows in all_rows for points in rows]
    flat = np.concatenate([np.full(n, np.nan) if row is None else row for n, row in zip(lengths, known, strict=True)])
    if fabric.world_size > 1:
        has = np.repeat([row is not None for row in known], lengths)
        # As bytes, because some accelerators have no float64; not as objects, which not every backend of torch can
        # gather.
        own = torch.from_numpy(np.concatenate([flat.view(np.uint8), has.view(np.uint8)])).to(fabric.device)
        others = [torch.empty_like(own) for _ in range(fabric.world_size)]
        torch.distributed.all_gather(others, own)
        for other in others:
            content = other.cpu().numpy()
            theirs = content[flat.nbytes :].view(bool)
            flat[theirs] = content[: flat.nbytes].view(np.float64)[theirs]
        # A process that exits before its process group is destroyed is sometimes aborted by one of the group's threads.
        # Destroying it waits for them, with Python's lock in torch 2.5, and they need that lock to free a tensor. So it
        # is here, where ``own`` and ``others`` still exist.
        fabric.barrier()
        torch.distributed.destroy_process_group()
    rows_of_all = iter(np.split(flat, np.cumsum(lengths)[:-1]))
    return [list(itertools.islice(rows_of_all, len(rows))) for rows in all_rows]
