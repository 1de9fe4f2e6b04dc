"""Which run a fit belongs to: asked when it begins, by whatever records it.

Answered from the Trainer, the directory and what this process has recorded there. Files of other processes need no
answer: what this one writes goes into a later file, from which readers take the steps that both have. A checkpoint
carries the answer to the next process, in an entry of its own: a callback with a ``state_dict`` would do, but a Trainer
refuses a second one before we can say why.

The entry has the step because Lightning's own counters do not give it: a checkpoint saved in the middle of an epoch
holds one batch less than was trained (``_batches_that_stepped``, read in 2.6.6), and ``global_step`` counts every
optimizer. It has the first learning rates because the optimizer's state has the rate that the user's code set last.
"""

from __future__ import annotations

import contextlib
import enum
import inspect
import logging
import os
import uuid
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mindsummary_lightning.collection.step_collector import StepCollector
from mindsummary_lightning.fileformat.file_names import is_summary_name
from mindsummary_lightning.trainer.plain_checkpoint import plain_values
from mindsummary_lightning.trainer.trainer_state import steps_done
from mindsummary_lightning.warn_once import WarnOnce

_LOG = logging.getLogger(__name__)
_WARN_ONCE = WarnOnce(_LOG)

_KEY = "mindsummary_lightning.SummaryCollector"
_RATES = "mindsummary_lightning.learning_rates"


class RunIdentity(enum.Enum):
    """Which run a fit belongs to, seen from the directory that it is to be recorded in."""

    NEW_RUN = "new run"  # this process has recorded no step of a fit there, or none that is there still
    CONTINUES = "continues"
    BEGINS_AGAIN = "begins again here"  # beside the steps of a fit that it does not continue


@dataclass
class _RecordedRun:
    """The newest run that this process recorded into a directory."""

    trainer: weakref.ref[Any]
    holds_steps: bool
    is_running: bool = True
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    checkpoints: set[str] = field(default_factory=set)  # real paths
    older_checkpoints: set[str] = field(default_factory=set)  # of runs that this one has replaced


_RUNS: dict[str, _RecordedRun] = {}  # by the real path of their directory
_MAX_RUNS = 1000  # more than the directories in which a later value would go into the same file


def identify(trainer: Any, directory: str) -> RunIdentity:
    """Which run the fit that begins belongs to."""
    run = _RUNS.get(os.path.realpath(directory))
    if run is None or not holds_values(directory):
        return RunIdentity.NEW_RUN
    checkpoint = resume_path(trainer)
    if checkpoint is None:
        continues = is_repeated_fit(trainer) and run.trainer() is trainer
    else:
        continues = _is_checkpoint_of(run, directory, checkpoint)
    return RunIdentity.CONTINUES if continues else RunIdentity.BEGINS_AGAIN


def holds_values(directory: str) -> bool:
    """Whether the directory has summary files."""
    try:
        return any(map(is_summary_name, os.listdir(directory)))
    except OSError:  # removed, or out of reach
        return False


def _is_checkpoint_of(run: _RecordedRun, directory: str, checkpoint: Any) -> bool:
    """A checkpoint saved beside a collector names its run; others are the run's if seen being saved, or in it."""
    path, real_directory = os.path.realpath(checkpoint), os.path.realpath(directory)
    named = _named_runs(path)
    if named:
        return named.get(real_directory) in (run.run_id, "")
    return path in run.checkpoints or (
        path not in run.older_checkpoints and path.startswith(os.path.join(real_directory, ""))
    )


def _named_runs(checkpoint: Any) -> dict[str, str]:
    """Real paths of the directories that a checkpoint was recorded in, with the ids of the runs (``""``: unknown)."""
    state: dict[str, Any] = {}
    with contextlib.suppress(Exception):  # sharded, remote, or no checkpoint at all
        state = saved_state(plain_values(checkpoint))
    directories = state.get("directories", [])
    ids = state.get("runs", [""] * len(directories))
    return {os.path.realpath(directory): run_id for directory, run_id in zip(directories, ids, strict=False)}


def begin(trainer: Any, directory: str, identity: RunIdentity) -> None:
    """The fit begins in the directory, as the run that :func:`identify` found."""
    path = os.path.realpath(directory)
    run = _RUNS.get(path)
    if run is not None and identity is RunIdentity.CONTINUES:
        run.trainer, run.is_running = weakref.ref(trainer), True
        return
    new = _RecordedRun(weakref.ref(trainer), holds_steps=run is not None)
    checkpoint = resume_path(trainer)
    if run is not None:
        new.older_checkpoints = run.checkpoints | run.older_checkpoints
    elif checkpoint is not None:  # of an earlier process
        new.run_id = _named_runs(checkpoint).get(path) or new.run_id
    _RUNS[path] = new
    if len(_RUNS) > _MAX_RUNS:
        del _RUNS[next(iter(_RUNS))]


def end(directory: str, has_recorded: bool) -> None:
    """The Trainer is done; where nothing was recorded, there was no fit."""
    path = os.path.realpath(directory)
    run = _RUNS.get(path)
    if run is not None and run.is_running:
        run.is_running = False
        run.holds_steps |= has_recorded
        if not run.holds_steps:
            del _RUNS[path]


def has_fit(directory: str) -> bool:
    """Whether this process has recorded a fit there, or does so now."""
    return os.path.realpath(directory) in _RUNS


def is_fitting(directory: str, trainer: Any = None) -> bool:
    """Whether a fit is being recorded there: any, or that of a Trainer."""
    run = _RUNS.get(os.path.realpath(directory))
    return run is not None and run.is_running and (trainer is None or run.trainer() is trainer)


def add_checkpoints(directory: str, paths: Iterable[str]) -> None:
    """Remember checkpoints of the run there."""
    run = _RUNS.get(os.path.realpath(directory))
    if run is not None:
        run.checkpoints.update(map(os.path.realpath, filter(None, paths)))


def is_same_directory(one: str, other: str) -> bool:
    """Whether two paths, which need not exist, are the same directory."""
    return os.path.realpath(one) == os.path.realpath(other)


def is_repeated_fit(trainer: Any) -> bool:
    """Whether this fit goes on where the last one of the same Trainer ended."""
    return trainer.global_step > 0 and resume_path(trainer) is None


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
        "no method of the Trainer with an argument ckpt_path is running: whether a fit resumes cannot be told before "
        "its checkpoint is loaded, and it may be recorded as a run of its own; this version of Lightning is not known",
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
    runs = [_RUNS.get(os.path.realpath(directory)) for directory in directories]
    checkpoint[_KEY] = {
        "step": steps.step + is_in_step,
        "default_steps_used": steps.default_steps_used,
        "directories": list(directories),
        "runs": ["" if run is None else run.run_id for run in runs],
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


def continued_state(steps: StepCollector | None, trainer: Any, is_at_same_step: bool) -> dict[str, Any]:
    """The same values of a fit of this process that the Trainer continues without a checkpoint.

    ``is_at_same_step``: it has done as many steps as when ``steps`` saw it last. Lightning counts the batches of manual
    optimization in which no optimizer has stepped, too.
    """
    if steps is None or not is_repeated_fit(trainer):
        return {}
    return {"default_steps_used": steps.default_steps_used, "step": steps.step if is_at_same_step else None}


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
            "of one directory; to continue there, give the logger that version, or the collector that summary_dir",
            *(step, earlier, directory),
        )
    return step
