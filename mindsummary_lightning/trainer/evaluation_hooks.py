"""The hooks that record evaluations, shared by SummaryCollector and EvalLineage."""

from __future__ import annotations

from typing import Any

from mindsummary_lightning.trainer.hook_guard import HookGuard, guarded_hooks
from mindsummary_lightning.trainer.lineage_recorder import LineageRecorder

__all__ = ["EvaluationHooks"]


@guarded_hooks
class EvaluationHooks:
    """Hooks around a validation or test; the class that mixes them in gives the recorder."""

    _guard: HookGuard

    def _evaluation_recorder(self) -> LineageRecorder | None:
        """Where evaluations are recorded, or ``None`` if they are not."""
        raise NotImplementedError

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Remember the metrics from before the evaluation."""
        recorder = self._evaluation_recorder()
        if recorder is not None and not trainer.sanity_checking:
            recorder.evaluation_begins(trainer)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Record the evaluation's metrics as evaluation lineage."""
        recorder = self._evaluation_recorder()
        if recorder is not None and not trainer.sanity_checking:
            recorder.evaluation_ends(trainer)

    on_test_start, on_test_end = on_validation_start, on_validation_end
