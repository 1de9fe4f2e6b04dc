"""``SummaryLandscape``: compute the loss landscapes of a run from its checkpoints.

MindInsight draws them. All arguments are checked before a loss is computed. Finished rows are kept,
so that an interrupted call can be continued. Every landscape becomes an event. The mathematics is
in `directions` and `evaluation`, the processes are in `workers`.
"""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from torch import nn

from mindsummary_lightning.conversion.arguments import checked_directory, natural_int, positive_int
from mindsummary_lightning.landscape.batches import digest, is_datamodule, take_batches
from mindsummary_lightning.landscape.checkpoint_names import moving_names, names_in_checkpoint
from mindsummary_lightning.landscape.checkpoints import (
    LandscapeCheckpointError,
    LandscapeCheckpoints,
    RowStore,
    mapped,
    remove_checkpoints,
)
from mindsummary_lightning.landscape.directions import OpenState, opened
from mindsummary_lightning.landscape.evaluation import (
    TRUE_PRECISIONS,
    EvaluationOptions,
    first_loss,
)
from mindsummary_lightning.landscape.grid import LandscapeGrid, final_grid, interval_grid
from mindsummary_lightning.landscape.mean_loss import LossFunction, MeanLoss
from mindsummary_lightning.landscape.workers import (
    AnyAccelerator,
    compute_rows,
    launch,
    make_fabric,
)
from mindsummary_lightning.reading.landscape_plot import Landscapes
from mindsummary_lightning.recording.summary_record import SummaryRecord
from mindsummary_lightning.values import LossLandscape
from mindsummary_lightning.values.landscape_settings import LandscapeSettings

_LOG = logging.getLogger(__name__)

CallbackFn = Callable[[], tuple[Any, nn.Module | None, Iterable[Any], Any]]


