"""The first layer of a network as three tensors: on a fixed input, Linear and Conv are affine in x and y.

``W = W0 + x Wx + y Wy`` gives ``layer(input) = Z0 + x Zx + y Zy``, so three passes of the layer serve a whole grid.
That holds only if the input does not depend on what moves and the weights are used nowhere else; both are looked at,
and the caller compares one point with the plain way before trusting it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.overrides import TorchFunctionMode

from mindsummary_lightning.landscape.batches import tensors_in_batch

__all__ = ["AffineFirstLayer", "FixedInput", "find_fixed_input"]

_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
# Below this many products for an output, reading Z0, Zx and Zy costs as much as the layer itself.
_PAYS_FROM_FAN_IN = 64
_MAX_BYTES = 2**30


class FixedInput:
    """The first layer that meets parameters, and what comes in for each batch.

    Attributes:
        name: the layer's name inside the searched module.
        layer: the layer itself.
        inputs: its input for each batch.
    """

    def __init__(self, name: str, layer: nn.Module, inputs: list[Tensor]) -> None:
        self.name = name
        self.layer = layer
        self.inputs = inputs


def find_fixed_input(
    module: nn.Module, run: Callable[[tuple[float, float], int], Any], batches: int, probe: tuple[float, float]
) -> FixedInput | None:
    """The first layer if three passes of it can serve every point, else ``None``.

    It must be a plain Linear or Conv, called once, its weight and bias used once, and its input bitwise the same at
    the origin and at ``probe``.

    Args:
        module: what is run; the layers are looked for in it.
        run: runs the module at a point ``(x, y)`` on the batch of an index.
        batches: number of batches.
        probe: a point of the plane that is not the origin.
    """
    names = {layer: name for name, layer in module.named_modules()}
    inputs: list[Tensor] = []
    first: nn.Module | None = None
    for index in range(batches):
        seen = [_watch(module, run, point, index) for point in ((0.0, 0.0), probe)]
        if any(found is None for found in seen):
            return None
        (layer, here), (other, there) = seen  # type: ignore[misc]  # None was ruled out above
        if layer is not other or layer is not (first or layer) or not torch.equal(here, there):
            return None
        first = layer
        inputs.append(here)
    return FixedInput(names[first], first, inputs) if first is not None else None


def _watch(
    module: nn.Module, run: Callable[[tuple[float, float], int], Any], point: tuple[float, float], index: int
) -> tuple[nn.Module, Tensor] | None:
    calls: list[tuple[nn.Module, tuple[Any, ...], dict[str, Any], list[int]]] = []

    def note(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        calls.append((layer, args, kwargs, [id(tensor) for tensor in layer.parameters(recurse=False)]))

    handles = [
        layer.register_forward_pre_hook(note, with_kwargs=True)
        for layer in module.modules()
        if next(layer.parameters(recurse=False), None) is not None
    ]
    uses = _Uses()
    try:
        with uses:
            run(point, index)
    finally:
        for handle in handles:
            handle.remove()
    if not calls:
        return None
    layer, args, kwargs, parameters = calls[0]
    if not isinstance(layer, _LAYERS):
        return None
    fits = (
        type(layer) in _LAYERS  # a subclass may do anything
        and "forward" not in vars(layer)
        and layer.weight[0].numel() >= _PAYS_FROM_FAN_IN
        and sum(call[0] is layer for call in calls) == 1
        and all(uses.counts[tensor] == 1 for tensor in parameters)
        and not kwargs
        and len(args) == 1
        and isinstance(args[0], Tensor)
    )
    return (layer, args[0].detach()) if fits else None


class _Uses(TorchFunctionMode):
    """Counts, for each tensor, the torch calls that make tensors from it."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[int] = Counter()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if next(tensors_in_batch(result), None) is not None:
            self.counts.update({id(tensor) for tensor in tensors_in_batch([args, kwargs or {}])})
        return result


class AffineFirstLayer:
    """Stands in for the layer's forward: adds up three kept outputs instead of multiplying.

    Args:
        fixed: the layer and its inputs.
        anchor: the layer's weight and bias at the origin, by their names in the layer.
        first: how they move along x.
        second: how they move along y.
    """

    def __init__(
        self, fixed: FixedInput, anchor: Mapping[str, Tensor], first: Mapping[str, Tensor], second: Mapping[str, Tensor]
    ) -> None:
        self._layer = fixed.layer
        self._y: float | None = None
        self._batch = 0
        self._parts: list[Sequence[Tensor]] = [
            [functional_call(fixed.layer, dict(state), (data,)) for state in (anchor, first, second)]
            for data in fixed.inputs
        ]
        self._rows = [torch.empty_like(parts[0]) for parts in self._parts]
        self._outputs = [torch.empty_like(parts[0]) for parts in self._parts]

    @staticmethod
    def fits(fixed: FixedInput) -> bool:
        """Whether what has to be kept stays within 1 GiB."""
        output = fixed.layer(fixed.inputs[0])
        kept = 5 * output.nbytes * len(fixed.inputs)
        return bool(kept <= _MAX_BYTES)

    def place(self, x: float, y: float) -> None:
        """Move to a point; cheapest when y stays and x changes."""
        for (origin, along_x, along_y), row, output in zip(self._parts, self._rows, self._outputs, strict=True):
            if y != self._y:
                torch.add(origin, along_y, alpha=y, out=row)
            torch.add(row, along_x, alpha=x, out=output)
        self._y = y

    def select(self, index: int) -> None:
        """The batch whose output the layer gives from now on."""
        self._batch = index

    @contextmanager
    def installed(self) -> Iterator[None]:
        """While this lasts the layer's forward gives the kept outputs."""
        self._layer.forward = lambda _: self._outputs[self._batch]
        try:
            yield
        finally:
            del self._layer.forward
