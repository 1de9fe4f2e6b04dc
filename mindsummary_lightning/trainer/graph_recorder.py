"""``GraphRecorder``: records the graph of a run's first training step, once per run."""

from __future__ import annotations

import hashlib
import logging
from typing import Any

from mindsummary_lightning.graph.capture import one_line
from mindsummary_lightning.graph.step_observer import StepObserver
from mindsummary_lightning.recording.summary_record import SummaryRecord

__all__ = ["GraphRecorder", "module_fingerprint"]

_LOG = logging.getLogger(__name__)


class GraphRecorder:
    """Observes the first training step of a LightningModule and writes its graph after the step's values.

    Args:
        module: the LightningModule.
        record: where the graph is written.
    """

    def __init__(self, module: Any, record: SummaryRecord) -> None:
        self._record = record
        self._observer = StepObserver(module, "training_step")
        self._has_begun = False

    def begin_batch(self) -> None:
        """A training batch begins: observe its training step, if it is the first."""
        if not self._has_begun:
            self._has_begun = True
            self._observer.arm()

    def write_when_observed(self) -> bool:
        """Write the graph, or log why there is none.

        Returns:
            Whether the training step has been observed, so that there is nothing more to do.
        """
        if self._observer.error is not None:
            _LOG.warning("the computational graph is not recorded: %s", one_line(self._observer.error))
        elif self._observer.graph is not None:
            self._record.write_graph(self._observer.graph)
        else:
            return False
        return True

    def end(self) -> None:
        """The run ends: write what was observed, and give the module its own method back."""
        self._observer.disarm()
        self.write_when_observed()


def module_fingerprint(module: Any) -> str:
    """A text that is the same for two modules with the same submodules and the same parameters' names and shapes."""
    lines = [f"{name} {type(part).__qualname__}" for name, part in module.named_modules()]
    lines += [f"{name} {tuple(weight.shape)}" for name, weight in module.named_parameters()]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
