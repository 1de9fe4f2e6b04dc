"""Convert numbers, lists and tensors to NumPy arrays of supported dtypes.

PyTorch is not imported: a tensor can only exist if another module has imported PyTorch, so
``sys.modules`` is checked. Nothing is copied if a view is enough; the recorded value copies the
array.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.values.limits import MAX_ELEMENTS

_EXPECTED = (
    "a number, a NumPy array, a list of numbers or a dense torch.Tensor, of bools, ints or floats"
)


def to_array(value: Any) -> NDArray[Any]:
    """Convert a number, list, array or tensor to a NumPy array on the CPU.

    The array may share memory with ``value``.

    ``value`` is a Python number; a NumPy array or scalar; nested lists of numbers; anything with
    ``__array__``; a ``torch.Tensor`` of any device, with or without gradient. Quantized tensors are
    dequantized, sparse tensors made dense up to 10,000,000 elements, and wrappers of ``torch.func``
    unwrapped (a tensor inside ``vmap`` gives its complete batch). A replicated ``DTensor`` gives
    its local tensor.

    The dtype is bool, (u)int8..64 or float16/32/64 in native byte order. Wider floats become
    float64; bfloat16 and the 8-bit floats become float32.

    Raises:
        TypeError: ``value`` holds no real numbers (complex, text, ``None``, objects), or is a
            tensor without data in this process (meta, nested, sharded), or its nested lists are
            ragged.
    """
    if _is_torch_tensor(value):
        return _torch_to_numpy(value)
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(
            f"expected {_EXPECTED}; found a masked array: fill it first, for example with NaN"
        )
    try:
        array = np.asarray(value)
    except (RuntimeError, TypeError):
        if not isinstance(value, (list, tuple)):
            raise
        # tensors that require grad, or are on a device
        return to_array([to_array(part) for part in value])
    except ValueError as error:
        raise TypeError(
            f"expected {_EXPECTED}; found a {type(value).__name__} that is not an array: {error}"
        ) from error
    return _in_a_known_dtype(array, value)


def at_least_1d(value: Any) -> NDArray[Any]:
    """Convert a value to a NumPy array with at least one dimension."""
    array = to_array(value)
    return array if array.ndim else array.reshape(1)


def _in_a_known_dtype(array: NDArray[Any], value: Any) -> NDArray[Any]:
    dtype = array.dtype
    if dtype.kind in "biu" or (dtype.kind == "f" and dtype.itemsize <= 8):
        if dtype.isnative:
            return array
        return array.astype(dtype.newbyteorder("="))
    if dtype.kind == "f":
        return array.astype(np.float64)
    if (
        dtype.kind == "O"
        and array.size
        and all(isinstance(number, (int, float)) for number in array.flat)
    ):
        with contextlib.suppress(OverflowError):
            return array.astype(np.float64)  # ints beyond 64 bits
    name = dtype.name  # last: NumPy composes it anew each time
    if name == "bfloat16" or name.startswith("float8"):  # the extra dtypes that ml_dtypes registers
        return array.astype(np.float32)
    raise TypeError(f"expected {_EXPECTED}; found {_described(array, value)}")


def _described(array: NDArray[Any], value: Any) -> str:
    if value is None or isinstance(value, str):
        if value is None:
            return repr(value)
        return f"the text {value[:40]!r}"
    if isinstance(value, np.ndarray):
        return f"an array of dtype {array.dtype} and shape {array.shape}"
    return f"a {type(value).__name__}" + (
        f" of dtype {array.dtype}" if array.dtype.kind != "O" else ""
    )


def _is_torch_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    tensor = getattr(torch, "Tensor", None)  # absent while torch is still being imported
    return tensor is not None and isinstance(value, tensor)


def _torch_to_numpy(tensor: Any) -> NDArray[Any]:
    torch = sys.modules["torch"]
    if tensor.dtype is torch.float32:
        # the common case: dense, on the CPU, no wrapper
        with contextlib.suppress(RuntimeError, TypeError):
            array: NDArray[Any] = tensor.detach().numpy()
            return array
    functorch = getattr(torch._C, "_functorch", None)
    if functorch is not None and functorch.is_functorch_wrapped_tensor(tensor):
        return _func_to_numpy(tensor, functorch)
    plain = tensor.detach()
    if hasattr(plain, "full_tensor"):
        plain = _replicated_to_local(plain)
    refuse_what_holds_no_numbers(plain)
    try:
        if plain.is_quantized:
            plain = plain.dequantize()
        if plain.layout is not torch.strided:
            plain = plain.to_dense()
        if plain.dtype.is_floating_point and plain.dtype not in (
            torch.float32,
            torch.float64,
            torch.float16,
        ):
            plain = plain.to(torch.float32)
        array = plain.cpu().resolve_neg().numpy()
    except (RuntimeError, TypeError) as error:
        # torch's words, CPU and device
        if "can't allocate memory" in str(error) or "out of memory" in str(error):
            raise MemoryError(str(error)) from error
        raise TypeError(
            f"expected {_EXPECTED}; found {_tensor(plain)}, which PyTorch cannot convert: {error}"
        ) from error
    return array


def refuse_what_holds_no_numbers(tensor: Any) -> None:
    """Raise TypeError for a ``torch.Tensor`` that ``to_array`` cannot convert.

    The elements of the tensor are not read.
    """
    torch = sys.modules["torch"]
    if tensor.is_meta:
        raise TypeError(
            f"expected {_EXPECTED}; found {_tensor(tensor)}, which has a shape but no data"
        )
    if tensor.is_nested:
        raise TypeError(
            f"expected {_EXPECTED}; found a nested tensor: pass .values() or a padded tensor"
        )
    if tensor.dtype.is_complex:
        raise TypeError(
            f"expected {_EXPECTED}; found {_tensor(tensor)}: pass .real, .imag or .abs()"
        )
    if tensor.layout is not torch.strided and tensor.numel() > MAX_ELEMENTS:
        raise TypeError(
            f"expected {_EXPECTED}; found {_tensor(tensor)}, too large to be made dense: "
            "pass .values()"
        )


def _tensor(tensor: Any) -> str:
    return f"a torch.Tensor of dtype {tensor.dtype}, shape {tuple(tensor.shape)} on {tensor.device}"


def _func_to_numpy(tensor: Any, functorch: Any) -> NDArray[Any]:
    """Convert a tensor inside wrappers of ``torch.func`` to a NumPy array.

    The names are private, as read in PyTorch 2.13 (there since 2.0).
    """
    while functorch.is_functorch_wrapped_tensor(tensor):
        tensor = functorch.get_unwrapped(tensor)
    # otherwise the next operation would wrap its result again
    with sys.modules["torch"]._C._DisableFuncTorch():
        return _torch_to_numpy(tensor)


def _replicated_to_local(tensor: Any) -> Any:
    # Gathering a sharded tensor is a collective call: on one rank only, it would hang the run.
    if all(placement.is_replicate() for placement in tensor.placements):
        return tensor.to_local()
    raise TypeError(
        f"expected {_EXPECTED}; found a DTensor with placements {tensor.placements}: pass "
        ".to_local() for this rank's part, or .full_tensor() called on every rank"
    )
