"""``CallPairs``: finds the original's call that corresponds to a port's call."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence

from mindsummary_lightning.porting.port_check.input_comparison import Relation, compared, matched
from mindsummary_lightning.porting.port_check.kind_words import kind_word
from mindsummary_lightning.porting.port_check.port_frames import Frame, PortModule, PortTensor
from mindsummary_lightning.porting.port_check.reference_step import (
    ReferenceStep,
    own_weights,
    weights_below,
)
from mindsummary_lightning.porting.port_check.tensor_distance import rms
from mindsummary_lightning.porting.port_check.tolerances import tolerance_of
from mindsummary_lightning.porting.port_check.weight_pairs import WeightPairs
from mindsummary_lightning.values.text import Phrase
from mindsummary_lightning.values.whole_step import StoredCall, StoredTensor

_NEAR = 1e-3  # relative difference of the sizes of two tensors that may be equal


class CallPairs:
    """Pairs module calls by their weights, or by their inputs if they use no weights.

    Args:
        reference: the recorded step.
        modules: all modules of the port, the network first.
        weights: how the weights are paired.
        precision: coarsest precision of both sides.
    """

    def __init__(
        self,
        reference: ReferenceStep,
        modules: Sequence[PortModule],
        weights: WeightPairs,
        precision: str,
    ) -> None:
        self._reference = reference
        self._calls = reference.step.calls
        self._precision = precision
        self._modules = {module.name: module for module in modules}
        self.used: set[int] = set()
        port_weights = [*weights.pairs, *weights.only_port]
        self._below = weights_below(self._modules, port_weights)
        own = own_weights(self._below, port_weights)
        shared: set[str] = set()
        for pair in weights.pairs.values():
            shared.update(pair.references)
        self._partners = self._partners_of_all(own, shared, weights)

    def has_weights(self, module: str) -> bool:
        """Tell whether a module of the port or its submodules hold weights."""
        return bool(self._below.get(module))

    def choose(self, frame: Frame) -> None:
        """Pair a call, or store its candidates, or the reason for which it has no partner."""
        name = frame.module.name
        if self.has_weights(name):
            partners = self._partners.get(name, [])
            frame.reference = self._call_of(partners, frame)
            frame.reason = Phrase("no module of the original holds these weights")
        else:
            frame.candidates = self._with_equal_inputs(frame)
            if not frame.candidates:
                frame.reference = self._at_same_place(frame)
            frame.reason = Phrase("no call of the original has these inputs")
        if frame.reference is not None:
            self.used.add(frame.reference)

    def decide(self, frame: Frame, outputs: Sequence[PortTensor]) -> None:
        """Choose among the candidates of a call once its outputs are known."""
        sizes = _sizes(outputs)
        preferred: list[int] = []
        agreeing: list[int] = []
        named: list[int] = []
        of_kind: list[int] = []
        for index in frame.candidates:
            if index in self.used:
                continue
            call = self._calls[index]
            agrees = self._agree(call.outputs, outputs, sizes)
            has_name = self._has_name(frame, call)
            has_kind = self._has_kind(frame, call)
            if agrees:
                agreeing.append(index)
            if has_name:
                named.append(index)
            if has_kind:
                of_kind.append(index)
            if agrees and (has_name or has_kind):
                preferred.append(index)
        chosen = next(iter((*preferred, *agreeing, *named, *of_kind)), None)
        if chosen is not None:
            frame.reference = chosen
            self.used.add(chosen)
        else:
            frame.reason = Phrase(
                "the calls of the original with these inputs have different outputs"
            )

    def unused(self) -> list[StoredCall]:
        """Return the original's calls that have no partner in the port."""
        return [call for index, call in enumerate(self._calls) if index not in self.used]

    # ---- modules with weights

    def _partners_of_all(
        self, own: dict[str, frozenset[str]], shared: set[str], weights: WeightPairs
    ) -> dict[str, list[str]]:
        """List, per port module, the original's modules that hold the same weights."""
        groups: defaultdict[tuple[frozenset[str], frozenset[str]], list[str]] = defaultdict(list)
        reference = self._reference
        for name, below in reference.weights_below.items():
            groups[below & shared, reference.own_weights.get(name, frozenset()) & shared].append(
                name
            )
        ports: defaultdict[tuple[frozenset[str], frozenset[str]], list[str]] = defaultdict(list)
        for name, below in self._below.items():
            key = _references(below, weights), _references(own.get(name, frozenset()), weights)
            if key[0]:
                ports[key].append(name)
        partners: dict[str, list[str]] = {}
        for key, names in ports.items():
            for index, name in enumerate(names):
                partners[name] = self._ordered(name, index, names, groups.get(key, []))
        return partners

    def _ordered(self, name: str, index: int, names: list[str], partners: list[str]) -> list[str]:
        """Sort nested modules with the same weights by their nesting, or by kind."""
        if len(names) == len(partners):
            return [partners[index]]
        kinds = {module.name: kind_word(module.kind) for module in self._reference.step.modules}
        word = kind_word(self._modules[name].kind)
        last = name.rpartition(".")[2]
        return sorted(
            partners, key=lambda other: (kinds.get(other) != word, other.rpartition(".")[2] != last)
        )

    def _call_of(self, partners: Sequence[str], frame: Frame) -> int | None:
        """Return the partners' call with equal inputs, or else with the same call number."""
        calls_of = self._reference.calls_of
        free: list[int] = []
        for name in partners:
            free.extend(index for index in calls_of.get(name, ()) if index not in self.used)
        free.sort(key=lambda index: self._calls[index].number != frame.number)
        if len(free) > 1:
            sizes = _sizes(frame.inputs)
            for index in free:
                if self._agree(self._calls[index].inputs, frame.inputs, sizes):
                    return index
        for index in free:
            if self._may_be(self._calls[index], frame):
                return index
        return None

    def _may_be(self, call: StoredCall, frame: Frame) -> bool:
        """Tell whether a call of the original may be the partner although inputs differ."""
        is_embedding = "embedding" in kind_word(call.kind)
        is_embedding_in_port = "embedding" in kind_word(frame.module.kind)
        return is_embedding == is_embedding_in_port

    # ---- modules without weights

    def _with_equal_inputs(self, frame: Frame) -> list[int]:
        if not frame.inputs:
            return []
        sizes = _sizes(frame.inputs)
        candidates = []
        for index, call in self._free_calls_without_weights():
            if self._agree(call.inputs, frame.inputs, sizes):
                candidates.append(index)
        return candidates

    def _free_calls_without_weights(self) -> Iterator[tuple[int, StoredCall]]:
        for index, call in enumerate(self._calls):
            if index not in self.used and not self._reference.has_weights(call.module):
                yield index, call

    def _at_same_place(self, frame: Frame) -> int | None:
        """Find the original's call with the same module name and kind.

        It is inside the call that the enclosing call is paired with.
        """
        for index, call in self._free_calls_without_weights():
            is_named_alike = self._has_kind(frame, call) and self._has_name(frame, call)
            if is_named_alike and not self._is_known_elsewhere(frame, call):
                return index
        return None

    def _is_known_elsewhere(self, frame: Frame, call: StoredCall) -> bool:
        """Tell whether the inputs clearly belong to a different call of the original.

        Their sizes differ, or they are different recorded values.
        """
        pairs = matched(call.inputs, frame.inputs)
        if len(pairs) != len(call.inputs):
            return True
        dtypes = {tensor.dtype for tensor in frame.inputs}
        tolerance = tolerance_of(dtypes, self._precision).value
        for tensor in frame.inputs:
            array = tensor.array
            if array.dtype.kind == "f" and self._reference.has_value(array, tolerance):
                return True
        return False

    def _has_kind(self, frame: Frame, call: StoredCall) -> bool:
        return kind_word(call.kind) == kind_word(frame.module.kind)

    def _has_name(self, frame: Frame, call: StoredCall) -> bool:
        """Tell whether the names of two called modules end with the same word.

        The call is inside the call that the enclosing call is paired with.
        """
        parent = next((each for each in frame.ancestors() if each.reference is not None), None)
        parent_index = -1 if parent is None or parent.reference is None else parent.reference
        is_inside = call.parent == parent_index
        name = frame.module.name
        if not name or not is_inside:
            return False
        return call.module.rpartition(".")[2] == name.rpartition(".")[2]

    def _agree(
        self, reference: Sequence[StoredTensor], port: Sequence[PortTensor], sizes: Sequence[float]
    ) -> bool:
        """Tell whether all tensors that can be compared agree, and at least 1 exists."""
        pairs = matched(reference, port)
        is_complete = len(pairs) >= min(len(reference), len(port))
        if not pairs or not is_complete:
            return False
        if any(len(pair.port) > 1 for pair in pairs):
            return False
        tolerance = tolerance_of({tensor.dtype for tensor in port}, self._precision).value
        for pair in pairs:
            place = pair.port[0]
            if not self._is_equal(pair.reference, port[place], sizes[place], tolerance):
                return False
        return True

    def _is_equal(
        self, reference: StoredTensor, port: PortTensor, size: float, tolerance: float
    ) -> bool:
        if port.array.dtype.kind == "f" and "float" in reference.dtype:
            expected = self._reference.size(reference)
            if abs(expected - size) > max(_NEAR, 2 * tolerance) * max(expected, size):
                return False
        relation = compared(self._reference.array(reference), port.array, tolerance).relation
        return relation in (Relation.AGREES, Relation.SKIPPED)


def _sizes(tensors: Sequence[PortTensor]) -> list[float]:
    return [rms(tensor.array) if tensor.array.dtype.kind == "f" else 0.0 for tensor in tensors]


def _references(names: frozenset[str], weights: WeightPairs) -> frozenset[str]:
    return frozenset(itertools.chain.from_iterable(map(weights.references, names)))
