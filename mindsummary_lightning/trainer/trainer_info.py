"""Reads lineage values from a Trainer, its module and its data module.

A field that cannot be determined is skipped; nothing here raises, whatever the model or the data
looks like.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar

import torch

from mindsummary_lightning.conversion.flattening import value_or_default
from mindsummary_lightning.conversion.hyperparameters import flatten
from mindsummary_lightning.dataset.loader_sizes import LoaderSizes
from mindsummary_lightning.dataset.pipeline import dataset_path
from mindsummary_lightning.trainer.trainer_state import real_optimizers, training_loader
from mindsummary_lightning.values import TrainInfo
from mindsummary_lightning.values.limits import FLOAT32_MAX
from mindsummary_lightning.values.lineage_info import INT32_MAX, CustomValue

T = TypeVar("T")


def train_lineage(
    trainer: Any,
    module: Any,
    loss: float | None = None,
    epochs: int | None = None,
    learning_rate: float | None = None,
    sizes: LoaderSizes | None = None,
    loss_function: str | None = None,
    checkpoints: KnownCheckpoints | None = None,
) -> TrainInfo:
    """Return the training lineage with the fields that are known now.

    ``epochs`` counts finished epochs, ``None``: planned epochs; ``learning_rate`` is what the first
    group was made with. ``checkpoints`` are those that decide which one is recorded.
    """
    loader = _known(lambda: training_loader(trainer))
    path = recorded_checkpoint(trainer, checkpoints or KnownCheckpoints())
    return TrainInfo(
        optimizer=_known(
            lambda: ", ".join(type(one).__name__ for one in real_optimizers(trainer.optimizers))
        )
        or None,
        learning_rate=learning_rate,
        loss_function=loss_function,
        epoch=_int32(_known(lambda: planned_epochs(trainer)) if epochs is None else epochs),
        parallel_mode=_known(lambda: parallel_mode(trainer)),
        device_num=_int32(_known(lambda: int(trainer.world_size))),
        batch_size=None if sizes is None else sizes.batch_size,
        train_dataset_path=_known(lambda: dataset_path(getattr(loader, "dataset", None))),
        train_dataset_size=None if sizes is None else sizes.dataset_size,
        network=type(module).__name__,
        loss=_finite(loss),
        model_path=json.dumps({"ckpt": path}),
        model_size=_known(lambda: size_of(path)) if path else 0,
    )


def planned_epochs(trainer: Any) -> int | None:
    """Return the number of epochs that a Trainer will train, or ``None`` if unknown.

    They are unknown where time, steps or a callback end the run.
    """
    epochs = trainer.max_epochs
    return epochs if epochs is not None and epochs >= 0 else None


def parallel_mode(trainer: Any) -> str:
    """Return ``stand_alone`` for a single device, otherwise the strategy's name.

    The word is MindSpore's.
    """
    if trainer.world_size == 1:
        return "stand_alone"
    return type(trainer.strategy).__name__.removesuffix("Strategy").lower()


def checkpoint_path(trainer: Any, exception_checkpoint: str | None = None) -> str | None:
    """Return the absolute path of the checkpoint for the lineage, or ``None``.

    It is the best checkpoint of the Trainer's first checkpoint callback, else its last checkpoint.

    A callback without a ``monitor`` calls its newest checkpoint the best, which is
    ``exception_checkpoint`` if there is one.
    """
    callback = _known(lambda: trainer.checkpoint_callback)
    best = getattr(callback, "best_model_path", None)
    last = getattr(callback, "last_model_path", None)
    is_best_by_metric = best and getattr(callback, "monitor", None) is not None
    path = best if is_best_by_metric else exception_checkpoint or best or last
    return absolute_path(str(path)) if path else None


def absolute_path(path: str) -> str:
    """Make the path of a checkpoint absolute.

    The address of a remote checkpoint (``s3://...``) stays as it is.
    """
    return path if "://" in path else os.path.abspath(path)


@dataclass(frozen=True)
class CheckpointFile:
    """A checkpoint, and the time at which its newest file was written."""

    path: str | None
    modified_ns: int | None


def checkpoint_file(trainer: Any) -> CheckpointFile:
    """Return the present :func:`checkpoint_path`, with its modification time."""
    path = checkpoint_path(trainer)
    return CheckpointFile(path, _known(lambda: max(_modification_times(str(path)))))


def _modification_times(path: str) -> Iterator[int]:
    """Yield the modification times of a checkpoint's file, or of all its files."""
    yield os.stat(path).st_mtime_ns
    for root, folders, names in os.walk(path):
        for name in folders + names:
            yield os.stat(os.path.join(root, name)).st_mtime_ns


@dataclass(frozen=True)
class KnownCheckpoints:
    """Checkpoints that decide which checkpoint the lineage of a training names.

    Attributes:
        earlier: the checkpoint of a different fit, which is not recorded.
        of_exception: path of the checkpoint that was saved when an exception ended the fit.
    """

    earlier: CheckpointFile | None = None
    of_exception: str | None = None


def recorded_checkpoint(trainer: Any, known: KnownCheckpoints) -> str | None:
    """Return the path of the checkpoint to name in this fit's lineage."""
    if known.earlier is not None and checkpoint_file(trainer) == known.earlier:
        return known.of_exception
    return checkpoint_path(trainer, known.of_exception)


def earlier_checkpoint(trainer: Any) -> CheckpointFile | None:
    """Return the checkpoint that a callback saved in an earlier fit, or ``None``.

    Call it for a fit that begins and neither resumes nor continues.
    """
    return None if trainer.ckpt_path or trainer.global_step else checkpoint_file(trainer)


def size_of(path: str) -> int | None:
    """Return the size in bytes of a checkpoint, which is a file or a directory."""
    if os.path.isdir(path):
        size = 0
        for root, _, names in os.walk(path):
            for name in names:
                size += os.path.getsize(os.path.join(root, name))
        return size
    return os.path.getsize(path) if os.path.isfile(path) else None


def evaluation_dataset(loaders: Any, sizes: Sequence[int | None]) -> tuple[str | None, int | None]:
    """Return the path and the total size of the evaluation data sets.

    The path is the first data set's. The size is the number of samples read from all, if each
    is known.

    ``loaders`` is what ``trainer.val_dataloaders`` or ``trainer.test_dataloaders`` holds: a loader,
    a list or a dict.
    """
    if isinstance(loaders, Mapping):
        loaders = list(loaders.values())
    every = loaders if isinstance(loaders, (list, tuple)) else [loaders]
    paths = []
    for loader in every:
        paths.append(_known(lambda loader=loader: dataset_path(getattr(loader, "dataset", None))))
    path = next(filter(None, paths), None)
    known = [size for size in sizes if size is not None]
    if not known or len(known) < len(sizes):
        return path, None
    return path, _int32(sum(known))


def hyperparameters(trainer: Any, module: Any) -> dict[str, CustomValue]:
    """Return the hyper-parameters of data module and module, with flattened names.

    The module's take precedence. The result is empty if the Trainer logs none.
    """
    params: dict[str, CustomValue] = {}
    if not getattr(trainer, "enable_autolog_hparams", True):
        return params
    for owner in (getattr(trainer, "datamodule", None), module):
        found = _known(lambda owner=owner: flatten(owner.hparams))
        params.update(found or {})
    return params


def environment(trainer: Any) -> dict[str, CustomValue]:
    """Return the run's environment: versions of torch and Lightning, planned epochs."""
    found: dict[str, CustomValue | None] = {}
    for package in ("torch", "lightning", "pytorch-lightning"):
        with contextlib.suppress(PackageNotFoundError):
            found[f"{package.replace('-', '_')}_version"] = version(package)
    found["planned_epochs"] = _known(lambda: planned_epochs(trainer))
    return _without_unknown(found)


def _without_unknown(found: Mapping[str, CustomValue | None]) -> dict[str, CustomValue]:
    return {name: value for name, value in found.items() if value is not None}


def arithmetic(trainer: Any) -> dict[str, CustomValue]:
    """Return the settings that two runs must share to be comparable.

    They are the precision, the optimizers' groups, and whether optimization is manual.
    """
    precision, groups = (
        _known(lambda: str(trainer.precision)),
        _known(lambda: _parameter_groups(trainer.optimizers)),
    )
    found: dict[str, CustomValue | None] = {
        "precision": precision,
        "optimizer_groups": groups or None,
    }
    found["manual_optimization"] = (
        _known(lambda: not trainer.lightning_module.automatic_optimization) or None
    )
    return _without_unknown(found)


def _parameter_groups(optimizers: Sequence[Any]) -> dict[str, CustomValue]:
    """Return the optimizer class, size and settings of every parameter group.

    Only settings that are numbers, texts or tuples are returned.
    """
    groups: dict[str, CustomValue] = {}
    for optimizer in real_optimizers(optimizers):
        # of a wrapper that strategies put around it
        kind = type(getattr(optimizer, "optimizer", optimizer)).__name__
        for group in optimizer.param_groups:
            values = {name: _plain(value) for name, value in group.items() if name != "params"}
            groups[str(len(groups))] = {
                "optimizer": kind,
                "parameters": len(group["params"]),
                **_without_unknown(values),
            }
    return groups


def _plain(value: Any) -> int | float | str | None:
    if isinstance(value, torch.Tensor):
        return float(value) if value.numel() == 1 and value.device.type == "cpu" else None
    if isinstance(value, tuple):
        return str(value)
    return value if isinstance(value, (int, float, str)) else None


def settings(trainer: Any, rates: Sequence[float]) -> dict[str, CustomValue]:
    """Return the Trainer's settings for which the lineage has no field.

    They are the type of the device, and the first rates of several groups.
    """
    accelerator = _known(lambda: str(trainer.strategy.root_device.type))
    return {**({"accelerator": accelerator} if accelerator else {}), **first_rates_by_group(rates)}


def first_rates_by_group(rates: Sequence[float]) -> dict[str, CustomValue]:
    """Return the initial learning rates of the groups, if there are several groups."""
    if len(rates) < 2:
        return {}
    return {f"learning_rate/{index}": rate for index, rate in enumerate(rates)}


def learning_rates(trainer: Any) -> list[float]:
    """Return the present learning rates of the parameter groups.

    The rates are in the optimizers' order; only finite rates are returned.
    """
    return _rates(trainer, "lr")


def first_learning_rates(trainer: Any) -> list[float]:
    """Return the initial learning rates of the parameter groups.

    The rates are in the optimizers' order; only finite rates are returned.

    A scheduler of torch keeps it as ``initial_lr``, in checkpoints too; without one it is the rate
    when the fit begins. ``OneCycleLR`` and ``CyclicLR`` overrule the optimizer's own rate: there it
    is the one that they begin with, which follows what the user set.
    """
    return _rates(trainer, "initial_lr")


def _rates(trainer: Any, key: str) -> list[float]:
    rates = _known(lambda: _rates_of_groups(trainer, key)) or []
    return [rate for rate in rates if abs(rate) <= FLOAT32_MAX]


def _rates_of_groups(trainer: Any, key: str) -> list[float]:
    rates = []
    for optimizer in trainer.optimizers:
        for group in optimizer.param_groups:
            if "lr" in group:
                rates.append(float(group.get(key, group["lr"])))
    return rates


def _known(find: Callable[..., T]) -> T | None:
    return value_or_default(None, find)  # a strange model or loader costs its own field only


def _finite(number: float | None) -> float | None:
    return number if number is not None and abs(number) <= FLOAT32_MAX else None


def _int32(number: int | None) -> int | None:
    return number if number is not None and 0 <= number <= INT32_MAX else None
