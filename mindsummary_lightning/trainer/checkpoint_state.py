"""State of our callbacks in a checkpoint, and its use by a run that resumes from it.

The step is kept because Lightning's own counters do not give it: a checkpoint saved in the middle of an epoch holds one
batch less than was trained (``_batches_that_stepped``, read in 2.6.6), and ``global_step`` counts every optimizer. It
is not a ``state_dict`` of the callback, because a Trainer then refuses a second one before we can say why.

The learning rates of the run's begin are kept, because a rate that the user's code changes is in the optimizer's state
as it is then.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch

from mindsummary_lightning.recording.run_recorder import RunRecorder
from mindsummary_lightning.trainer.trainer_state import is_repeated_fit, resume_path, steps_done

_LOG = logging.getLogger(__name__)

_KEY = "mindsummary_lightning.SummaryCollector"
_RATES = "mindsummary_lightning.learning_rates"


def save_state(
    checkpoint: dict[str, Any],
    step: int,
    default_steps_used: tuple[int, int],
    directories: Sequence[str],
    graph: str | None,
) -> None:
    """Put plain values into a checkpoint: steps done, those of the default range among them, the graph's fingerprint.

    ``directories`` are where the collector records the run, then where the logger does; empty on ranks above zero.
    """
    checkpoint[_KEY] = {
        "step": step,
        "default_steps_used": default_steps_used,
        "directories": list(directories),
        "graph": graph,
    }


def save_rates(checkpoint: dict[str, Any], rates: Sequence[float]) -> None:
    """Put the learning rates that the run began with into a checkpoint."""
    checkpoint[_RATES] = list(rates)


def saved_state(checkpoint: Mapping[str, Any]) -> dict[str, Any]:
    """The values that :func:`save_state` put there, none if the run had no collector, and ``learning_rates``.

    ``directory`` is the first of the ``directories``: where the collector recorded.
    """
    state = checkpoint.get(_KEY) or {}
    directory = next(iter(state.get("directories", ())), None)
    return {**state, "directory": directory, "learning_rates": checkpoint.get(_RATES) or []}


def continues_run(trainer: Any, directory: str, checkpoints: Collection[str] = ()) -> bool:
    """Whether a fit continues the run in a directory: as the next one of its Trainer, or from a checkpoint of that run.

    A checkpoint that was saved beside a collector names its run. Of others, those in the run's directory and those
    that the logger has seen being saved (``checkpoints``, real paths) are the run's.
    """
    checkpoint = resume_path(trainer)
    if checkpoint is None:
        return is_repeated_fit(trainer)
    path, run = os.path.realpath(checkpoint), os.path.realpath(directory)
    named: list[str] = []
    with contextlib.suppress(Exception):  # sharded, remote, or with classes that must not be loaded unasked
        # Reads no tensor: 2 ms for a checkpoint of any size.
        named = saved_state(torch.load(path, map_location="meta", mmap=True, weights_only=True))["directories"]
    if named:
        return run in map(os.path.realpath, named)
    return path in checkpoints or path.startswith(run + os.sep)


def steps_before_fit(
    state: Mapping[str, Any], trainer: Any, module: Any, record: RunRecorder | None, holds_fit: bool
) -> int:
    """Steps done before this fit; warns if MindInsight will not draw one curve with the run that it resumes.

    Args:
        state: values of :func:`saved_state`; empty if the run starts from no checkpoint.
        trainer: the Trainer, about to train.
        module: its LightningModule.
        record: where this run is recorded; ``None`` on ranks above zero.
        holds_fit: an earlier fit of this process is recorded there.
    """
    step = state.get("step")
    if not isinstance(step, int):
        step = int(trainer.global_step) if module.automatic_optimization else steps_done(trainer)
    if record is None:
        return step
    earlier = state.get("directory")
    if earlier and os.path.realpath(earlier) != os.path.realpath(record.directory):
        _LOG.warning(
            "this run resumes at step %s of %s and is recorded in %s: MindInsight draws one curve only for the files "
            "of one directory; to continue there, give the logger that version, or the collector that summary_dir",
            *(step, earlier, record.directory),
        )
    elif holds_fit and not earlier:
        _LOG.warning(
            "this run resumes at step %s of a checkpoint that names no run, and %s holds the steps of an earlier fit: "
            "up to that step MindInsight shows those. To keep both, give each fit a summary_dir of its own",
            *(step, record.directory),
        )
    return step
