"""What the lineage files of a run say together, by the merge rules of MindInsight 2.3.1's reader.

Of each file the newest training, evaluation and dataset lineage counts, and all its custom data in order. Files follow
each other in time: one with training or dataset lineage starts the run anew, one with evaluation lineage alone is laid
over what came before, and one with none of the three adds nothing. Where a file would make MindInsight fail for every
run (a metric that is no JSON object, an evaluation without a metric behind one that had it), the run keeps what is
sound. No files are read here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mindsummary_lightning.lineage.json_values import JsonValue, shown_custom, shown_dataset_graph, shown_float32
from mindsummary_lightning.values import DatasetGraph, EvaluationInfo, LineageEvent, TrainInfo, UserDefinedInfo
from mindsummary_lightning.values.lineage_info import parsed_metric

__all__ = ["FIELDS", "FileLineage", "MergedLineage", "lineage_of_file", "merged"]

_LOG = logging.getLogger(__name__)

# Sections and names of get_summary_lineage: section -> name there -> attribute of TrainInfo.
_TRAIN_SECTIONS = {
    "hyper_parameters": {
        "optimizer": "optimizer",
        "learning_rate": "learning_rate",
        "loss_function": "loss_function",
        "epoch": "epoch",
        "parallel_mode": "parallel_mode",
        "device_num": "device_num",
        "batch_size": "batch_size",
    },
    "algorithm": {"network": "network", "loss": "loss"},
    "train_dataset": {"train_dataset_path": "train_dataset_path", "train_dataset_size": "train_dataset_size"},
    "model": {"path": "model_path", "size": "model_size"},
}
_VALID_DATASET = ("valid_dataset_path", "valid_dataset_size")

# Fields of filter_summary_lineage, in the order it returns them: field -> (section, name in the section).
FIELDS = {
    "loss_function": ("hyper_parameters", "loss_function"),
    "train_dataset_path": ("train_dataset", "train_dataset_path"),
    "train_dataset_count": ("train_dataset", "train_dataset_size"),
    "test_dataset_path": ("valid_dataset", "valid_dataset_path"),
    "test_dataset_count": ("valid_dataset", "valid_dataset_size"),
    "network": ("algorithm", "network"),
    "optimizer": ("hyper_parameters", "optimizer"),
    "learning_rate": ("hyper_parameters", "learning_rate"),
    "epoch": ("hyper_parameters", "epoch"),
    "batch_size": ("hyper_parameters", "batch_size"),
    "device_num": ("hyper_parameters", "device_num"),
    "loss": ("algorithm", "loss"),
    "model_size": ("model", "size"),
}


@dataclass(frozen=True, slots=True)
class FileLineage:
    """What one lineage file says, as the reader shows it; ``None`` is "the file does not say".

    Attributes:
        train: the sections ``hyper_parameters``, ``algorithm``, ``train_dataset`` and ``model``.
        has_evaluation: whether the file holds evaluation lineage at all.
        metric: metrics of the evaluation.
        valid_dataset: path and size of the evaluation data.
        dataset_graph: the data pipeline.
        user_defined: custom data, later keys over earlier ones.
    """

    train: Mapping[str, Mapping[str, JsonValue]] | None = None
    has_evaluation: bool = False
    metric: Mapping[str, JsonValue] | None = None
    valid_dataset: Mapping[str, JsonValue] | None = None
    dataset_graph: Mapping[str, JsonValue] | None = None
    user_defined: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MergedLineage:
    """What all lineage files of a run say together.

    Attributes:
        sections: name -> facts: ``metric``, ``hyper_parameters``, ``algorithm``, ``train_dataset``, ``model``,
            ``valid_dataset``, ``dataset_graph`` and ``user_defined``; a section nobody wrote is empty.
        fields: every name of :data:`FIELDS` -> its value or ``None``.
        graph_key: equal and hashed alike for equal data pipelines.
    """

    sections: Mapping[str, Mapping[str, JsonValue]]
    fields: Mapping[str, JsonValue]
    graph_key: Any


def lineage_of_file(path: str, events: Iterable[LineageEvent]) -> FileLineage:
    """What the events of one file say.

    Args:
        path: the file, for the log.
        events: its records in order.
    """
    newest: dict[type, Any] = {}
    user_defined: dict[str, JsonValue] = {}
    for event in events:
        if isinstance(event.what, UserDefinedInfo):
            user_defined.update(shown_custom(event.what.values))
        else:
            newest[type(event.what)] = event.what
    train: TrainInfo | None = newest.get(TrainInfo)
    evaluation: EvaluationInfo | None = newest.get(EvaluationInfo)
    graph: DatasetGraph | None = newest.get(DatasetGraph)
    return FileLineage(
        train=None if train is None else _train_sections(train),
        has_evaluation=evaluation is not None,
        metric=None if evaluation is None else _metric(path, evaluation.metric),
        valid_dataset=None if evaluation is None else _valid_dataset(evaluation),
        dataset_graph=None if graph is None else shown_dataset_graph(graph),
        user_defined=user_defined,
    )


def merged(files: Iterable[FileLineage]) -> MergedLineage | None:
    """What the files of a run say together, or ``None`` if none of them holds lineage.

    Args:
        files: in the reader's order, oldest first.
    """
    sections: dict[str, Mapping[str, JsonValue]] | None = None
    for file in files:
        starts_anew = file.train is not None or file.dataset_graph is not None
        if not starts_anew and not file.has_evaluation:
            continue  # custom data alone: the reader ignores the file
        if sections is None or starts_anew:
            sections = _no_sections()
        sections["user_defined"] = {**sections["user_defined"], **file.user_defined}
        sections.update(file.train or {})
        if file.metric is not None:
            sections["metric"] = file.metric
        if file.valid_dataset is not None:
            sections["valid_dataset"] = file.valid_dataset
        if file.dataset_graph is not None:
            sections["dataset_graph"] = file.dataset_graph
    if sections is None:
        return None
    fields = {name: sections[section].get(key) for name, (section, key) in FIELDS.items()}
    return MergedLineage(sections, fields, _hashable(sections["dataset_graph"]))


def _no_sections() -> dict[str, Mapping[str, JsonValue]]:
    return {name: {} for name in ("metric", *_TRAIN_SECTIONS, "valid_dataset", "dataset_graph", "user_defined")}


def _train_sections(train: TrainInfo) -> dict[str, dict[str, JsonValue]]:
    sections: dict[str, dict[str, JsonValue]] = {}
    for section, names in _TRAIN_SECTIONS.items():
        facts = {name: getattr(train, attribute) for name, attribute in names.items()}
        sections[section] = {
            name: shown_float32(fact) if isinstance(fact, float) else fact
            for name, fact in facts.items()
            if fact is not None
        }
    return sections


def _valid_dataset(evaluation: EvaluationInfo) -> dict[str, JsonValue] | None:
    facts = {name: getattr(evaluation, name) for name in _VALID_DATASET}
    return {name: fact for name, fact in facts.items() if fact is not None} or None


def _metric(path: str, text: str | None) -> dict[str, JsonValue] | None:
    if not text:
        return None if text is None else {}
    try:
        return parsed_metric(text)
    except ValueError as error:
        _LOG.warning("the metric in %s is left out: %s", path, error)
        return {}


def _hashable(value: JsonValue) -> Any:
    if isinstance(value, Mapping):
        return frozenset((key, _hashable(element)) for key, element in value.items())
    if isinstance(value, list):
        return tuple(_hashable(element) for element in value)
    return value
