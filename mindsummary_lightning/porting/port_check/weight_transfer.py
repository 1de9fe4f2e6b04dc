"""``transfer_weights``: converts weights to the names of a second framework."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mindsummary_lightning.porting.port_check.tensor_distance import Array
from mindsummary_lightning.porting.port_check.weight_pairs import (
    WeightPair,
    WeightPairs,
    pair_weights,
)
from mindsummary_lightning.values.text import listed

# Any, in this module: tensors and parameters of either framework.
_LOG = logging.getLogger(__name__)
_MOST_NAMES = 4  # in a line
_MOST_LINES = 8  # of weights with another shape


def transfer_weights(weights: Mapping[str, Any], like: Mapping[str, Any]) -> dict[str, Any]:
    """Convert weights to the names and shapes of a model in a second framework.

    Weights that do not fit are left out. A warning of at most ten lines names them in both with
    the reason.

    Args:
        weights: arrays, tensors or parameters by name. In MindSpore take
            ``dict(net.parameters_and_names())``: ``p.name`` lacks the prefixes of cells that were
            appended to a list.
        like: arrays, tensors or parameters by the names that are wanted, for example
            ``module.state_dict()``.

    Returns:
        Arrays by the names of ``like``, in its order and with its shapes. Query, key and value of
        one framework are joined where the other has one weight, and a matrix is transposed where
        only that fits. Counters such as ``num_batches_tracked`` are skipped.

    Raises:
        TypeError: ``weights`` or ``like`` is not a mapping.

    Example:
        >>> import numpy as np
        >>> transfer_weights({"bn.gamma": np.ones(2)}, {"bn.weight": np.zeros(2)})
        {'bn.weight': array([1., 1.])}
    """
    if not isinstance(weights, Mapping) or not isinstance(like, Mapping):
        found = f"{type(weights).__name__} and {type(like).__name__}"
        raise TypeError(
            f"weights and like must be dicts of arrays by their names, got {found}. Pass two dicts"
        )
    arrays = {name: _array(value) for name, value in weights.items()}
    wanted = {name: _array(value) for name, value in like.items()}
    pairs = pair_weights(arrays, wanted)
    transferred: dict[str, Any] = {}
    other_shapes: list[str] = []
    for name, wanted_array in wanted.items():
        pair = pairs.pairs.get(name)
        if pair is None:
            continue
        if _may_transfer(pair):
            parts = [arrays[reference] for reference in pair.references]
            transferred[name] = np.ascontiguousarray(pair.in_port(parts))
        else:
            shape = arrays[pair.references[0]].shape
            other_shapes.append(
                f"{pair.references[0]} has shape {shape}, {name} has {wanted_array.shape}"
            )
    lines = [*_other_shapes(other_shapes), *_missing(pairs)]
    if lines:
        _LOG.warning(
            "%d of %d weights are transferred.\n%s", len(transferred), len(wanted), "\n".join(lines)
        )
    return transferred


def _array(value: Any) -> Array:
    if hasattr(value, "asnumpy"):
        array: Array = value.asnumpy()
        return array
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float() if str(value.dtype) == "torch.bfloat16" else value
    return np.asarray(value)


def _may_transfer(pair: WeightPair) -> bool:
    """Tell whether the layout of a pair is certain, so that its weight may be copied.

    Axes of a kernel may have changed places in several ways.
    """
    return pair.layout.is_plain or len(pair.layout.axes) == 2


def _other_shapes(texts: Sequence[str]) -> list[str]:
    lines = [f"other shape: {text}; transpose it yourself" for text in texts[:_MOST_LINES]]
    if len(texts) > _MOST_LINES:
        lines[-1] = f"other shape: {len(texts) - _MOST_LINES + 1} more"
    return lines


def _missing(pairs: WeightPairs) -> list[str]:
    lines = []
    if pairs.only_port:
        lines.append(
            f"missing in weights: {len(pairs.only_port)}: {listed(pairs.only_port, _MOST_NAMES)}"
        )
    if pairs.only_reference:
        names = listed(pairs.only_reference, _MOST_NAMES)
        lines.append(f"missing in like: {len(pairs.only_reference)}: {names}")
    return lines
