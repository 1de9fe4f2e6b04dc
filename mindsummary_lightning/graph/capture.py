"""Record the computational graph of a model by calling it once on an example.

It is used outside a training step of Lightning.

Afterwards, random states and buffers have the values from before. In a job of several processes the
model is not called, because a single process could wait forever in a collective operation.
"""

from __future__ import annotations

import contextlib
import inspect
import random
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import is_lazy

from mindsummary_lightning.errors import GraphCaptureError, error_text
from mindsummary_lightning.graph.module_names import module_class_name, unwrapped
from mindsummary_lightning.graph.step_observer import observed_call
from mindsummary_lightning.values.graph_nodes import Graph

_ONE_AT_A_TIME = threading.RLock()  # threads that overlap would put back what the other one had set


def capture_example(
    module: nn.Module,
    example: Any,
    prepare: Callable[[Any, Any], Any] = lambda module, example: example,
) -> Graph:
    """Run a network on an example input, and return the graph of the run.

    The network stays in its mode (train or eval).

    The example is the input of ``forward``: a tuple or list of positional arguments, a mapping of
    keyword arguments, or the single argument. Lightning reads ``example_input_array`` in the same
    way. If the arguments do not fit the signature, the example is passed as the single argument.
    Tensors are moved to the device of the weights; ``float32`` tensors get the dtype of the weights
    if all weights have the same dtype. Before that, ``prepare(module, example)`` returns the
    example that is used; its changes to the state of the network are undone too.

    Raises:
        GraphCaptureError: the run failed, or must not happen (several processes, uninitialized
            parameters).
    """
    network = unwrapped(module)
    try:
        _refuse_unready(network)
        with _ONE_AT_A_TIME, _preserved_state(network), torch.enable_grad(), _uncompiled():
            args, kwargs = _arguments(network, _placed(prepare(module, example), network))
            _, graph, error = observed_call(network, network, args, kwargs, {})
        if graph is None:
            raise error or GraphCaptureError("no operation was observed")
    except Exception as error:  # the user's forward may raise anything
        raise GraphCaptureError(f"{module_class_name(network)}: {one_line(error)}") from None
    return graph


def one_line(error: Exception) -> str:
    """Return the message of an exception as a log line of at most 300 characters."""
    text = textwrap.shorten(error_text(error), 300, placeholder=" ...")
    if isinstance(error, GraphCaptureError):
        return text
    return f"{type(error).__name__}: {text}"


def _refuse_unready(network: nn.Module) -> None:
    is_distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    count = torch.distributed.get_world_size() if is_distributed else 1
    if count > 1:
        raise GraphCaptureError(
            f"no graph is recorded: a forward pass in only one of {count} processes could wait "
            "for the others forever. Use SummaryCollector, which records the graph of the first "
            "training step"
        )
    for path, weight in network.named_parameters():
        if is_lazy(weight):
            raise GraphCaptureError(
                f"{path} has no shape before the first call; call the model once before"
            )


def _placed(example: Any, network: nn.Module) -> Any:
    weights = [*network.parameters(), *network.buffers()]
    device = weights[0].device if weights else None
    dtypes = {weight.dtype for weight in weights if weight.is_floating_point()}
    dtype = dtypes.pop() if len(dtypes) == 1 else torch.float32
    return torch.utils._pytree.tree_map_only(
        torch.Tensor,
        lambda tensor: tensor.to(device, dtype if tensor.dtype is torch.float32 else None),
        example,
    )


def _arguments(network: nn.Module, example: Any) -> tuple[Sequence[Any], dict[str, Any]]:
    args: Sequence[Any] = (example,)
    kwargs: dict[str, Any] = {}
    if isinstance(example, Mapping):
        args, kwargs = (), dict(example)
    elif type(example) in (tuple, list):
        args = example
    try:
        inspect.signature(network.forward).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return (example,), {}
    return args, kwargs


def _uncompiled() -> contextlib.AbstractContextManager[Any]:
    """Return a context in which compiled modules run without compilation.

    Compilation for an example would be wasted, because the training may never see such an input.
    Needs torch 2.6 or later; with an older version, the context does nothing.
    """
    set_stance = (
        getattr(torch.compiler, "set_stance", None) if "torch._dynamo" in sys.modules else None
    )
    return contextlib.nullcontext() if set_stance is None else set_stance("force_eager")


@contextlib.contextmanager
def _preserved_state(network: nn.Module) -> Iterator[None]:
    devices = {
        weight.device
        for weight in network.parameters()
        if weight.device.type not in ("cpu", "meta")
    }
    kind = max((device.type for device in devices), default="cuda")
    with contextlib.ExitStack() as restored, torch.random.fork_rng(devices, device_type=kind):
        restored.callback(random.setstate, random.getstate())
        # the legacy state is the global one
        restored.callback(np.random.set_state, np.random.get_state())  # noqa: NPY002
        for part in network.modules():
            for generator in vars(part).values():
                if isinstance(generator, torch.Generator):
                    restored.callback(generator.set_state, generator.get_state())
            for name, buffer in [*part._buffers.items()]:
                restored.callback(part._buffers.__setitem__, name, buffer)
                part._buffers[name] = None if buffer is None else buffer.detach().clone()
        yield
