"""``RecordedStep``: a recorded step of a run.

It gives the output statistics of the step, and the module calls in them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.porting.comparison.distances import Floats
from mindsummary_lightning.porting.comparison.matching.tensor_names import TensorName
from mindsummary_lightning.porting.comparison.tolerance_table import SPACINGS
from mindsummary_lightning.values.step_chain import COLUMNS, OutputRow

ELEMENTS, RMS, MEAN, LOW, HIGH, _, NON_FINITE, *SAMPLED = range(1, len(COLUMNS))
_CANONICAL_KINDS = {
    "dense": "linear",
    "sequentialcell": "sequential",
    "celllist": "modulelist",
    "cell": "module",
}


class Call(NamedTuple):
    """A module call; ``inputs`` and ``outputs`` are indices of the step's rows."""

    name: str
    kind: str
    number: int
    line: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    @property
    def canonical_kind(self) -> str:
        """The class of the module, named by the same word for both frameworks."""
        return _CANONICAL_KINDS.get(self.kind.lower(), self.kind.lower())


@dataclass(frozen=True, eq=False)
class RecordedStep:
    """The recorded rows of a step, in order, with their statistics.

    ``values`` are float64 of shape ``(rows, columns)``.
    """

    rows: list[OutputRow]
    values: Floats

    def of(self, link: str) -> dict[str, int]:
        """Map the name of every row of a stage (``link``) to the row's index.

        The name of an optimizer setting is followed by the word for the setting.
        """
        return self._by_link.get(link, {})

    @cached_property
    def _by_link(self) -> dict[str, dict[str, int]]:
        links: dict[str, dict[str, int]] = {}
        for index, row in enumerate(self.rows):
            setting = row.port if row.link == "settings" else ""
            words = [row.name, row.path, setting, str(row.call or "")]
            links.setdefault(row.link, {})[".".join(filter(None, words))] = index
        return links

    def row(self, index: int) -> OutputRow:
        """Return the description of a row, with the size that its tensor has in this step."""
        row, elements = self.rows[index], self.values[index, ELEMENTS]
        if np.float32(math.prod(row.shape)) == elements:
            return row
        return replace(row, shape=(int(elements),))

    def weights(self) -> list[TensorName]:
        """Return the weights with which the step begins."""
        weights = []
        for name, index in self.of("weights").items():
            numbers = self.values[index, [LOW, HIGH, MEAN]].tolist()
            weights.append(TensorName(name, int(self.values[index, ELEMENTS]), tuple(numbers)))
        return weights

    @cached_property
    def calls(self) -> list[Call]:
        """The module calls in the order in which they finished.

        Calls without a numeric output are left out, and so are masks: true means what to keep in
        one framework, and what to leave out in the other.
        """
        inputs: dict[tuple[str, int], list[int]] = {}
        outputs: dict[tuple[str, int], list[int]] = {}
        for index, row in enumerate(self.rows):
            if row.link == "forward" and row.dtype != "bool":
                key = row.name, row.call
                inputs.setdefault(key, [])
                ports = inputs if row.port == "input" else outputs
                ports.setdefault(key, []).append(index)
        calls = []
        for key, given in inputs.items():
            made = outputs.get(key)
            if made:
                row = self.rows[made[0]]
                calls.append(
                    Call(row.name, row.kind, row.call, row.line, tuple(given), tuple(made))
                )
        return calls

    @cached_property
    def precision(self) -> str:
        """The lowest precision of an output: ``bfloat16``, ``float16`` or ``float32``."""
        dtypes = {row.dtype for row in self.rows if row.port == "output"}
        return next((name for name in SPACINGS if name in dtypes), "float32")

    @cached_property
    def parents(self) -> list[int | None]:
        """The enclosing call of every call; ``None`` for an outermost call.

        It is the next call to finish whose module name is a prefix.
        """
        later: dict[str, int] = {}
        parents: list[int | None] = []
        for index in range(len(self.calls) - 1, -1, -1):
            name = self.calls[index].name
            parents.append(_innermost_around(name, later))
            later[name] = index
        return parents[::-1]

    @cached_property
    def within(self) -> list[set[int]]:
        """The inner calls of every call."""
        inner: list[set[int]] = [set() for _ in self.calls]
        for index in range(len(self.calls)):
            for outer in self.around(index):
                inner[outer].add(index)
        return inner

    def children(self, call: int) -> list[int]:
        """Return the calls directly inside a call, in order."""
        return [inner for inner in sorted(self.within[call]) if self.parents[inner] == call]

    def around(self, call: int) -> Iterator[int]:
        """Yield the enclosing calls of a call, the innermost first."""
        outer = self.parents[call]
        while outer is not None:
            yield outer
            outer = self.parents[outer]

    @cached_property
    def first_inputs(self) -> NDArray[np.int64]:
        """The row of every call's first input; -1 for a call without inputs."""
        return np.array([(*call.inputs, -1)[0] for call in self.calls], np.int64)

    @cached_property
    def first_outputs(self) -> NDArray[np.int64]:
        """The row of every call's first output."""
        return np.array([call.outputs[0] for call in self.calls], np.int64)

    @cached_property
    def call_tensors(self) -> NDArray[np.int64]:
        """The rows that are inputs or outputs of module calls."""
        rows: list[int] = []
        for call in self.calls:
            rows += [*call.inputs, *call.outputs]
        return np.array(rows, np.int64)

    @cached_property
    def layouts(self) -> NDArray[np.str_]:
        """The shapes of the rows, without dimensions of size 1.

        Tensors of equal layout have their samples at equal positions.
        """
        layouts = []
        for row in self.rows:
            layouts.append(str([size for size in row.shape if size != 1]))
        return np.array(layouts)

    def equals(self, row: int, among: list[int] | slice = slice(None)) -> NDArray[np.bool_]:
        """Tell which rows hold the same numbers as a given row."""
        others = self.values[among, ELEMENTS:]
        same: NDArray[np.bool_] = (others == self.values[row, ELEMENTS:]).all(axis=1)
        return same

    def is_loss_function(self, call: int, output: int) -> bool:
        """Tell whether a module call computes the loss.

        It returns numbers alone, or the loss itself.
        """
        are_numbers = self.values[[*self.calls[call].outputs], ELEMENTS] == 1
        is_the_loss = self.equals(output, [*self.of("loss").values()]).any()
        return bool(are_numbers.all() or is_the_loss)

    def divided(self, factor: float) -> RecordedStep:
        """Return a copy of the step with the statistics of tensors divided by ``factor``."""
        values = self.values.copy()
        values[:, [RMS, MEAN, LOW, HIGH, *SAMPLED]] /= factor
        return RecordedStep(self.rows, values)


def _innermost_around(name: str, later: dict[str, int]) -> int | None:
    words = name.split(".") if name else []
    for length in range(len(words) - 1, -1, -1):
        outer = later.get(".".join(words[:length]))
        if outer is not None:
            return outer
    return None
