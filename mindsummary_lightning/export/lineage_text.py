"""A run's lineage as a flat list of names and texts, for display."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mindsummary_lightning.export.json_events import plain
from mindsummary_lightning.reading.results import RunLineage
from mindsummary_lightning.values.lineage_info import parsed_metric

__all__ = ["lineage_fields"]


def lineage_fields(lineage: RunLineage) -> dict[str, str]:
    """Fields by name, in order: training, metrics, evaluation data, data pipeline, custom data."""
    fields: dict[str, Any] = dict(plain(lineage.train)) if lineage.train else {}
    if lineage.evaluation:
        evaluation = plain(lineage.evaluation)
        fields.update(_metrics(evaluation.pop("metric", None)))
        fields.update(evaluation)
    if lineage.dataset:
        fields["data"] = " <- ".join(_stages(plain(lineage.dataset)))
    if lineage.custom:
        fields.update(plain(lineage.custom.values))
    return {name: f"{field:.6g}" if isinstance(field, float) else str(field) for name, field in fields.items()}


def _metrics(text: str | None) -> dict[str, Any]:
    try:
        return {f"metric {name}": value for name, value in parsed_metric(text or "{}").items()}
    except ValueError:
        return {"metric": text}


def _stages(stage: dict[str, Any]) -> Iterator[str]:
    yield str(stage.get("parameter", {}).get("op_type", "?"))
    for child in stage.get("children", []):
        yield from _stages(child)
