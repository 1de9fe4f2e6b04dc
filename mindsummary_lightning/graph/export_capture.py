"""The graph of every operation, from torch.export: fake tensors, no kernel run, no state touched.

The module is called through a wrapper that takes and returns bare tensors, so inputs and outputs of any type (a
dataclass, a text, an object of the user's) are no obstacle to export.
"""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from mindsummary_lightning.errors import GraphCaptureError
from mindsummary_lightning.graph.deadline import Deadline
from mindsummary_lightning.graph.example_inputs import Call, tensors_in
from mindsummary_lightning.graph.exported_program import draw
from mindsummary_lightning.graph.graph_builder import GraphDraft
from mindsummary_lightning.graph.module_tree import ModuleTree
from mindsummary_lightning.values.graph_nodes import Graph

__all__ = ["capture_by_export"]

_TALKATIVE = ("torch.export._trace", "torch.fx.experimental.symbolic_shapes", "torch._export.non_strict_utils")


class _BareTensors(nn.Module):
    """Calls the network with the example's structure around other tensors."""

    def __init__(self, network: nn.Module, call: Call) -> None:
        super().__init__()
        self.network = network
        self._call = call

    def forward(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        call = self._call.filled(tensors)
        return tensors_in(self.network(*call.args, **call.kwargs))


def capture_by_export(network: nn.Module, call: Call, *, time_limit_s: float, max_nodes: int) -> Graph:
    """Export ``network`` and turn the result into a graph.

    Args:
        network: unwrapped; the caller keeps its state safe (``untouched``).
        call: example arguments, on the network's device.
        time_limit_s: seconds the trace may take.
        max_nodes: most operations the graph may have.

    Raises:
        Exception: whatever torch.export or the network raises; ``GraphCaptureError`` for the two limits.
    """
    named = call.named_tensors(network)
    deadline = Deadline(time_limit_s)
    try:
        with torch.no_grad(), deadline:
            program = _export(_BareTensors(network, call), tuple(tensor for _, tensor in named))
    except Exception:
        if deadline.error is not None:
            raise deadline.error from None
        raise
    tree = ModuleTree(network)
    draft = GraphDraft(tree.scopes, max_nodes)
    draw(program, draft, tree, [name for name, _ in named])
    if not draft.has_operations():  # the exporter leaves modules out that compute nothing
        raise GraphCaptureError(f"{type(network).__name__} runs no operation")
    return draft.build(type(network).__name__)


def _export(module: nn.Module, tensors: tuple[torch.Tensor, ...]) -> Any:  # Any: ExportedProgram, loaded late
    import torch.export  # half a second, and only a run that records a graph needs it

    # Before torch 2.6 `export` lowers the operations that users know to kernels; this keeps them.
    name = "export" if _torch_version() >= (2, 6) else "export_for_training"
    with _quiet():
        return getattr(torch.export, name)(module, tensors, strict=False)


def _torch_version() -> tuple[int, ...]:
    return tuple(int(part) for part in torch.__version__.split(".")[:2])


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep torch.export from printing the graph so far when it gives up; the error is told by who catches it."""
    loggers = [logging.getLogger(name) for name in _TALKATIVE]
    disabled = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        for logger, before in zip(loggers, disabled, strict=True):
            logger.disabled = before
