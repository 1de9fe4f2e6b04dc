"""The ten plugins of ``SummaryRecord.add_value`` and the conversion of their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mindsummary_lightning.conversion.histograms import to_histogram
from mindsummary_lightning.conversion.image_batches import batch_to_image
from mindsummary_lightning.conversion.numeric import to_scalar, to_tensor
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


def convert_value(plugin: str, value: Any) -> Any:
    """Convert a value for a plugin.

    Args:
        plugin: one of :data:`PLUGINS`.
        value: as for ``SummaryRecord.add_value``.

    Raises:
        TypeError: the value is not of a kind that the plugin takes.
        ValueError: the plugin is unknown, or the value cannot be recorded.
    """
    plugin = "LANDSCAPE" if plugin == "landscape" else plugin  # MindSpore 2.7 spells it so
    if plugin not in PLUGINS:
        raise ValueError(f"plugin must be one of {', '.join(PLUGINS)}, not {plugin!r}")
    if plugin in _CONVERTERS:
        return _CONVERTERS[plugin](value)
    kind = _KINDS[plugin]
    if kind is UserDefinedInfo and isinstance(value, Mapping):
        value = UserDefinedInfo(value)
    if not isinstance(value, kind):
        raise TypeError(f"value of plugin {plugin!r} must be a mindsummary_lightning.values.{kind.__name__}: {value!r}")
    check_recordable(value)
    return value
