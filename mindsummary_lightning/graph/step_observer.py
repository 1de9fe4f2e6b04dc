"""Record the computational graph of the next call of a ``training_step``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from torch import nn

from mindsummary_lightning.graph.instruments import Instruments
from mindsummary_lightning.graph.observation import Observation
from mindsummary_lightning.graph.replaced_method import ReplacedMethod
from mindsummary_lightning.values.graph_nodes import Graph

# Any, in this module: arguments and results of the user's methods.


class StepObserver(ReplacedMethod):
    """An observer that records the graph of the first training step after ``arm``.

    The call is the user's own: the step does not run a second time.

    Once the step has returned, there is a ``graph``, or ``error`` says why there is none.
    ``losses`` are the names of the loss functions and modules that were called, for
    :func:`loss_name`.
    """

    def __init__(self, module: Any) -> None:
        super().__init__(module, "training_step", self._observe)
        self.graph: Graph | None = None
        self.error: Exception | None = None
        self.losses: dict[int, str] = {}

    def _observe(
        self, original: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Any:
        self.disarm()
        self.losses.clear()
        output, self.graph, self.error = observed_call(
            self._owner, original, args, kwargs, self.losses
        )
        return output


def observed_call(
    module: nn.Module,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    losses: dict[int, str],
) -> tuple[Any, Graph | None, Exception | None]:
    """Call a function; return its result, its graph, and the error without a graph.

    An error that the function raises is not caught.
    """
    instruments = Instruments(
        lambda: Observation(module, _named_arguments(function, args, kwargs), losses)
    )
    output = instruments.call(function, args, kwargs)
    graph = instruments.attempt(lambda: instruments.observation.finish(output))
    return output, graph, instruments.error


def _named_arguments(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> dict[str, Any]:
    try:
        bound = (
            inspect.signature(getattr(function, "forward", function))
            .bind(*args, **kwargs)
            .arguments
        )
    except (TypeError, ValueError):  # written in C, or called in a way that fails
        bound = {"input": args}
    # a keyword's own name comes first, before that of the ``**kwargs`` it is in
    return {**kwargs, **bound}
