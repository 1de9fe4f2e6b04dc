"""The graph of one forward pass that is run for it: for models outside a training step of Lightning.

Random states, buffers and gradients are those from before. In a job of several processes no pass is run: one process
alone would wait forever in a collective operation.
"""

from __future__ import annotations

import contextlib
import inspect
import random
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import is_lazy

from mindsummary_lightning.errors import GraphCaptureError
from mindsummary_lightning.graph.module_names import module_class_name, unwrapped
from mindsummary_lightning.graph.step_observer import observed_call
from mindsummary_lightning.values.graph_nodes import Graph

__all__ = ["capture_example", "one_line"]

_MAX_REASON_CHARACTERS = 300


def capture_example(module: nn.Module, example: Any) -> Graph:
    """Run ``module`` once on an example input and return the graph of what ran.

    Args:
        module: the network, in the mode (train or eval) it is in. Wrappers such as ``torch.compile`` are removed.
        example: what its ``forward`` takes: a tuple or list of positional arguments, a mapping of keyword arguments,
            or the single argument, as Lightning reads ``example_input_array``. One that does not fit the signature is
            passed as the single argument. Tensors are moved to the device of the weights.

    Raises:
        GraphCaptureError: the pass failed, or must not be run (several processes, uninitialized parameters).

    Example:
        >>> graph = capture_example(nn.Sequential(nn.Linear(4, 2), nn.ReLU()), torch.zeros(1, 4))
        >>> [node.full_name for node in graph.nodes]
        ['0-Linear/Linear-op1', '1-ReLU/ReLU-op2']
    """
    network = unwrapped(module)
    name = module_class_name(network)
    try:
        _refuse_unready(network)
        args, kwargs = _arguments(network, _moved(example, network))
        with _preserved_state(network), torch.enable_grad(), _eager():
            _, graph, error = observed_call(network, network, args, kwargs)
        if graph is None:
            raise error or GraphCaptureError("nothing was seen")
    except Exception as error:  # the user's forward may raise anything
        raise GraphCaptureError(f"{name}: {one_line(error)}") from None
    return graph


def one_line(error: Exception) -> str:
    """The message of an exception in one line of a log."""
    text = " ".join(str(error).split())[:_MAX_REASON_CHARACTERS]
    return text if isinstance(error, GraphCaptureError) else f"{type(error).__name__}: {text}"


def _refuse_unready(network: nn.Module) -> None:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        processes = torch.distributed.get_world_size()
        if processes > 1:
            raise GraphCaptureError(
                f"a forward pass in one of {processes} processes could wait for the others forever; "
                "SummaryCollector records the graph of the first training step instead"
            )
    lazy = next((path for path, weight in network.named_parameters() if is_lazy(weight)), None)
    if lazy is not None:
        raise GraphCaptureError(f"{lazy} has no shape before the first call; call the model once before")


def _arguments(network: nn.Module, example: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    args: tuple[Any, ...] = (example,)
    kwargs: dict[str, Any] = {}
    if type(example) in (tuple, list):
        args = tuple(example)
    elif isinstance(example, Mapping) and all(isinstance(key, str) for key in example):
        args, kwargs = (), dict(example)
    try:
        inspect.signature(network.forward).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return (example,), {}
    return args, kwargs


def _moved(value: Any, network: nn.Module) -> Any:
    """The example on the device of the weights, and in their floating dtype where they have only one."""
    weights = [*network.parameters(), *network.buffers()]
    dtypes = {weight.dtype for weight in weights if weight.is_floating_point()}
    dtype = dtypes.pop() if len(dtypes) == 1 else None

    def moved(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            on_device = value.to(weights[0].device) if weights else value
            return on_device.to(dtype) if dtype and value.dtype is torch.float32 else on_device
        if type(value) in (tuple, list):
            return type(value)(map(moved, value))
        return {key: moved(element) for key, element in value.items()} if type(value) is dict else value

    return moved(value)


def _eager() -> contextlib.AbstractContextManager[Any]:
    set_stance = getattr(torch.compiler, "set_stance", None)  # torch >= 2.6
    return contextlib.nullcontext() if set_stance is None else set_stance("force_eager")


@contextlib.contextmanager
def _preserved_state(network: nn.Module) -> Iterator[None]:
    parameters = list(network.parameters())
    gradients = [parameter.grad for parameter in parameters]
    buffers = [(part, dict(part._buffers)) for part in network.modules()]
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - the legacy state is the global one
    try:
        with torch.random.fork_rng(device_type=_device_type(network)):
            for parameter in parameters:
                parameter.grad = None
            for part, held in buffers:
                part._buffers.update({name: None if b is None else b.detach().clone() for name, b in held.items()})
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002 - as above
        for part, held in buffers:
            part._buffers.update(held)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient


def _device_type(network: nn.Module) -> str:
    devices = {weight.device.type for weight in network.parameters()} - {"cpu", "meta"}
    return devices.pop() if devices else "cuda"
