"""Lists the lineage values of a run by name, as Python values and as text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from mindsummary_lightning.conversion.flattening import leaves
from mindsummary_lightning.conversion.json_events import plain, train_fields
from mindsummary_lightning.reading.run_status import recorded_status
from mindsummary_lightning.reading.series import html_table
from mindsummary_lightning.values import (
    DatasetGraph,
    EvaluationInfo,
    TrainInfo,
    UserDefinedInfo,
)
from mindsummary_lightning.values.lineage_info import parsed_metric
from mindsummary_lightning.values.text import utf8_json


@dataclass(frozen=True, slots=True)
class RunLineage:
    """The newest lineage of a run, of each kind; ``None`` for a missing kind.

    Attributes:
        train: how the model was trained.
        evaluation: its metrics and evaluation data.
        dataset: the data pipeline.
        custom: everything the user added, and what a run notes of itself without MindInsight
            showing it (versions, precision, how it ended); of entries with one name the later one,
            but the user's before the run's.
    """

    train: TrainInfo | None = None
    evaluation: EvaluationInfo | None = None
    dataset: DatasetGraph | None = None
    custom: UserDefinedInfo | None = None

    def __repr__(self) -> str:
        recorded = [name for name in self.__slots__ if getattr(self, name)]
        return f"{type(self).__name__}({', '.join(recorded)})"

    def __str__(self) -> str:
        fields = lineage_fields(self)
        width = max(map(len, fields), default=0)
        return "\n".join(f"{name:{width}}  {text}" for name, text in fields.items())

    def _repr_html_(self) -> str:
        return html_table(lineage_fields(self))


def lineage_values(lineage: RunLineage) -> dict[str, Any]:  # Any: what JSON holds
    """Return the values in a lineage by their names, in a fixed order.

    The order is: training, ``metric/<name>``, evaluation data, data pipeline, custom data.

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
    recorded = dict(values)
    for name, value in custom.items():
        is_taken = name in recorded and as_text(recorded[name]) != as_text(value)
        values[f"user_defined/{name}" if is_taken else name] = value
    return values


def lineage_fields(lineage: RunLineage) -> dict[str, str]:
    """Return the values in a lineage by their names, with all values as text."""
    return {name: as_text(value) for name, value in lineage_values(lineage).items()}


def as_text(value: Any) -> str:
    """Format a value as text; a float gets six significant digits."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


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
