"""Saves the collector's state in checkpoints, so that a resumed fit continues.

A checkpoint has an entry with the step because Lightning's own counters do not give it: one saved
in the middle of an epoch holds one batch less than was trained (``_batches_that_stepped``, read in
2.6.6), and ``global_step`` counts every optimizer. It has the first learning rates because the
optimizer's state has the rate that the user's code set last.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any

from mindsummary_lightning.collection.step_collector import StepCollector
from mindsummary_lightning.trainer.trainer_state import steps_done

_LOG = logging.getLogger(__name__)

_KEY = "mindsummary_lightning.SummaryCollector"
_RATES = "mindsummary_lightning.learning_rates"


def is_same_directory(one: str, other: str) -> bool:
    """Tell whether two paths mean the same directory; they need not exist."""
    return os.path.realpath(one) == os.path.realpath(other)


def save_state(
    checkpoint: dict[str, Any],
    steps: StepCollector,
    is_in_step: bool,
    directories: Sequence[str],
    graph: str | None,
) -> None:
    """Put the collector's state into a checkpoint, as plain values.

    The values are the steps done, how many of them are default steps, and the graph's fingerprint.

    ``is_in_step``: an optimizer has stepped in a batch that has not ended. ``directories`` are
    the collector's directory of the run, then the logger's; empty on ranks above zero.
    """
    checkpoint[_KEY] = {
        "step": steps.step + is_in_step,
        "default_steps_used": steps.default_steps_used,
        "directories": list(directories),
        "graph": graph,
    }


def save_rates(checkpoint: dict[str, Any], rates: Sequence[float]) -> None:
    """Put the initial learning rates of the run into a checkpoint."""
    checkpoint[_RATES] = list(rates)


def saved_state(checkpoint: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state in a checkpoint: :func:`save_state`'s and ``learning_rates``.

    The result is empty for a run without a collector.

    ``directory`` is the first of the ``directories``: where the collector recorded.
    """
    state = checkpoint.get(_KEY, {})
    directory = next(iter(state.get("directories", ())), None)
    return {**state, "directory": directory, "learning_rates": checkpoint.get(_RATES, [])}


def continued_state(steps: StepCollector) -> dict[str, Any]:
    """Return the state for a fit that the same Trainer continues without a checkpoint.

    Lightning counts the batches of manual optimization in which no optimizer has stepped, too.
    """
    return {"default_steps_used": steps.default_steps_used, "step": steps.step}


def steps_before_fit(
    state: Mapping[str, Any], trainer: Any, module: Any, directory: str | None
) -> int:
    """Return the number of steps done before this fit.

    Warns if MindInsight will not show this fit and the resumed run as one curve.

    ``state`` is the result of :func:`saved_state`, empty if the fit starts from no checkpoint;
    ``directory`` is where it is recorded, ``None`` on ranks above zero.
    """
    step = state.get("step")
    if not isinstance(step, int):
        step = int(trainer.global_step) if module.automatic_optimization else steps_done(trainer)
    earlier, present = state.get("directory"), directory
    if None not in (earlier, present) and not is_same_directory(str(earlier), str(present)):
        _LOG.warning(
            "this fit resumes at step %s of the run %s, but records into the run %s, so "
            "MindInsight draws two separate curves. To continue the old curve, pass "
            "version=%r to the logger, or summary_dir=%r to the collector",
            *(step, earlier, present, os.path.basename(str(earlier)), earlier),
        )
    return step
