"""Converts torch tensors to NumPy arrays, and names their dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

# Any, in this module: arrays of any dtype.
# NumPy has none, and few libraries know them as bits
_NO_DTYPE = (torch.float8_e4m3fn, torch.float8_e5m2)


def dtype_name(tensor: torch.Tensor) -> str:
    """Return NumPy's name for the dtype of a tensor.

    bfloat16 keeps its name; eight-bit floats are stored as float32.
    """
    if tensor.dtype in _NO_DTYPE:
        return "float32"
    return str(tensor.dtype).removeprefix("torch.")


def stored_array(tensor: torch.Tensor) -> NDArray[Any]:
    """Convert a dense tensor to the NumPy array that is stored in the file.

    bfloat16 becomes uint16. The array may share the tensor's memory.
    """
    plain = _plain(tensor)
    if plain.dtype is torch.bfloat16:
        return plain.contiguous().view(torch.int16).numpy().view(np.uint16)
    return plain.numpy()


def float_array(tensor: torch.Tensor) -> NDArray[Any]:
    """Convert a dense tensor to a NumPy array; bfloat16 becomes float32.

    The array may share the tensor's memory.
    """
    plain = _plain(tensor)
    return plain.float().numpy() if plain.dtype is torch.bfloat16 else plain.numpy()


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    plain = tensor.detach()
    if plain.layout is not torch.strided:
        plain = plain.to_dense()
    plain = plain.cpu().resolve_conj().resolve_neg()
    return plain.float() if plain.dtype in _NO_DTYPE else plain
