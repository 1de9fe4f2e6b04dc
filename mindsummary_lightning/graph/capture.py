"""The computational graph of a module: every operation where torch.export can, what one forward pass ran otherwise.

Capturing leaves nothing behind: weights, buffers, gradients, hooks, modes, attributes and random states are those from
before. A caller sees a graph or one ``GraphCaptureError``; whether that becomes a warning is the caller's business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from mindsummary_lightning.errors import GraphCaptureError
from mindsummary_lightning.graph.example_inputs import Call, forward_calls
from mindsummary_lightning.graph.export_capture import capture_by_export
from mindsummary_lightning.graph.forward_capture import capture_by_running
from mindsummary_lightning.graph.module_tree import unwrapped
from mindsummary_lightning.graph.preserve_state import untouched
from mindsummary_lightning.values.graph_nodes import Graph

__all__ = ["MAX_NODES", "TIME_LIMIT_S", "capture_example", "capture_graph"]

MAX_NODES = 100_000
"""Most operations a graph may have; MindInsight gives up beyond it."""

TIME_LIMIT_S = 60.0
"""Seconds each of the two ways may take."""

_MAX_REASON_CHARACTERS = 300


def capture_graph(
    module: nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    time_limit_s: float = TIME_LIMIT_S,
    max_nodes: int = MAX_NODES,
) -> Graph:
    """Capture the graph of ``module(*args, **kwargs)``.

    The module may be compiled, wrapped in DDP, attached to a running Trainer, in train or eval mode, on any device or
    without memory (``meta``). Tensors of the arguments are moved to its device, and to the floating dtype of its
    weights where these have only one.

    Args:
        module: the network.
        args: positional arguments of its forward, tensors or any structure.
        kwargs: its keyword arguments.
        time_limit_s: seconds that each of the two ways may take.
        max_nodes: most operations of the graph.

    Returns:
        A graph with names that MindInsight keeps; parameters and constants that no operation takes are left out.

    Raises:
        GraphCaptureError: neither way gave a graph; the text holds both reasons.

    Example:
        >>> graph = capture_graph(nn.Sequential(nn.Linear(4, 2), nn.ReLU()), (torch.zeros(1, 4),))
        >>> [node.op_type for node in graph.nodes]
        ['Linear', 'ReLU']
    """
    return _capture(unwrapped(module), [Call(tuple(args), dict(kwargs or {}))], time_limit_s, max_nodes)


def capture_example(
    module: nn.Module, example: Any, *, time_limit_s: float = TIME_LIMIT_S, max_nodes: int = MAX_NODES
) -> Graph:
    """Capture the graph for an ``example_input_array`` or a training batch.

    Args:
        module: as for ``capture_graph``.
        example: a tensor, or a tuple, list, mapping, dataclass or other object with tensors in it; what of it becomes
            which argument is settled by the signature of ``forward`` (``forward_calls``).
        time_limit_s: as for ``capture_graph``.
        max_nodes: as for ``capture_graph``.

    Raises:
        GraphCaptureError: the example fits no signature, or no call of it gave a graph.
    """
    network = unwrapped(module)
    return _capture(network, forward_calls(network, example), time_limit_s, max_nodes)


_Way: TypeAlias = Callable[[Call], Graph]


def _capture(network: nn.Module, calls: Sequence[Call], time_limit_s: float, max_nodes: int) -> Graph:
    _refuse_unready(network)

    def exported(call: Call) -> Graph:
        return capture_by_export(network, call, time_limit_s=time_limit_s, max_nodes=max_nodes)

    def run(call: Call) -> Graph:
        return capture_by_running(network, call, time_limit_s=time_limit_s, max_nodes=max_nodes, grad=False)

    def run_with_grad(call: Call) -> Graph:  # for a forward that differentiates
        return capture_by_running(network, call, time_limit_s=time_limit_s, max_nodes=max_nodes, grad=True)

    reasons: list[str] = []
    ways: dict[str, _Way] = {"torch.export": exported, "a forward pass": run, "one with autograd": run_with_grad}
    for name, way in ways.items():
        try:
            return _first_graph(network, calls, way)
        except Exception as error:  # user code and torch.export raise whatever they like
            reasons.append(f"{name} says {_text(error)}")
    raise GraphCaptureError(
        f"no graph of {type(network).__name__}: {'; '.join(reasons)}; "
        "give as example_input_array (or in the batch) what forward takes"
    )


def _first_graph(network: nn.Module, calls: Sequence[Call], way: _Way) -> Graph:
    """The graph of the first call that gives one; else raises what the first call did, the likeliest to be meant."""
    errors: list[Exception] = []
    for call in calls:
        try:
            with untouched(network):
                return way(_placed(call, network))
        except Exception as error:  # see _capture
            errors.append(error)
    raise errors[0]


def _placed(call: Call, network: nn.Module) -> Call:
    weights = [*network.parameters(), *network.buffers()]
    dtypes = {weight.dtype for weight in weights if weight.is_floating_point()}
    dtype = dtypes.pop() if len(dtypes) == 1 else None
    placed = []
    for _, tensor in call.named_tensors(network):
        moved = tensor.to(weights[0].device) if weights else tensor
        placed.append(moved.to(dtype) if dtype and moved.dtype is torch.float32 else moved)
    return call.filled(placed)


def _refuse_unready(network: nn.Module) -> None:
    name = type(network).__name__
    for path, weight in network.named_parameters():
        if is_lazy(weight):
            raise GraphCaptureError(
                f"no graph of {name}: {path} of a lazy module has no shape yet; call the model once before"
            )
        if type(weight).__name__ == "DTensor" or hasattr(weight, "ds_id"):
            raise GraphCaptureError(
                f"no graph of {name}: {path} is sharded over processes, and a forward pass on one would wait for the "
                "others; capture the graph from an unsharded copy"
            )
    for part in network.modules():
        if any(kind.__module__.startswith("torch.distributed.fsdp") for kind in type(part).__mro__):
            raise GraphCaptureError(
                f"no graph of {name}: {type(part).__name__} shards it over processes, and a forward pass on one would "
                "wait for the others; capture the graph from an unsharded copy"
            )


def _text(error: Exception) -> str:
    text = " ".join(str(error).split())[:_MAX_REASON_CHARACTERS]
    return text if isinstance(error, GraphCaptureError) else f"{type(error).__name__}: {text}"