class SummaryLandscape:
    """Loss landscapes of a run, computed from checkpoints of ``SummaryCollector``.

    Args:
        summary_dir: the run's directory, which contains ``ckpt_dir``.

    Example:
        >>> landscape = SummaryLandscape("runs/mnist")  # doctest: +SKIP
        >>> landscape.generate(LitClassifier(), DataLoader(images, 256))  # doctest: +SKIP
    """

    def __init__(self, summary_dir: str | os.PathLike[str]) -> None:
        self._summary_dir = os.path.realpath(checked_directory("summary_dir", summary_dir))
        if not os.path.isdir(self._summary_dir):
            raise FileNotFoundError(
                f"summary_dir must be an existing directory, got {self._summary_dir}"
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._summary_dir!r})"

    def clean_ckpt(self) -> None:
        """Delete the run's landscape checkpoints, and rows of an interrupted landscape."""
        remove_checkpoints(self._summary_dir)

    def gen_landscapes_with_multi_process(
        self,
        callback_fn: CallbackFn,
        collect_landscape: Mapping[str, Any] | None = None,
        device_ids: Sequence[int] | None = None,
        output: str | os.PathLike[str] | None = None,
    ) -> dict[str, LossLandscape]:
        """Compute the loss landscapes of a run, with the arguments of MindSpore's method.

        Args:
            callback_fn: a function without arguments that returns ``(model, network, dataset,
                metrics)``: a LightningModule whose ``training_step`` returns the loss, or None; the
                network (needed if model is None); a DataLoader; and a loss callable of ``(output,
                target)``, or a dict with such a callable under ``"Loss"``, or None if there is a
                model.
            collect_landscape: changes of the settings the run was trained with, see
                :class:`~mindsummary_lightning.values.landscape_settings.LandscapeSettings`.
            device_ids: accelerators to use; on a machine without accelerators, the list's length is
                the number of processes. ``None`` uses all devices.
            output: directory of the summary file to write; ``None`` means the run's own directory.

        Returns:
            The written landscapes by tag.

        Raises:
            TypeError, ValueError, FileNotFoundError: as :meth:`generate`; a wrong argument is
                refused before ``callback_fn`` runs.
        """
        if not callable(callback_fn):
            raise TypeError(f"callback_fn must be a function, not {callback_fn!r}")
        devices = "auto" if device_ids is None else _checked_ids(device_ids)
        if output is not None:
            checked_directory("output", output)
        _settled(self._summary_dir, collect_landscape)
        answer = callback_fn()
        if not isinstance(answer, tuple) or len(answer) != 4:
            expected = "(model, network, dataset, metrics)"
            raise TypeError(f"callback_fn must return {expected}, not {type(answer).__name__}")
        model, network, dataset, metrics = answer
        module = network if model is None else model
        if not isinstance(module, nn.Module):
            raise TypeError(
                "callback_fn must return a LightningModule as model, "
                "or None and an nn.Module as network"
            )
        loss_fn = metrics.get("Loss") if isinstance(metrics, Mapping) else metrics
        return self.generate(
            module,
            dataset,
            loss_fn if model is None else None,
            collect_landscape=collect_landscape,
            devices=devices,
            output=output,
        )

    def generate(
        self,
        module: nn.Module,
        dataloader: Iterable[Any],
        loss_fn: LossFunction | None = None,
        *,
        collect_landscape: Mapping[str, Any] | None = None,
        devices: int | str | Sequence[int] = "auto",
        accelerator: AnyAccelerator = "auto",
        num_nodes: int = 1,
        output: str | os.PathLike[str] | None = None,
        train_mode: bool = False,
        seed: int = 0,
        precision: str | None = None,
        compile: bool = False,  # noqa: A002 - Fabric's and the Trainer's word for it
        points_at_once: int = 1,
        prefix: str | None = None,
    ) -> dict[str, LossLandscape]:
        """Compute the loss landscapes of a Lightning run or of any PyTorch module.

        After an interruption, the same call continues. With several devices it starts processes, or
        uses the processes that torchrun, SLURM or LSF have started: all of them must make the same
        call. A script therefore needs ``if __name__ == "__main__":``, and module and loss must be
        picklable.

        Args:
            module: the trained LightningModule or a network in it. Its own weights are not used,
                and it is not changed.
            dataloader: yields the samples, as in training: a loader, several loaders in a dict or
                list, or a LightningDataModule. ``num_samples`` samples are read once, the same
                samples at each call.
            loss_fn: ``loss_fn(module(*inputs), target)`` for batches ``(*inputs, target)``;
                ``None`` calls the module's ``training_step``, or its ``validation_step`` if that
                returns no loss.
            collect_landscape: changes of the settings the run was trained with, see
                :class:`~mindsummary_lightning.values.landscape_settings.LandscapeSettings`.
            devices: devices as for Fabric; on the CPU a number of processes.
            accelerator: accelerator as for Fabric, which may be an accelerator object of another
                package.
            num_nodes: number of machines that compute together; start the script on each machine
                with torchrun or srun, and give all machines the same directory.
            output: directory of the summary file to write; ``None`` means the run's own directory.
            train_mode: run the network in training mode, as MindSpore does.
            seed: seed of shuffling loaders, random directions, and dropout in training mode.
            precision: a precision of Fabric, such as ``"bf16-mixed"`` or ``"bf16-true"``; ``None``
                uses the types of the checkpoints.
            compile: run the network through ``torch.compile``.
            points_at_once: number of grid points in one ``vmap``; more than 1 is faster for tiny
                networks only (docs/landscape.md).
            prefix: prefix of the module's names in the checkpoints, such as ``"student"``, if
                several parts of the checkpoints fit the module.

        Returns:
            The written landscapes by tag; empty if ``create_landscape`` switches all landscapes
            off.

        Raises:
            TypeError: an argument has the wrong type, or the loss cannot be computed.
            ValueError: a setting is out of range, the loader is empty, or the checkpoints do not
                fit the network or are missing (``LandscapeCheckpointError``); checked before any
                work.
            FileNotFoundError: the run has no checkpoints.
        """
        _check_module(module)
        target = self._summary_dir if output is None else checked_directory("output", output)
        positive_int("points_at_once", points_at_once)
        saved = _settled(self._summary_dir, collect_landscape)
        if not saved.settings.train and not saved.settings.result:
            _LOG.info(
                "loss landscape: create_landscape switches all landscapes off, "
                "so no landscape is made"
            )
            return {}
        loss = MeanLoss(module, loss_fn, dataloader if is_datamodule(dataloader) else None)
        options = EvaluationOptions(train_mode, seed, precision, compile, points_at_once)
        jobs = _jobs(saved, loss.module, seed, prefix)
        batches = take_batches(dataloader, saved.settings.num_samples, seed)
        of_fabric = "32-true" if precision in TRUE_PRECISIONS else precision
        fabric = make_fabric(accelerator, devices, num_nodes, of_fabric)
        first = f"{first_loss(loss, opened(jobs[-1].anchor), batches, fabric.device, options):.4g}"
        data = (digest(batches), first, type(loss.module).__qualname__, train_mode, seed, precision)
        stores = []
        for job in jobs:
            rows = os.path.join(saved.directory, f"rows_{job.fingerprint(data)}")
            stores.append(RowStore(rows))
        try:
            work = partial(
                compute_rows, jobs=jobs, stores=stores, loss=loss, batches=batches, options=options
            )
            losses = launch(fabric, work)
        except KeyboardInterrupt:
            _LOG.warning(
                "loss landscape interrupted. Make the same call again to continue from the rows "
                "in %s",
                saved.directory,
            )
            raise
        about = (saved.settings.unit, saved.step_per_epoch)
        made = {}
        for job, of_job in zip(jobs, losses, strict=True):
            made[job.tag] = job.landscape(of_job, *about)
        if fabric.global_rank == 0:
            _record(target, made)
            for store in stores:
                store.clear()
        return Landscapes(made)


