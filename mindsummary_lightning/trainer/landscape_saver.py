"""What saves the parameters that loss landscapes need, while a run trains."""

from __future__ import annotations

import logging
import math
from typing import Any

from torch import nn
from torch.nn.parameter import is_lazy

from mindsummary_lightning.collection.sharding import is_flattened
from mindsummary_lightning.landscape.checkpoints import LandscapeCheckpointWriter
from mindsummary_lightning.recording.summary_record import SummaryRecord
from mindsummary_lightning.values.landscape_settings import LandscapeSettings

_LOG = logging.getLogger(__name__)


def landscape_saver(
    record: SummaryRecord,
    trainer: Any,
    module: nn.Module,
    settings: LandscapeSettings,
    max_bytes: int,
    is_asked_for: bool,
) -> LandscapeCheckpointWriter | None:
    """The writer of the checkpoints of a run that is about to train; ``None`` where it would need all ranks.

    All checkpoints together take ``max_bytes`` at most. Unless the user named landscapes (``is_asked_for``), all of
    them are saved or none.
    """
    # Its state_dict gathers the parameters from all ranks, and would wait for them here for ever.
    if any(is_flattened(parameter) for parameter in module.parameters()):
        level = logging.WARNING if is_asked_for else logging.DEBUG
        _LOG.log(level, "loss landscape: the parameters of FSDP1 (strategy='fsdp') are not saved")
        return None
    # Optimizer steps in the first epoch as far as they are known before it; 1 for a loader of unknown length.
    batches = trainer.num_training_batches
    steps = max(1, math.ceil(batches / trainer.accumulate_grad_batches)) if math.isfinite(batches) else 1
    writer = LandscapeCheckpointWriter(
        record.directory,
        type(module).__name__,
        settings,
        max_bytes,
        steps,
        record.file_mode,
        all_or_nothing=not is_asked_for,
    )
    tensors = (tensor for tensor in (*module.parameters(), *module.buffers()) if not is_lazy(tensor))
    writer.check_budget(sum(tensor.nbytes for tensor in tensors))
    return writer
