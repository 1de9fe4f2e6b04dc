"""``OpenStep``: the tensor statistics recorded so far in the running step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from mindsummary_lightning.collection.step_values import StepValues
from mindsummary_lightning.collection.tensor_statistics import (
    TensorReducer,
    columns,
    plain_tensor,
    unseen,
)
from mindsummary_lightning.graph.module_names import ModuleNames
from mindsummary_lightning.values.step_chain import OUTPUT_STATISTICS_TAG, OutputRow


@dataclass(frozen=True, slots=True, eq=False)
class ChainPart:
    """The recorded rows of a step for all tensors on the same device.

    Their numbers, and values of shape ``(n, c)``.
    """

    rows: NDArray[np.intp]
    values: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Reduced:
    """A tensor's statistics, number of elements, counted elements, dtype and shape."""

    vector: torch.Tensor
    elements: int
    counted: int
    dtype: str
    shape: tuple[int, ...]


class OpenStep:
    """The recorded rows of a running step, in order.

    ``number_of`` gives the number of a row in the tables.

    Attributes:
        names: of the network's modules and tensors.

    Raises:
        AttributeError: this version of PyTorch lacks a name that :func:`unseen` needs.
    """

    def __init__(self, names: ModuleNames, number_of: Callable[[OutputRow], int]) -> None:
        with unseen():
            pass  # an error is raised here, before the step, and not while the user's modules run
        self.names: ModuleNames = names
        self._number_of = number_of
        self._values = StepValues()
        self._reducer = TensorReducer()
        self._calls: Counter[tuple[str, str]] = Counter()
        # row, place in the step
        self._taken: dict[torch.device, list[tuple[int, int, Reduced]]] = {}
        self._count = 0

    @contextmanager
    def taking(self, what: str) -> Iterator[None]:
        """Return a context that hides the recording in it from the user's code.

        Errors are noted, not raised.
        """
        try:
            with unseen():
                yield
        except Exception as error:
            self._values.problems.append((f"{OUTPUT_STATISTICS_TAG} of {what}", error))

    def note(self, error: Exception) -> None:
        """Note an error that left a part of the step unrecorded."""
        self._values.problems.append((OUTPUT_STATISTICS_TAG, error))

    def count(self, link: str, name: str = "") -> int:
        """Count a key (stage and name), and return how often it was counted before.

        The result is the number of a module call.
        """
        self._calls[link, name] += 1
        return self._calls[link, name] - 1

    def counted(self, link: str, name: str = "") -> int:
        """Return how often a key (stage and name) was counted."""
        return self._calls[link, name]

    def reduced(self, tensor: torch.Tensor) -> Reduced | None:
        """Compute a tensor's statistics now; ``None`` for a tensor that is not recorded."""
        plain = plain_tensor(tensor)
        if plain is None:
            return None
        vector, counted = self._reducer.reduced(plain)
        return Reduced(
            vector,
            plain.numel(),
            counted,
            str(tensor.dtype).removeprefix("torch."),
            tuple(tensor.shape),
        )

    def add(self, row: OutputRow, tensor: torch.Tensor | Reduced) -> None:
        """Record a tensor as the next row, unless it is a tensor without statistics."""
        reduced = tensor if isinstance(tensor, Reduced) else self.reduced(tensor)
        if reduced is not None:
            number = self._number_of(replace(row, dtype=reduced.dtype, shape=reduced.shape))
            self._taken.setdefault(reduced.vector.device, []).append((number, self._count, reduced))
            self._count += 1

    def move_into(self, values: StepValues) -> None:
        """Add all recorded rows to the values of the step."""
        for taken in self._taken.values():
            rows, orders, reduced = zip(*taken, strict=True)
            counts = np.array([(each.elements, each.counted) for each in reduced], np.float64)
            build = partial(_built, np.array(rows, np.intp), np.array(orders, np.float64), counts)
            self._values.add_deferred(
                OUTPUT_STATISTICS_TAG, [torch.stack([each.vector for each in reduced])], build
            )
        values.extend(self._values)


def _built(
    rows: NDArray[np.intp],
    orders: NDArray[np.float64],
    counts: NDArray[np.float64],
    parts: list[torch.Tensor],
) -> ChainPart:
    values = columns(parts[0].double().numpy(), counts[:, 0], counts[:, 1])
    return ChainPart(rows, np.column_stack([orders, values]))
