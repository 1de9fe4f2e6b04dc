"""State of a SummaryCollector in a checkpoint, and its use by a run that resumes from it.

The step is kept because Lightning's own counters do not give it: a checkpoint saved in the middle of an epoch holds one
batch less than was trained (``_batches_that_stepped``, read in 2.6.6), and ``global_step`` counts every optimizer. It
is not a ``state_dict`` of the callback, because a Trainer then refuses a second one before we can say why.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

from mindsummary_lightning.recording.summary_record import SummaryRecord
from mindsummary_lightning.trainer.trainer_info import steps_done

__all__ = ["first_step", "save_state", "saved_state"]

_LOG = logging.getLogger(__name__)


_KEY = "mindsummary_lightning.SummaryCollector"


def save_state(
    checkpoint: dict[str, Any], step: int, range_steps_taken: int, record: SummaryRecord | None, graph: str | None
) -> None:
    """Put plain values into a checkpoint.

    Args:
        checkpoint: the checkpoint.
        step: steps done.
        range_steps_taken: steps of the default range among them.
        record: where the run is recorded; ``None`` on ranks above zero.
        graph: fingerprint of the recorded graph, if there is one.
    """
    directory = None if record is None else record.directory
    checkpoint[_KEY] = {"step": step, "range_steps_taken": range_steps_taken, "directory": directory, "graph": graph}


def saved_state(checkpoint: Mapping[str, Any]) -> dict[str, Any]:
    """The values that :func:`save_state` put there; empty if the run had no collector."""
    return dict(checkpoint.get(_KEY) or {})


def first_step(state: Mapping[str, Any], trainer: Any, module: Any, record: SummaryRecord | None) -> int:
    """Steps done before this fit; warns if MindInsight will not draw one curve with the run that it resumes.

    Args:
        state: values of :func:`saved_state`; empty if the run starts from no checkpoint.
        trainer: the Trainer, about to train.
        module: its LightningModule.
        record: where this run is recorded; ``None`` on ranks above zero.
    """
    earlier = state.get("directory")
    if record is not None and earlier and os.path.realpath(earlier) != os.path.realpath(record.directory):
        _LOG.warning(
            "this run resumes at step %s of %s and is recorded in %s: MindInsight draws one curve only for the files "
            "of one directory; to continue there, give the logger that version, or the collector that summary_dir",
            *(state.get("step"), earlier, record.directory),
        )
    step = state.get("step")
    if isinstance(step, int):
        return step
    return int(trainer.global_step) if module.automatic_optimization else steps_done(trainer)
