"""Reads the state of a Trainer.

Only this module reads what Lightning keeps private.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves


def is_tuning(trainer: Any) -> bool:
    """Tell whether a ``Tuner`` runs the Trainer, and has replaced its loggers."""
    return any(type(logger).__name__ == "DummyLogger" for logger in trainer.loggers)


def transferred(module: Any, batch: Any) -> Any:
    """Return a batch after the transfer hooks, as the module gets it.

    The hooks of batch transfer are applied; without a Trainer the batch is returned as it is.

    Calls ``_on_before_batch_transfer`` and ``_apply_batch_transfer_handler`` (lightning 2.4 to
    2.6.6).
    """
    if getattr(module, "_trainer", None) is None:
        return batch
    return module._apply_batch_transfer_handler(module._on_before_batch_transfer(batch))


def planned_steps(trainer: Any) -> int | None:
    """Return the number of optimizer steps in the whole run, or ``None`` if unknown."""
    total = math.inf
    # accumulation that changes with the epoch, loaders of unknown length
    with contextlib.suppress(Exception):
        total = float(trainer.estimated_stepping_batches)
    return int(total) if 0 < total < math.inf else None


def steps_in_first_epoch(trainer: Any) -> int:
    """Return the number of optimizer steps in the first epoch.

    The result is 1 for a loader of unknown length.
    """
    batches: float = trainer.num_training_batches
    if not math.isfinite(batches):
        return 1
    groups: int = math.ceil(batches / trainer.accumulate_grad_batches)
    return max(1, groups)


def epochs_done(trainer: Any) -> int:
    """Count the epochs that are completely trained.

    Lightning itself counts an epoch after the validation at its end.

    Reads ``epoch_progress`` and ``batch_progress`` of the loops (lightning 2.4 to 2.6.6).
    """
    with contextlib.suppress(AttributeError):
        epochs, batches = (
            trainer.fit_loop.epoch_progress.current,
            trainer.fit_loop.epoch_loop.batch_progress,
        )
        is_trained = batches.is_last_batch and batches.current.completed == batches.current.ready
        return int(epochs.completed) + int(is_trained and epochs.started > epochs.completed)
    return int(trainer.current_epoch)


def real_optimizers(optimizers: Iterable[Any]) -> list[Any]:
    """Return the optimizers, without Lightning's placeholder for a missing optimizer.

    Reads the class name `_MockOptimizer` (lightning 2.4 to 2.6.6).
    """
    return [optimizer for optimizer in optimizers if type(optimizer).__name__ != "_MockOptimizer"]


def training_loader(trainer: Any) -> Any:
    """Return the training loader.

    Several are one ``CombinedLoader``, which knows in which mode they are read.

    Reads ``fit_loop._combined_loader`` (lightning 2.4 to 2.6.6); ``train_dataloader`` gives the
    loaders without a mode.
    """
    loaders = trainer.train_dataloader
    if isinstance(loaders, (dict, list, tuple)):
        return getattr(getattr(trainer, "fit_loop", None), "_combined_loader", loaders)
    return loaders


def evaluation(trainer: Any) -> tuple[str, Any, list[float]]:
    """Return the kind, loaders and batch counts of the present evaluation.

    The loaders are one loader, a list or a dict. The sizes are the most batches of each, if known.
    """
    kind, name = ("test", "test") if trainer.testing else ("validation", "val")
    batches: list[float] = []
    with contextlib.suppress(Exception):
        batches = list(getattr(trainer, f"num_{name}_batches"))
    return kind, getattr(trainer, f"{name}_dataloaders"), batches


def has_read_all(trainer: Any) -> bool:
    """Tell whether the training loader has no more batches in this epoch.

    Otherwise the epoch has ended early.

    Reads ``fit_loop._data_fetcher`` (lightning 2.4 to 2.6.6).
    """
    return bool(getattr(getattr(trainer.fit_loop, "_data_fetcher", None), "done", False))


def reads_in_turn(trainer: Any) -> bool:
    """Tell whether the evaluation reads its loaders in sequence.

    Only a ``CombinedLoader`` may read them at the same time.

    Reads ``_evaluation_loop._is_sequential`` (lightning 2.4 to 2.6.6).
    """
    return bool(getattr(getattr(trainer, "_evaluation_loop", None), "_is_sequential", True))


def steps_done(trainer: Any) -> int:
    """Count the batches of this fit in which an optimizer has stepped.

    Reads ``fit_loop.epoch_loop._batches_that_stepped`` (lightning 2.4 to 2.6.6), which a checkpoint
    restores; it rises after ``on_train_batch_end``. Without it, ``global_step``.
    """
    epoch_loop = getattr(getattr(trainer, "fit_loop", None), "epoch_loop", None)
    return int(getattr(epoch_loop, "_batches_that_stepped", trainer.global_step))


def scales_loss(trainer: Any) -> bool:
    """Tell whether the loss is scaled for mixed precision.

    With a scaled loss, gradients may overflow, and the step is then skipped.
    """
    return getattr(trainer.precision_plugin, "scaler", None) is not None


def given_loaders(trainer: Any) -> list[Any]:
    """Return the training loaders that were passed to ``fit``.

    Call it before the Trainer reads from them. Loaders that the Trainer makes are not included.

    Reads ``fit_loop._data_source.instance`` (lightning 2.4 to 2.6.6).
    """
    source = getattr(getattr(trainer.fit_loop, "_data_source", None), "instance", None)
    return [loader for loader in tree_leaves(source) if hasattr(loader, "dataset")]


def backward_scale(trainer: Any) -> float:
    """Return the factor by which the loss is scaled in the backward pass.

    The factor is 1 except with ``precision="16-mixed"``.
    """
    scaler = getattr(trainer.precision_plugin, "scaler", None)
    return 1.0 if scaler is None else float(scaler.get_scale())


def loss_scale(trainer: Any, module: Any, optimizer: Any) -> torch.Tensor | None:
    """Return the factor by which an optimizer's gradients are scaled, or ``None``.

    The factor is a tensor on the module's device.

    With ``precision="16-mixed"`` the loss is scaled. Lightning unscales the gradients before the
    hooks of a step, but not those of fused optimizers, which do it in their step. Scaling a one
    gives the factor without waiting for the device, as ``GradScaler.get_scale`` does. Reads
    ``_step_supports_amp_scaling``, by which `GradScaler` knows them.
    """
    scaler = getattr(trainer.precision_plugin, "scaler", None)
    if scaler is None or not getattr(optimizer, "_step_supports_amp_scaling", False):
        return None
    scale: torch.Tensor = scaler.scale(torch.ones((), device=module.device))
    return scale
