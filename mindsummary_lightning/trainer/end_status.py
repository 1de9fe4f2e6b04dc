"""Translates how a Trainer's call ended into the status in the lineage."""

from __future__ import annotations

REQUEUED = "finished"
"""The status that Lightning gives a logger before it requeues a Slurm job.

Training continues until Slurm ends the job.
"""

# by name: Lightning's has two namespaces
_SIGNAL_ERRORS = ("KeyboardInterrupt", "SIGTERMException")
_PRUNED = "TrialPruned"  # Optuna's


def recorded_status(status: str, error: BaseException | None) -> str:
    """Return the status in the lineage for how a Trainer's call ended.

    Args:
        status: what Lightning gives ``Logger.finalize``: ``"success"``, ``"failed"`` after any
            exception, or :data:`REQUEUED`.
        error: the exception that is being handled, if there is one.

    Returns:
        ``"interrupted"`` where a signal ended it. ``"pruned"`` where a study has pruned the trial,
        whose values count. Otherwise Lightning's word.
    """
    kinds = [kind.__name__ for kind in type(error).__mro__]
    if _PRUNED in kinds:
        return "pruned"
    if status == REQUEUED or any(name in kinds for name in _SIGNAL_ERRORS):
        return "interrupted"
    return status
