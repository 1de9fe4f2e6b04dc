"""``GraphRecorder``: records the graph of a run's first training step, once per run."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from typing import Any

from mindsummary_lightning.graph.capture import one_line
from mindsummary_lightning.graph.step_observer import StepObserver
from mindsummary_lightning.recording.summary_record import SummaryRecord

__all__ = ["GraphRecorder", "RunGraph", "module_fingerprint"]

_LOG = logging.getLogger(__name__)


class GraphRecorder:
    """Observes the first training step of a LightningModule and writes its graph after the step's values.

    Args:
        module: the LightningModule.
        record: where the graph is written.

    Attributes:
        is_written: whether it has been.
    """

    def __init__(self, module: Any, record: SummaryRecord) -> None:
        self.is_written = False
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
            self.is_written = True
        else:
            return False
        return True

    def end(self) -> None:
        """The run ends: write what was observed, and give the module its own method back."""
        self._observer.disarm()
        self.write_when_observed()


class RunGraph:
    """The graph of a run: recorded once, and once more if a later fit into the run trains other modules.

    Attributes:
        recorded: fingerprint of the modules whose graph is recorded, for :func:`save_state`; ``None`` if none is.
    """

    def __init__(self) -> None:
        self.recorded: str | None = None
        self._recorder: GraphRecorder | None = None
        self._modules = ""  # fingerprint of those that are observed

    def forget(self) -> None:
        """Another run begins."""
        self._recorder = self.recorded = None

    def plan(self, module: Any, record: SummaryRecord, resumed: Mapping[str, Any]) -> None:
        """Observe the first training step, unless the graph of these modules is in the run already.

        Args:
            module: the LightningModule.
            record: where the graph is written.
            resumed: values of :func:`saved_state`; empty if the run starts from no checkpoint.
        """
        if isinstance(resumed.get("graph"), str) and resumed.get("directory") == record.directory:
            self.recorded = resumed["graph"]
        self._modules = module_fingerprint(module)
        if self._modules != self.recorded:
            self._recorder = GraphRecorder(module, record)

    def begin_batch(self) -> None:
        """A training batch begins."""
        if self._recorder is not None:
            self._recorder.begin_batch()

    def write_when_observed(self) -> None:
        """Write the graph behind the values of the first step.

        MindInsight drops the tags it saw first when a run has more than 300, the graph's two among them.
        """
        if self._recorder is not None and self._recorder.write_when_observed():
            self._release()

    def end(self) -> None:
        """The fit ends."""
        if self._recorder is not None:
            self._recorder.end()
            self._release()

    def _release(self) -> None:
        if self._recorder is not None and self._recorder.is_written:
            self.recorded = self._modules
        self._recorder = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_recorder": None}


def module_fingerprint(module: Any) -> str:
    """A text that is the same for two modules with the same submodules and the same parameters' names and shapes."""
    lines = [f"{name} {type(part).__qualname__}" for name, part in module.named_modules()]
    lines += [f"{name} {tuple(weight.shape)}" for name, weight in module.named_parameters()]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
