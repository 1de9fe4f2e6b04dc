"""Keep values until the next ``record()`` of a ``SummaryRecord``.

The values come from ``add_value`` and from summary operators.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.collection import operator_buffer
from mindsummary_lightning.conversion.arguments import checked_name
from mindsummary_lightning.conversion.arrays import to_array
from mindsummary_lightning.conversion.histograms import to_histogram
from mindsummary_lightning.conversion.image_batches import batch_to_image
from mindsummary_lightning.conversion.numeric import to_scalar, to_tensor
from mindsummary_lightning.errors import RecordTooLargeError
from mindsummary_lightning.recording.run_recorder import RunRecorder
from mindsummary_lightning.values import (
    DatasetGraph,
    EvaluationInfo,
    Graph,
    LossLandscape,
    SummaryValue,
    TrainInfo,
    UserDefinedInfo,
    check_recordable,
)

Plugin: TypeAlias = Literal[
    "scalar", "image", "tensor", "histogram", "graph", "train_lineage", "eval_lineage",
    "dataset_graph", "custom_lineage_data", "LANDSCAPE", "landscape",
]  # fmt: skip
_CONVERTERS: dict[str, Callable[[Any], SummaryValue]] = {
    "scalar": to_scalar,
    "image": batch_to_image,
    "tensor": to_tensor,
    "histogram": to_histogram,
}
_LINEAGE: dict[str, type] = {
    "train_lineage": TrainInfo,
    "eval_lineage": EvaluationInfo,
    "dataset_graph": DatasetGraph,
    "custom_lineage_data": UserDefinedInfo,
}
_KINDS: dict[str, type] = {"graph": Graph, **_LINEAGE, "LANDSCAPE": LossLandscape}

LINEAGE_PLUGINS = frozenset(_LINEAGE)

PLUGINS = (*_CONVERTERS, *_KINDS)


class PendingValues:
    """Converted values, by kind (plugin) and tag, that the next ``record()`` writes.

    If a tag has several values of a kind, the newest is kept.
    """

    def __init__(self, recorder: RunRecorder) -> None:
        self._policy = recorder.policy
        self._keeps_originals = recorder.exports_tensors  # in the dtype that they had
        self._values: dict[tuple[str, str], Any] = {}
        self._originals: dict[str, NDArray[Any]] = {}
        self._has_skipped = False  # a value, since the last `take`
        self._operators = operator_buffer.OperatorBuffer(is_of_one_step=False)
        weakref.finalize(self, operator_buffer.close, self._operators).atexit = False

    def take_operators(self, is_wanted: bool) -> None:
        """Start or stop collecting values of ``ScalarSummary`` and similar operators."""
        if is_wanted:
            operator_buffer.open_for(self._operators, is_record=True)
        else:
            operator_buffer.close(self._operators)

    def add(self, plugin: str, name: str, value: Any) -> None:
        """Convert a value and keep it until it is recorded.

        Arguments and errors are those of ``SummaryRecord.add_value``.
        """
        if not isinstance(plugin, str):  # before it is a key: it may be a list
            raise ValueError(f"plugin must be one of {', '.join(PLUGINS)}, got {plugin!r}")
        name = checked_name(name)
        key = (plugin, name)
        is_repeated = key in self._values
        try:
            self._keep(plugin, name, value)
        except (RecordTooLargeError, MemoryError) as error:
            self._has_skipped = True
            self._policy.skip(*key, error)
            return
        if is_repeated:
            text = "%s %r was added twice before record(). The newest value is recorded"
            self._policy.warnings.warn(("twice", key), text, *key)

    def drop(self) -> list[str]:
        """Remove all values that are not recorded yet, and return their names."""
        names = [name for _, name in self._values]
        self._values, self._originals = {}, {}
        return names

    def take(
        self, plugin_filter: Callable[[str], bool] | None, with_operators: bool
    ) -> tuple[list[tuple[str, str, Any]], dict[str, NDArray[Any]], bool]:
        """Remove and return all values that wait to be recorded.

        Returns:
            ``(plugin, tag, value)`` in order; the original arrays of tensors, by tag; and whether
            no value was skipped since the last call.

        ``plugin_filter`` is called once per plugin. Values of summary operators follow the added
        values. An operator's value is dropped if a value was added under the same plugin and name.
        """
        self._operators.settle()
        given = self._operators.take()
        for plugin, name, value in given if with_operators else ():
            if (plugin, name) not in self._values:
                self._policy.converted(plugin, name, self._keep, plugin, name, value)
                self._has_skipped |= (plugin, name) not in self._values
        values, self._values = self._values, {}
        originals, self._originals = self._originals, {}
        is_all, self._has_skipped = not self._has_skipped, False
        if plugin_filter is not None:
            wanted = set(filter(plugin_filter, {plugin for plugin, _ in values}))
            values = {key: value for key, value in values.items() if key[0] in wanted}
        return [(*key, value) for key, value in values.items()], originals, is_all

    def _keep(self, plugin: str, tag: str, value: Any) -> None:
        recorded = _convert(plugin, value)
        if plugin == "tensor" and self._keeps_originals:
            self._originals[tag] = np.array(to_array(value))
        self._values[plugin, tag] = recorded


def _convert(plugin: str, value: Any) -> Any:
    convert = _CONVERTERS.get(plugin)
    if convert is not None:
        return convert(value)
    plugin = "LANDSCAPE" if plugin == "landscape" else plugin  # MindSpore 2.7 spells it so
    kind = _KINDS.get(plugin)
    if kind is None:
        raise ValueError(f"plugin must be one of {', '.join(PLUGINS)}, got {plugin!r}")
    if kind is UserDefinedInfo and isinstance(value, Mapping):
        value = UserDefinedInfo(value)
    if not isinstance(value, kind):
        raise TypeError(
            f"value of plugin {plugin!r} must be a mindsummary_lightning.values.{kind.__name__}, "
            f"got {value!r}"
        )
    check_recordable(value)
    return value
