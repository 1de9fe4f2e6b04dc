"""A run's lineage as a flat list of names and texts, for people to read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mindsummary_lightning.export.json_events import plain
from mindsummary_lightning.reading.results import RunLineage
from mindsummary_lightning.values.lineage_info import parsed_metric

__all__ = ["lineage_facts"]


def lineage_facts(lineage: RunLineage) -> dict[str, str]:
    """Facts by name, in the order of interest: training, metrics, evaluation data, data pipeline, custom data."""
    facts: dict[str, Any] = dict(plain(lineage.train)) if lineage.train else {}
    if lineage.evaluation:
        evaluation = plain(lineage.evaluation)
        facts.update(_metrics(evaluation.pop("metric", None)))
        facts.update(evaluation)
    if lineage.dataset:
        facts["data"] = " <- ".join(_stages(plain(lineage.dataset)))
    if lineage.custom:
        facts.update(plain(lineage.custom.values))
    return {name: f"{fact:.6g}" if isinstance(fact, float) else str(fact) for name, fact in facts.items()}


def _metrics(text: str | None) -> dict[str, Any]:
    try:
        return {f"metric {name}": value for name, value in parsed_metric(text or "{}").items()}
    except ValueError:
        return {"metric": text}


def _stages(stage: dict[str, Any]) -> Iterator[str]:
    yield str(stage.get("parameter", {}).get("op_type", "?"))
    for child in stage.get("children", []):
        yield from _stages(child)
