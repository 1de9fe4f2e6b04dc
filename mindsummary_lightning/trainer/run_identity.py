"""Which run a fit belongs to: asked when it begins, by whatever records it.

A fit that is given a checkpoint, or that the same Trainer goes on with, continues the run of its directory; any other
begins one. What is asked is the Trainer, the directory and what this process has recorded there. Files of other
processes need no answer: what this one writes goes into a later file, from which readers take the steps that both have.

A checkpoint has an entry with the step because Lightning's own counters do not give it: one saved in the middle of an
epoch holds one batch less than was trained (``_batches_that_stepped``, read in 2.6.6), and ``global_step`` counts every
optimizer. It has the first learning rates because the optimizer's state has the rate that the user's code set last.
"""

from __future__ import annotations

import inspect
import logging
import os
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from mindsummary_lightning.collection.step_collector import StepCollector
from mindsummary_lightning.fileformat.file_names import is_summary_name
from mindsummary_lightning.trainer.trainer_state import steps_done
from mindsummary_lightning.warn_once import WarnOnce

_LOG = logging.getLogger(__name__)
_WARN_ONCE = WarnOnce(_LOG)

_KEY = "mindsummary_lightning.SummaryCollector"
_RATES = "mindsummary_lightning.learning_rates"


# The Trainer of the newest fit that this process has begun in a directory, by that one's real path.
_TRAINERS: dict[str, weakref.ref[Any]] = {}


def is_newest(trainer: Any, directory: str) -> bool:
    """Whether the newest fit that this process has begun in the directory is of this Trainer."""
    return _TRAINERS.get(os.path.realpath(directory), lambda: None)() is trainer


def holds_values(directory: str) -> bool:
    """Whether the directory has summary files."""
    try:
        return any(map(is_summary_name, os.listdir(directory)))
    except OSError:  # removed, or out of reach
        return False


def begin(trainer: Any, directory: str) -> None:
    """The fit begins in the directory."""
    _TRAINERS[os.path.realpath(directory)] = weakref.ref(trainer)


def has_fit(directory: str) -> bool:
    """Whether this process has begun a fit there."""
    return os.path.realpath(directory) in _TRAINERS


def is_same_directory(one: str, other: str) -> bool:
    """Whether two paths, which need not exist, are the same directory."""
    return os.path.realpath(one) == os.path.realpath(other)


def resume_path(trainer: Any) -> Any | None:
    """The checkpoint that the running call of a Trainer's method resumes from, or ``None``.

    Until the checkpoint is loaded, which is after ``setup``, ``trainer.ckpt_path`` is that of the call before. So the
    argument ``ckpt_path`` is read, of the innermost method of the Trainer that has one; ``Trainer.fit`` itself does.
    """
    frame = inspect.currentframe()
    while frame is not None:
        code = frame.f_code
        arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if "ckpt_path" in arguments and frame.f_locals.get("self") is trainer:
            return frame.f_locals["ckpt_path"]
        frame = frame.f_back
    _WARN_ONCE.warn(
        "ckpt_path",
        "this version of Lightning is unknown: cannot find ckpt_path. A resumed fit may be recorded as a new run; pass "
        "version=... to the logger to continue the old one",
        level=logging.ERROR,
    )
    return getattr(trainer, "ckpt_path", None)


# ---- in a checkpoint


def save_state(
    checkpoint: dict[str, Any],
    steps: StepCollector,
    is_in_step: bool,
    directories: Sequence[str],
    graph: str | None,
) -> None:
    """Put plain values into a checkpoint: steps done, those of the default range among them, the graph's fingerprint.

    ``is_in_step``: an optimizer has stepped in a batch that has not ended. ``directories`` are where the collector
    records the run, then where the logger does; empty on ranks above zero.
    """
    checkpoint[_KEY] = {
        "step": steps.step + is_in_step,
        "default_steps_used": steps.default_steps_used,
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


def continued_state(steps: StepCollector) -> dict[str, Any]:
    """The same values of a fit of this process that its Trainer continues without a checkpoint.

    Lightning counts the batches of manual optimization in which no optimizer has stepped, too.
    """
    return {"default_steps_used": steps.default_steps_used, "step": steps.step}


def steps_before_fit(state: Mapping[str, Any], trainer: Any, module: Any, directory: str | None) -> int:
    """Steps done before this fit; warns if MindInsight will not draw one curve with the run that it resumes.

    ``state`` is that of :func:`saved_state`, empty if the fit starts from no checkpoint; ``directory`` is where it is
    recorded, ``None`` on ranks above zero.
    """
    step = state.get("step")
    if not isinstance(step, int):
        step = int(trainer.global_step) if module.automatic_optimization else steps_done(trainer)
    earlier = state.get("directory")
    if directory and earlier and not is_same_directory(earlier, directory):
        _LOG.warning(
            "this run resumes at step %s of %s and is recorded in %s: MindInsight draws one curve only for the files "
            "of one directory. To continue the curve, pass version=%r to the logger, or summary_dir=%r to the "
            "collector",
            *(step, earlier, directory, os.path.basename(earlier), earlier),
        )
    return step
