"""A run's lineage as a flat list of names and values, typed for tables and as text for display."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mindsummary_lightning.conversion.flattening import leaves
from mindsummary_lightning.conversion.json_events import plain, train_fields
from mindsummary_lightning.reading.run_status import recorded_status
from mindsummary_lightning.values.lineage_info import parsed_metric
from mindsummary_lightning.values.text import utf8_json

if TYPE_CHECKING:
    from mindsummary_lightning.reading.series import RunLineage


def lineage_values(lineage: RunLineage) -> dict[str, Any]:  # Any: what JSON holds
    """Values by name, in order: training, ``metric/<name>``, evaluation data, data pipeline, custom data.

    Custom data with the name of another entry, such as a setting ``loss``, is
    ``user_defined/<name>``, as in a table of lineage, unless both are the same text: then it is in
    that place, as a float not rounded to 32 bits.
    """
    train = lineage.train
    values = train_fields(replace(train, model_path=_checkpoint(train.model_path))) if train else {}
    if lineage.evaluation:
        evaluation = plain(lineage.evaluation)
        values.update(_metrics(evaluation.pop("metric", None)))
        values.update(evaluation)
    if lineage.dataset:
        values["data"] = " <- ".join(_stages(plain(lineage.dataset)))
    custom = dict(leaves(lineage.custom.values)) if lineage.custom else {}
    if "status" in custom:
        custom["status"] = recorded_status(custom["status"]) or custom["status"]
    taken = {
        name for name in custom if name in values and as_text(values[name]) != as_text(custom[name])
    }
    return {
        **values,
        **{
            f"user_defined/{name}" if name in taken else name: value
            for name, value in custom.items()
        },
    }


def lineage_fields(lineage: RunLineage) -> dict[str, str]:
    """The values as text."""
    return {name: as_text(value) for name, value in lineage_values(lineage).items()}


def as_text(value: Any) -> str:
    """One of the values as text, a float in six significant digits."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _checkpoint(text: str | None) -> Any:
    try:
        return utf8_json(json.loads(text or "{}").get("ckpt"))
    except (AttributeError, RecursionError, ValueError):  # another program's text
        return text


def _metrics(text: str | None) -> dict[str, Any]:
    try:
        return {f"metric/{name}": value for name, value in parsed_metric(text or "{}").items()}
    except ValueError:
        return {"metric": text}


def _stages(stage: dict[str, Any]) -> Iterator[str]:
    yield str(stage.get("parameter", {}).get("op_type", "?"))
    for child in stage.get("children", []):
        yield from _stages(child)
