"""Saving of the parameters that loss landscapes need, while a run trains."""

from __future__ import annotations

import logging
import math
from typing import Any

from torch import nn

from mindsummary_lightning.collection.sharding import is_flattened
from mindsummary_lightning.landscape.checkpoints import LandscapeCheckpointWriter
from mindsummary_lightning.recording.summary_record import SummaryRecord
from mindsummary_lightning.values.landscape_settings import LandscapeSettings

__all__ = ["LandscapeSaver"]

_LOG = logging.getLogger(__name__)


class LandscapeSaver:
    """Saves a module after the steps or epochs that the settings name; on rank zero.

    All checkpoints together take ``max_bytes`` at most. Unless the user named landscapes (``is_asked_for``), all of
    them are saved or none.
    """

    def __init__(
        self,
        record: SummaryRecord,
        trainer: Any,
        module: nn.Module,
        settings: LandscapeSettings,
        max_bytes: int,
        is_asked_for: bool,
    ) -> None:
        self._module = module
        self._unit = settings.unit
        self._writer: LandscapeCheckpointWriter | None = None
        # Its state_dict gathers the parameters from all ranks, and would wait for them here for ever.
        if any(is_flattened(parameter) for parameter in module.parameters()):
            level = logging.WARNING if is_asked_for else logging.DEBUG
            _LOG.log(level, "loss landscape: the parameters of FSDP1 (strategy='fsdp') are not saved")
            return
        self._writer = LandscapeCheckpointWriter(
            record.directory,
            type(module).__name__,
            settings,
            max_bytes,
            _planned_steps_per_epoch(trainer),
            record.file_mode,
            all_or_nothing=not is_asked_for,
        )

    def after_step(self, step: int) -> None:
        """Save the parameters if this step is wanted; cheap if not."""
        if self._writer is not None and self._unit == "step" and self._writer.wants(step):
            self._writer.save(step, self._module.state_dict())

    def after_epoch(self, epoch: int, step: int) -> None:
        """Save the parameters if this epoch is wanted, and note how many optimizer steps an epoch really has."""
        if self._writer is None:
            return
        if step:
            self._writer.set_step_per_epoch(max(1, round(step / epoch)))
        if self._unit == "epoch" and self._writer.wants(epoch):
            self._writer.save(epoch, self._module.state_dict())


def _planned_steps_per_epoch(trainer: Any) -> int:
    """Optimizer steps in the first epoch as far as they are known before it; 1 for a loader of unknown length."""
    batches = trainer.num_training_batches
    return max(1, math.ceil(batches / trainer.accumulate_grad_batches)) if math.isfinite(batches) else 1
