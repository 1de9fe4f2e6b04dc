"""Rows of landscapes spread over devices and processes by Lightning Fabric, with a progress bar."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from lightning.fabric import Fabric
from lightning.fabric.utilities import move_data_to_device
from numpy.typing import NDArray
from tqdm.auto import tqdm

from mindsummary_lightning.landscape.batches import Batch
from mindsummary_lightning.landscape.evaluation import EvaluationOptions
from mindsummary_lightning.landscape.grid import LandscapeGrid
from mindsummary_lightning.landscape.mean_loss import MeanLoss
from mindsummary_lightning.landscape.row_store import RowStore
from mindsummary_lightning.landscape.shortcuts import loss_on_plane

Rows: TypeAlias = dict[int, NDArray[np.float64]]

__all__ = ["compute_rows", "launch", "make_fabric", "on_device"]

_KEEP_FREED_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 34)}


def make_fabric(accelerator: str, devices: int | str | Sequence[int], precision: Any) -> Fabric:
    """A Fabric that starts its processes itself if there is more than one device.

    Args:
        accelerator: as Fabric takes it, ``"auto"`` for what the machine has.
        devices: a number, ``"auto"``, or device indices; on the CPU that many processes.
        precision: as Fabric takes it.
    """
    if not isinstance(devices, (int, str)):
        devices = list(devices)
        if Fabric(accelerator=accelerator).device.type == "cpu":
            devices = len(devices)
    probe = Fabric(accelerator=accelerator, devices=devices)
    several = len(getattr(probe.strategy, "parallel_devices", None) or [probe.device]) > 1
    # Spawned, not forked: a fork after torch has started threads or CUDA hangs.
    strategy = "ddp_spawn" if several else "auto"
    return Fabric(accelerator=accelerator, devices=devices, strategy=strategy, precision=precision)


def launch(fabric: Fabric, work: Callable[[Fabric], Any]) -> Any:
    """Run ``work`` in every process of a Fabric; returns what the first one returned."""
    with _environment_of_workers() if fabric.world_size > 1 else contextlib.nullcontext():
        return fabric.launch(work)


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


def on_device(batches: Sequence[Batch], device: torch.device) -> tuple[Batch, ...]:
    """The batches with their tensors on ``device``; those already there are not copied."""
    return tuple(Batch(move_data_to_device(batch.data, device), batch.samples) for batch in batches)


def compute_rows(
    fabric: Fabric,
    jobs: Sequence[LandscapeGrid],
    stores: Sequence[RowStore],
    loss: MeanLoss,
    batches: Sequence[Batch],
    options: EvaluationOptions,
) -> list[list[NDArray[np.float64]]]:
    """The losses of every row of every job; what to give ``fabric.launch``.

    Each process takes every n-th of the rows that the stores do not hold, stores what it finishes, and the rows are
    summed over the processes, so that each returns all of them.

    Args:
        fabric: the process's own.
        jobs: landscapes to compute.
        stores: where each job's finished rows are.
        loss: the network with its loss.
        batches: samples, on any device.
        options: how losses are computed.
    """
    own_batches = on_device(batches, fabric.device)
    all_rows = [job.rows() for job in jobs]
    found = [_stored(store, rows) for store, rows in zip(stores, all_rows, strict=True)]
    # Every process must have read the stores before one of them stores more, or they would divide different lists.
    fabric.barrier()
    shares = [
        [index for index in range(len(rows)) if index not in kept][fabric.global_rank :: fabric.world_size]
        for rows, kept in zip(all_rows, found, strict=True)
    ]
    result = []
    with _progress(sum(map(len, shares)), fabric) as bar:
        for job, store, rows, kept, share in zip(jobs, stores, all_rows, found, shares, strict=True):
            bar.set_description(job.tag)
            mine: Rows = kept if fabric.global_rank == 0 else {}
            if share:
                plane_loss = loss_on_plane(loss, job.plane, own_batches, fabric.device, options, fabric.autocast)
                for index in share:
                    mine[index] = plane_loss.losses(rows[index])
                    store.keep(index, mine[index])
                    bar.set_postfix_str(_range(mine), refresh=False)
                    bar.update()
            result.append(_gathered(fabric, rows, mine))
    if fabric.world_size > 1:
        # A process that exits before its process group is destroyed is sometimes aborted by one of the group's threads.
        fabric.barrier()
        torch.distributed.destroy_process_group()
    return result


def _stored(store: RowStore, rows: Sequence[NDArray[np.float64]]) -> Rows:
    stored = {index: store.find(index, len(points)) for index, points in enumerate(rows)}
    return {index: losses for index, losses in stored.items() if losses is not None}


def _gathered(fabric: Fabric, rows: Sequence[NDArray[np.float64]], mine: Rows) -> list[NDArray[np.float64]]:
    if fabric.world_size == 1:
        return [mine[index] for index in range(len(rows))]
    flat = np.concatenate([mine.get(index, np.zeros(len(points))) for index, points in enumerate(rows)])
    summed = torch.from_numpy(flat).to(fabric.device)
    fabric.all_reduce(summed, reduce_op="sum")  # in place
    return np.split(summed.cpu().numpy(), np.cumsum([len(points) for points in rows])[:-1])


def _progress(total: int, fabric: Fabric) -> Any:
    is_shown = fabric.global_rank == 0 and sys.stderr.isatty()
    return tqdm(total=total, unit="row", disable=not is_shown or total == 0, dynamic_ncols=True)


def _range(rows: Rows) -> str:
    every = np.concatenate(list(rows.values()))
    good = every[np.isfinite(every)]
    return f"loss {good.min():.4g}..{good.max():.4g}" if good.size else "loss not finite"
