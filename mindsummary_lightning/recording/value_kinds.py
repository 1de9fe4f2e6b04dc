"""The ten plugins of ``SummaryRecord.add_value``: what each takes and which value it makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mindsummary_lightning.conversion.histograms import histogram_of
from mindsummary_lightning.conversion.image_batches import image_of
from mindsummary_lightning.conversion.numeric import scalar_of, tensor_of
from mindsummary_lightning.values import (
    DatasetGraph,
    EvaluationLineage,
    Graph,
    LossLandscape,
    SummaryValue,
    TrainLineage,
    UserDefinedInfo,
    check_recordable,
)

__all__ = ["LINEAGE_PLUGINS", "PLUGINS", "plugin_value"]

_CONVERTERS: dict[str, Callable[[Any], SummaryValue]] = {
    "scalar": scalar_of,
    "image": image_of,
    "tensor": tensor_of,
    "histogram": histogram_of,
}
_LINEAGE: dict[str, type] = {
    "train_lineage": TrainLineage,
    "eval_lineage": EvaluationLineage,
    "dataset_graph": DatasetGraph,
    "custom_lineage_data": UserDefinedInfo,
}
_KINDS: dict[str, type] = {"graph": Graph, **_LINEAGE, "LANDSCAPE": LossLandscape}

LINEAGE_PLUGINS = frozenset(_LINEAGE)

PLUGINS = (*_CONVERTERS, *_KINDS)


def plugin_value(plugin: str, value: Any) -> Any:
    """What a plugin records of a value.

    Args:
        plugin: one of :data:`PLUGINS`.
        value: as ``SummaryRecord.add_value`` says.

    Raises:
        TypeError: the value is of no kind the plugin takes.
        ValueError: the plugin is not known, or the value cannot be recorded.
    """
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
