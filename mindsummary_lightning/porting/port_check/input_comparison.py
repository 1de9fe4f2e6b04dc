"""Compares inputs or outputs of the port's modules with the original's."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mindsummary_lightning.porting.port_check.port_frames import Doubt, PortTensor
from mindsummary_lightning.porting.port_check.tensor_distance import (
    Array,
    Layout,
    layouts,
    relative_distance,
    without_hidden,
)
from mindsummary_lightning.porting.port_check.tolerances import MOST_ROUNDING, ROUNDING_FACTOR
from mindsummary_lightning.values.whole_step import StoredCall, StoredTensor


class Relation(enum.Enum):
    """How two tensors compare."""

    AGREES = "agrees"
    DIFFERS = "differs"
    DOUBTFUL = "doubtful"  # differs, and may be right all the same
    OTHER_SIZE = "other size"
    SKIPPED = "skipped"  # cannot be compared


@dataclass(frozen=True, slots=True)
class TensorComparison:
    """The result of comparing two tensors.

    Attributes:
        relation: what was found.
        distance: relative; infinite for another size.
        layout: in which the original's values are those of the port's shape; ``None`` if they must
            not be put there.
    """

    relation: Relation
    distance: float
    layout: Layout | None = None


def compared(
    reference: Array, port: Array, tolerance: float, *, may_transpose: bool = True
) -> TensorComparison:
    """Compare an original tensor with the port's tensor.

    Args:
        reference: array of the original.
        port: array of the port.
        tolerance: greatest relative distance that agrees.
        may_transpose: whether an order of axes is tried that the shapes do not ask for.
    """
    if "b" in (reference.dtype.kind, port.dtype.kind):
        return _compared_masks(reference, port)
    if reference.dtype.kind in "iu" and port.dtype.kind in "iu":
        tolerance = 0.0
    if reference.size != port.size:
        return _compared_sizes(reference, port, tolerance)
    found = [*layouts(reference.shape, port.shape)]
    if not found:
        return TensorComparison(Relation.OTHER_SIZE, np.inf)
    if not may_transpose or reference.dtype.kind in "iu":
        found = found[:1]
    return _compared_in_layouts(reference, port, tolerance, found)


def _compared_in_layouts(
    reference: Array, port: Array, tolerance: float, found: Sequence[Layout]
) -> TensorComparison:
    """Compare two tensors in the most likely layout first, then in more layouts."""
    distances: list[float] = []
    for layout in found:
        placed = layout.applied(reference)
        distance = relative_distance(placed, port)
        if distance > tolerance and not distances:
            distance = min(distance, relative_distance(*without_hidden(placed, port)))
        if distance <= tolerance:
            is_forced = layout.is_plain or reference.shape != port.shape
            relation = Relation.AGREES if is_forced else Relation.DOUBTFUL
            return TensorComparison(relation, distance, layout if is_forced else None)
        distances.append(distance)
    return TensorComparison(Relation.DIFFERS, distances[0], found[0])


def _compared_masks(reference: Array, port: Array) -> TensorComparison:
    """Compare masks, whose meaning may be inverted.

    ``True`` means keep in one framework, and mask in the second framework.
    """
    if reference.dtype.kind != port.dtype.kind or reference.size != port.size:
        return TensorComparison(Relation.SKIPPED, np.inf)
    placed = reference.reshape(port.shape)
    if np.array_equal(placed, port) or np.array_equal(placed, ~port):
        return TensorComparison(Relation.AGREES, 0.0)
    return TensorComparison(Relation.DOUBTFUL, float(np.mean(placed != port)))


def _compared_sizes(reference: Array, port: Array, tolerance: float) -> TensorComparison:
    """Compare tensors of different sizes.

    One tensor may be a repetition of the second tensor.
    """
    try:
        wide = np.broadcast_arrays(reference, port)
    except ValueError:
        return TensorComparison(Relation.OTHER_SIZE, np.inf)
    is_one_repeated = wide[0].size in (reference.size, port.size)
    if is_one_repeated and relative_distance(wide[0], wide[1]) <= tolerance:
        return TensorComparison(Relation.AGREES, 0.0)
    return TensorComparison(Relation.OTHER_SIZE, np.inf)


@dataclass(frozen=True, slots=True)
class TensorPair:
    """A tensor of the original, and the port's tensor or tensors that hold its parts.

    Attributes:
        reference: of the original.
        port: of the port: indices, more than one for parts along ``axis``.
        axis: of the concatenation.
    """

    reference: StoredTensor
    port: tuple[int, ...]
    axis: int = 0


def matched(reference: Sequence[StoredTensor], port: Sequence[PortTensor]) -> list[TensorPair]:
    """Pair the tensors of two calls by their paths, or by their order."""
    by_path = _matched_by_path(reference, port)
    if by_path:
        return by_path
    if len(reference) == 1 and len(port) > 1:
        axis = _joining_axis(reference[0].shape, [tensor.array.shape for tensor in port])
        if axis is not None:
            return [TensorPair(reference[0], tuple(range(len(port))), axis)]
    if len(reference) == len(port) == 1:
        return [TensorPair(reference[0], (0,))]
    return _matched_in_order(reference, port)


def _matched_by_path(
    reference: Sequence[StoredTensor], port: Sequence[PortTensor]
) -> list[TensorPair]:
    """Pair all tensors by equal paths.

    The result is empty if any tensor finds no match.
    """
    if len(reference) != len(port):
        return []
    indices = {tensor.path: index for index, tensor in enumerate(port)}
    pairs: list[TensorPair] = []
    for each in reference:
        index = indices.get(each.path)
        if index is None or not _may_pair(each, port[index]):
            return []
        pairs.append(TensorPair(each, (index,)))
    return pairs


def _matched_in_order(
    reference: Sequence[StoredTensor], port: Sequence[PortTensor]
) -> list[TensorPair]:
    pairs: list[TensorPair] = []
    begin = 0
    for each in reference:
        for place in range(begin, len(port)):
            if _may_pair(each, port[place]):
                pairs.append(TensorPair(each, (place,)))
                begin = place + 1
                break
    return pairs


def _may_pair(reference: StoredTensor, port: PortTensor) -> bool:
    if (reference.dtype == "bool") != (port.dtype == "bool"):
        return False
    if ("int" in reference.dtype) != ("int" in port.dtype):
        return False
    return next(iter(layouts(reference.shape, port.array.shape)), None) is not None


def _joining_axis(whole: tuple[int, ...], parts: Sequence[tuple[int, ...]]) -> int | None:
    """Return the axis along which tensors join to a shape; ``None`` if there is none."""
    if any(len(part) != len(whole) for part in parts):
        return None
    for axis in range(len(whole)):
        joined = sum(part[axis] for part in parts)
        others = {(*part[:axis], *part[axis + 1 :]) for part in parts}
        if joined == whole[axis] and others == {(*whole[:axis], *whole[axis + 1 :])}:
            return axis
    return None


def is_rounding(
    recorded: Array,
    outputs: Sequence[Array],
    place: int,
    again: Callable[[], Sequence[Array] | None],
) -> bool:
    """Tell whether an output differs from the recorded output only by rounding.

    The original is as near to a float64 run as the port's own run is.

    Args:
        recorded: output of the original.
        outputs: of the port.
        place: of the output among them.
        again: runs the module in float64 and returns its outputs; ``None`` if it cannot run so.
    """
    exact = again()
    if exact is None or len(exact) != len(outputs):
        return False
    if exact[place].shape != outputs[place].shape:
        return False
    own = relative_distance(exact[place], outputs[place])
    layout = next(layouts(recorded.shape, outputs[place].shape), None)
    if layout is None or own > MOST_ROUNDING:
        return False
    return relative_distance(exact[place], layout.applied(recorded)) <= ROUNDING_FACTOR * own


def doubt_of(reference: StoredTensor, port: PortTensor, found: TensorComparison) -> Doubt:
    """Describe an input that differs but may be right, with a copy of its values."""
    kept = PortTensor(port.path, port.array.copy(), port.dtype)
    return Doubt(reference, kept, found.distance)


def borders(parts: Sequence[PortTensor], axis: int) -> list[int]:
    """Return the indices at which a joined tensor is split into its parts."""
    lengths = [part.array.shape[axis] for part in parts]
    return [int(border) for border in np.cumsum(lengths)[:-1]]


def returns_its_inputs(call: StoredCall) -> bool:
    """Tell whether a recorded call only returns its inputs as outputs."""
    inputs = {tensor.array for tensor in call.inputs}
    return bool(call.outputs) and all(tensor.array in inputs for tensor in call.outputs)
