"""Computes statistics of a tensor on its device, without waiting for the device.

They are the numbers in a row of a step's output statistics.

The next module may change an input or output tensor in place, so each tensor is reduced at
once. `row_statistics` is for many tensors that lie still.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray

from mindsummary_lightning.collection.device_histograms import wide_dtype
from mindsummary_lightning.collection.gradients import as_exact
from mindsummary_lightning.collection.sharding import is_sharded
from mindsummary_lightning.values.step_chain import GOLDEN, SAMPLES, sample_places

# a tensor whose largest element is between them has squares within float32
_TINY, _HUGE = 1e-15, 1e15
_WIDTH = 512  # elements of a row that is summed in float32 on the CPU; rows are summed in float64
_NUMBERS = 6
# float32 does not hold all of these
_WIDE = (torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64)


def plain_tensor(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return a tensor as a dense tensor of real numbers, ready for statistics.

    It is ``None`` for a tensor without such numbers here.

    That is a tensor of which each rank holds a part, without elements in memory (meta, fake, within
    ``torch.func``), sparse or quantized. Of a complex one it has real and imaginary parts, one
    after the other.
    """
    if is_sharded(tensor):
        return None
    if hasattr(tensor, "placements"):  # a DTensor that every rank holds whole
        tensor = tensor.to_local()  # type: ignore[attr-defined]
    is_wrapped = type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__
    if (
        is_wrapped
        or tensor.layout is not torch.strided
        or tensor.is_quantized
        or tensor.device.type == "meta"
    ):
        return None
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return None
    tensor = tensor.detach()
    if tensor.is_complex():
        return torch.view_as_real(tensor.resolve_conj())
    return tensor


@contextmanager
def unseen() -> Iterator[None]:
    """Return a context that hides calls from autograd and from active torch modes.

    These are the active dispatch modes and function modes of torch.

    Such a mode is selective checkpointing.

    Raises:
        AttributeError: this version of PyTorch lacks one of the two private names.
    """
    without_modes = torch.utils._python_dispatch._disable_current_modes  # torch 2.5 to 2.15
    with torch._C.DisableTorchFunction(), torch.no_grad(), without_modes():
        yield


class TensorReducer:
    """Computes the statistics of plain tensors, tensor by tensor."""

    def __init__(self) -> None:
        self._fractions: dict[torch.device, torch.Tensor] = {}

    def reduced(self, tensor: torch.Tensor) -> tuple[torch.Tensor, int]:
        """Compute a tensor's input row for :func:`columns`, and its number of elements.

        Call it while ``unseen``.

        Returns:
            Norm, sum, minimum, maximum and number of elements that are not zero, and not finite,
            and the samples: float64 (float32 on a device without it), shape ``(22,)``, on the
            tensor's device. An element that occurs many times, in an expanded tensor, counts once.
        """
        device, elements = tensor.device, tensor.numel()
        wide = wide_dtype(device.type)
        if not elements:
            return torch.full((_NUMBERS + SAMPLES,), math.nan, dtype=wide, device=device), 0
        core = _unexpanded(tensor)
        exact = core.to(wide) if core.dtype in _WIDE else as_exact(core)
        numbers = _plain(exact) if device.type == "cpu" else None
        every = exact if exact.numel() == elements else tensor  # float8 has no ``take``
        samples = every.take(self._places(device, elements, wide)).to(wide)
        return torch.cat(
            [_safe(exact, wide) if numbers is None else numbers, samples]
        ), core.numel()

    def _places(self, device: torch.device, elements: int, wide: torch.dtype) -> torch.Tensor:
        """Compute on the device the positions of the sampled elements.

        Copying them to the device could wait for it.
        """
        if device.type == "cpu" or wide is not torch.float64:
            return torch.from_numpy(sample_places(elements)).to(device, non_blocking=True)
        if device not in self._fractions:
            self._fractions[device] = torch.arange(SAMPLES, dtype=wide, device=device) * GOLDEN % 1
        return (self._fractions[device] * elements).long()


def columns(
    vectors: NDArray[np.float64], elements: NDArray[np.float64], counted: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Compute 23 statistics per tensor from reduced tensors, shape ``(n, 23)``.

    They come from reduced tensors ``(n, 22)`` of so many elements.
    """
    norm, total, low, high, non_zero, non_finite = vectors[:, :_NUMBERS].T
    with np.errstate(invalid="ignore", divide="ignore"):
        finite = np.where(counted > non_finite, counted - non_finite, np.nan)
        rms, mean = norm / np.sqrt(finite), total / finite
        low = np.where(np.isnan(finite), np.nan, low)
        high = np.where(np.isnan(finite), np.nan, high)
        zeros, repeats = (counted - non_zero) / finite, elements / counted
    return np.column_stack(
        [elements, rms, mean, low, high, zeros, non_finite * repeats, vectors[:, _NUMBERS:]]
    )


def _unexpanded(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor without the repetitions of ``expand``, to save memory."""
    for dimension, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        if size > 1 and stride == 0:
            tensor = tensor.narrow(dimension, 0, 1)
    return tensor


def _plain(tensor: torch.Tensor) -> torch.Tensor | None:
    """Compute a CPU tensor's statistics fast if its values are moderate.

    All must be finite, and no square may leave the range of float32.
    """
    low, high = map(float, torch.aminmax(tensor))
    largest = max(high, -low)
    if not (largest == 0 or _TINY < largest < _HUGE):  # nor is NaN
        return None
    flat = tensor.reshape(-1)
    whole = flat.numel() // _WIDTH * _WIDTH
    norms = [
        torch.linalg.vector_norm(flat[:whole].view(-1, _WIDTH), dim=1),
        torch.linalg.vector_norm(flat[whole:]),
    ]
    norm = math.hypot(*(float(torch.linalg.vector_norm(each.double())) for each in norms))
    non_zero = flat.numel() if low > 0 or high < 0 else int(torch.count_nonzero(flat))
    return torch.tensor([norm, float(flat.sum()), low, high, non_zero, 0], dtype=torch.float64)


def _safe(tensor: torch.Tensor, wide: torch.dtype) -> torch.Tensor:
    """Compute statistics for any values on any device, without waiting for it."""
    inf = math.inf
    low, high = tensor.nan_to_num(inf, inf, inf).amin(), tensor.nan_to_num(-inf, -inf, -inf).amax()
    finite = tensor.nan_to_num(0.0, 0.0, 0.0)
    # In units of the largest: the squares stay within the range of the dtype.
    unit = (
        torch.maximum(high, -low)
        .to(wide)
        .abs()
        .clamp(torch.finfo(torch.float32).tiny, torch.finfo(wide).max)
    )
    norm = torch.linalg.vector_norm(finite / unit.to(tensor.dtype)).to(wide) * unit
    counts = torch.count_nonzero(tensor), (~tensor.isfinite()).sum()
    return torch.stack(
        [norm, finite.sum(dtype=wide), low.to(wide), high.to(wide), *(n.to(wide) for n in counts)]
    )
