"""``ReferenceStep``: finds a recorded step's tensors by module, call and value."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

import numpy as np

from mindsummary_lightning.fileio.whole_step_file import WholeStepReader
from mindsummary_lightning.porting.port_check.kind_words import is_random_kind
from mindsummary_lightning.porting.port_check.tensor_distance import (
    Array,
    exact_rms,
    layouts,
    relative_distance,
    rms,
)
from mindsummary_lightning.values.whole_step import (
    StoredCall,
    StoredModule,
    StoredTensor,
    StoredWeight,
    WholeStep,
)

_NEAR = 1e-3  # relative difference of the sizes of two arrays that may agree


class ReferenceStep:
    """A recorded step of the original model.

    Args:
        reader: of the step's file.

    Attributes:
        step: what is recorded.
        weights: of the step by name.
    """

    def __init__(self, reader: WholeStepReader) -> None:
        self._reader = reader
        self._sizes: dict[str, float] = {}
        self.step: WholeStep = reader.step
        self.weights: dict[str, StoredWeight] = {
            weight.name: weight for weight in self.step.weights
        }

    def array(self, tensor: StoredTensor) -> Array:
        """Read a recorded tensor as a NumPy array; bfloat16 becomes float32."""
        return self._reader.array(tensor)

    def size(self, tensor: StoredTensor) -> float:
        """Return the root mean square of a tensor."""
        if tensor.array not in self._sizes:
            self._sizes[tensor.array] = exact_rms(self.array(tensor))
        return self._sizes[tensor.array]

    @cached_property
    def modules(self) -> dict[str, StoredModule]:
        """The modules of the original by name."""
        return {module.name: module for module in self.step.modules}

    @cached_property
    def calls_of(self) -> Mapping[str, list[int]]:
        """The indices of every module's calls, by module name."""
        calls: defaultdict[str, list[int]] = defaultdict(list)
        for index, call in enumerate(self.step.calls):
            calls[call.module].append(index)
        return calls

    @cached_property
    def weights_below(self) -> dict[str, frozenset[str]]:
        """The weights in every module and its submodules, by module name."""
        names = [module.name for module in self.step.modules] or [*self.calls_of]
        return weights_below(names, self.weights)

    @cached_property
    def own_weights(self) -> dict[str, frozenset[str]]:
        """The weights that every module holds itself, by module name."""
        return own_weights(self.weights_below, self.weights)

    def has_weights(self, module: str) -> bool:
        """Tell whether a module or its submodules hold weights."""
        return bool(self.weights_below.get(module))

    @cached_property
    def _by_elements(self) -> Mapping[int, list[StoredTensor]]:
        """Group the distinct recorded values by number of elements."""
        found: defaultdict[int, dict[str, StoredTensor]] = defaultdict(dict)
        tensors = [*self._batch_tensors]
        for call in self.step.calls:
            tensors.extend((*call.inputs, *call.outputs))
        for tensor in tensors:
            found[_elements(tensor)].setdefault(tensor.array, tensor)
        return {elements: [*distinct.values()] for elements, distinct in found.items()}

    @cached_property
    def _batch_tensors(self) -> list[StoredTensor]:
        return [*itertools.chain.from_iterable(self.step.batches)]

    def equal_values(self, array: Array, tolerance: float) -> Iterator[StoredTensor]:
        """Yield the recorded tensors that are equal to an array, in any layout."""
        size = rms(array)
        for tensor in self._by_elements.get(array.size, ()):
            if self.agrees(tensor, array, tolerance, size):
                yield tensor

    def has_value(self, array: Array, tolerance: float) -> bool:
        """Tell whether an array is equal to a recorded input, output or batch tensor."""
        return next(self.equal_values(array, tolerance), None) is not None

    def is_of_batch(self, array: Array) -> bool:
        """Tell whether an array is a tensor of the batch."""
        for tensor in self._batch_tensors:
            if array.shape == tensor.shape and np.array_equal(array, self.array(tensor)):
                return True
        return False

    def leaves_its_input(self, call: StoredCall) -> bool:
        """Tell whether a call of a dropout module returned its input unchanged."""
        is_one_to_one = len(call.inputs) == 1 and len(call.outputs) == 1
        if not is_random_kind(call.kind) or not is_one_to_one:
            return False
        return relative_distance(self.array(call.inputs[0]), self.array(call.outputs[0])) == 0.0

    def agrees(
        self, tensor: StoredTensor, array: Array, tolerance: float, size: float | None = None
    ) -> bool:
        """Tell whether an array holds a recorded tensor's values in any layout."""
        size = rms(array) if size is None else size
        expected = self.size(tensor)
        if abs(size - expected) > max(_NEAR, 2 * tolerance) * max(size, expected):
            return False
        recorded = self.array(tensor)
        for layout in layouts(tensor.shape, array.shape):
            if relative_distance(layout.applied(recorded), array) <= tolerance:
                return True
        return False

    @cached_property
    def _outputs(self) -> set[tuple[int, float]]:
        """Return the element counts and root mean squares of outputs and batch tensors.

        Such values are not computed by code.
        """
        tensors = [*self._batch_tensors]
        for call in self.step.calls:
            tensors.extend(call.outputs)
        return {(_elements(tensor), self.size(tensor)) for tensor in tensors}

    def is_computed_in_code(self, tensor: StoredTensor) -> bool:
        """Tell whether an input was computed by code between modules, not by a module."""
        return (_elements(tensor), self.size(tensor)) not in self._outputs

    def is_same(self, tensor: StoredTensor, other: StoredTensor) -> bool:
        """Tell whether two tensors of the original have the same values."""
        if tensor.array == other.array:
            return True
        return _elements(tensor) == _elements(other) and self.size(tensor) == self.size(other)

    def consumers(self, tensor: StoredTensor, after: int) -> Iterator[tuple[int, StoredCall]]:
        """Yield later calls that have a tensor's values among their inputs."""
        for index, call in enumerate(self.step.calls):
            if call.entered > after and any(self.is_same(tensor, each) for each in call.inputs):
                yield index, call


def _elements(tensor: StoredTensor) -> int:
    return math.prod(tensor.shape)


def weights_below(modules: Iterable[str], weights: Iterable[str]) -> dict[str, frozenset[str]]:
    """Group the names of weights by all modules that contain them.

    ``""`` is the network.
    """
    below: dict[str, set[str]] = {name: set() for name in modules}
    for weight in weights:
        for module in _modules_around(weight):
            if module in below:
                below[module].add(weight)
    return _frozen(below)


def own_weights(
    below: Mapping[str, frozenset[str]], weights: Iterable[str]
) -> dict[str, frozenset[str]]:
    """Group the names of weights by the innermost module that holds them."""
    own: dict[str, set[str]] = {name: set() for name in below}
    for weight in weights:
        for module in _modules_around(weight):
            if module in below:
                own[module].add(weight)
                break
    return _frozen(own)


def _modules_around(weight: str) -> Iterator[str]:
    """Yield the names of the modules around a weight, the innermost first."""
    words = weight.split(".")
    for length in range(len(words) - 1, -1, -1):
        yield ".".join(words[:length])


def _frozen(names_of: Mapping[str, set[str]]) -> dict[str, frozenset[str]]:
    return {module: frozenset(names) for module, names in names_of.items()}
