"""Capture of the computational graph of a module, once per SummaryRecord."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mindsummary_lightning.errors import GraphCaptureError
from mindsummary_lightning.recording.failure_policy import FailurePolicy
from mindsummary_lightning.values import Graph


class NetworkGraph:
    """Captures at most one graph; a module that cannot be captured is logged.

    Args:
        policy: where warnings go.
        network: the module that the first ``record()`` captures, or ``None``.
        example_input: what it is called with.
    """

    def __init__(self, policy: FailurePolicy, network: Any, example_input: Any) -> None:
        self._policy = policy
        self._network = network
        self._example_input = example_input
        self._is_tried = False
        self._is_captured = False

    def capture_own(self, train_network: Any, write: Callable[[Graph], bool]) -> bool:
        """At the first call with a network, capture it or else ``train_network``; False if that failed."""
        network = self._network if self._network is not None else train_network
        if network is None or self._is_tried:
            return True
        self._is_tried = True
        if self._example_input is None:
            text = "the network's graph is not recorded: SummaryRecord got no example_input"
            self._policy.warnings.warn("no example", text)
            return True
        return self.capture(network, self._example_input, write)

    def capture(self, network: Any, example: Any, write: Callable[[Graph], bool]) -> bool:
        """Capture a graph and pass it to ``write``; whether it is written, now or earlier."""
        # The only import that brings torch, and only when asked for: docs/decisions/0003.
        from mindsummary_lightning.graph.capture import capture_example

        if not self._is_captured:
            try:
                self._is_captured = write(capture_example(network, example))
            except GraphCaptureError as error:
                self._policy.warnings.warn("graph", "the computational graph is not recorded: %s", error)
        return self._is_captured
