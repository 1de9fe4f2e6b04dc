"""``GraphRecorder``: records the computational graph of a run's first step."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from typing import Any

from torch.nn.parameter import is_lazy

from mindsummary_lightning.graph.capture import one_line
from mindsummary_lightning.graph.step_observer import StepObserver
from mindsummary_lightning.recording.run_recorder import RunRecorder

_LOG = logging.getLogger(__name__)


class GraphRecorder:
    """Records the graph of the first training step that has a loss.

    If a later fit of the run trains different modules, their graph is recorded, too.
    """

    def __init__(self) -> None:
        self.recorded: str | None = None  # fingerprint of the modules whose graph is recorded
        self._observer: StepObserver | None = None  # until the graph is written
        self._record: RunRecorder | None = None
        self._is_confirmed = False  # whether the step that is observed has a loss
        self._keeps_unconfirmed = False
        self._modules = ""  # fingerprint of those that are observed

    def forget(self) -> None:
        """Discard the graph of the previous run."""
        self._observer = self.recorded = None

    def plan(self, module: Any, record: RunRecorder, resumed: Mapping[str, Any]) -> None:
        """Prepare to observe the first training step that has a loss.

        Does nothing if the graph of these modules is in the run already.

        ``resumed`` holds the values of :func:`saved_state`; it is empty if the run starts from no
        checkpoint.
        """
        if isinstance(resumed.get("graph"), str) and resumed.get("directory") == record.directory:
            self.recorded = resumed["graph"]
        self._modules = _fingerprint(module)
        if self._modules != self.recorded:
            self._observer, self._record, self._is_confirmed = StepObserver(module), record, False
            self._keeps_unconfirmed = not module.automatic_optimization

    @property
    def losses(self) -> Mapping[int, str]:
        """Return the names of the loss functions in the last observed step.

        For :func:`loss_name`.
        """
        return {} if self._observer is None else self._observer.losses

    def begin_batch(self) -> None:
        """Observe this training step, unless an earlier step with a loss was observed."""
        if self._observer is not None and not self._is_confirmed:
            self._observer.arm()

    def confirm(self, has_loss: bool = True) -> None:
        """Keep the graph of the present training step if this step has a loss."""
        self._is_confirmed |= has_loss

    def write_when_observed(self) -> None:
        """Write the graph of a confirmed step, or log the reason why it is missing.

        The graph is written after the values of the step.

        MindInsight drops the tags it saw first when a run has more than 300, the graph's two among
        them.
        """
        observer = self._observer
        if observer is None or not self._is_confirmed:
            return
        if observer.error is not None:
            _LOG.warning("the computational graph is not recorded: %s", one_line(observer.error))
            self._observer = None
        elif observer.graph is not None and self._record is not None:
            self._record.write_graph(observer.graph)
            self._observer, self.recorded = None, self._modules

    def end(self) -> None:
        """Write an observed graph, and restore the module's original method.

        With manual optimization a step may compute a loss without returning it.
        """
        if self._observer is not None:
            self._observer.disarm()
            self._is_confirmed |= self._keeps_unconfirmed
            self.write_when_observed()
            self._observer = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_observer": None, "_record": None}


def _fingerprint(module: Any) -> str:
    """Return a text that is equal for two modules of equal structure.

    They have the same submodules, and parameters of the same names and shapes.
    """
    lines = [f"{name} {type(part).__qualname__}" for name, part in module.named_modules()]
    weights = module.named_parameters()
    lines += [
        f"{name} {'lazy' if is_lazy(weight) else tuple(weight.shape)}" for name, weight in weights
    ]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