def _check_module(module: object) -> None:
    if isinstance(module, type):
        raise TypeError(f"module must be an nn.Module, not the class {module.__name__} itself")
    if not isinstance(module, nn.Module):
        raise TypeError(f"module must be an nn.Module, not {type(module).__name__}")


def _record(directory: str, landscapes: Mapping[str, LossLandscape]) -> None:
    with SummaryRecord(directory, raise_exception=True) as record:
        for tag, landscape in landscapes.items():
            record.add_value("LANDSCAPE", tag, landscape)
            record.record(0)


def _checked_ids(device_ids: Sequence[int]) -> Sequence[int]:
    if not isinstance(device_ids, (list, tuple)):
        raise TypeError(
            f"device_ids must be a list of ints or None, not {type(device_ids).__name__}"
        )
    if not device_ids:
        raise ValueError("device_ids must hold at least one device")
    return [natural_int("each of device_ids", number) for number in device_ids]


def _settled(directory: str, collect_landscape: Mapping[str, Any] | None) -> LandscapeCheckpoints:
    """Read the metadata of a run's checkpoints, and apply the caller's settings.

    Intervals that the caller names must be complete; the run's own intervals are cut to saved
    checkpoints.
    """
    changes = {} if collect_landscape is None else collect_landscape
    # settings that are wrong for any run are refused before the run is read
    LandscapeSettings.from_dict(changes)
    saved = LandscapeCheckpoints.open(directory)
    settings = LandscapeSettings.from_dict(changes, base=saved.settings)
    if settings.unit != saved.settings.unit:
        raise ValueError(
            f"the run saved one checkpoint per {saved.settings.unit}, "
            f"so unit cannot be {settings.unit!r}"
        )
    settled = replace(saved, settings=settings, has_named_intervals="intervals" in changes)
    if settled.has_named_intervals:
        return settled
    return settled.with_saved_intervals()


def _jobs(
    saved: LandscapeCheckpoints, module: nn.Module, seed: int, prefix: str | None
) -> list[LandscapeGrid]:
    settings = saved.settings
    intervals = settings.intervals if settings.train else ()
    last = saved.last()
    needed = set(itertools.chain.from_iterable(intervals))
    if settings.result:
        needed.add(last)
    saved.check(sorted(needed))
    names = moving_names(module)
    if not names:
        raise LandscapeCheckpointError(
            f"{type(module).__name__} has no parameter with weight or bias in its name, "
            "so a landscape has no parameter to move"
        )

    def state(number: int) -> OpenState:
        path = saved.files[number]
        return partial(mapped, path, names_in_checkpoint(module, mapped(path), path, prefix))

    how = (names, settings.landscape_size, seed)
    jobs = []
    for interval in intervals:
        jobs.append(interval_grid(interval, list(map(state, interval)), *how))
    if settings.result:
        jobs.append(final_grid(last, state(last), *how))
    return jobs
