"""Merging of a run's lineage files, by the rules of MindInsight 2.3.1's reader.

Of each file the newest training, evaluation and dataset lineage counts, and all its custom data in order. Files follow
each other in time: one with training or dataset lineage replaces everything before it, one with evaluation lineage
alone is merged into what came before, and one with none of the three adds nothing. Where a file would make MindInsight
fail for every run (a metric that is not a JSON object, an evaluation without a metric after one that had it), the run
keeps what is valid. No files are read here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mindsummary_lightning.lineage.json_values import (
    JsonValue,
    dataset_graph_to_json,
    float32_to_json,
    user_defined_to_json,
)
from mindsummary_lightning.values import DatasetGraph, EvaluationInfo, LineageEvent, RunInfo, TrainInfo, UserDefinedInfo
from mindsummary_lightning.values.lineage_info import parsed_metric

__all__ = ["FIELDS", "FileLineage", "MergedLineage", "lineage_of_file", "merge_files"]

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
    """The content of one lineage file, as the reader shows it; ``None`` is what the file does not contain.

    Attributes:
        train: the sections ``hyper_parameters``, ``algorithm``, ``train_dataset`` and ``model``.
        has_evaluation: whether the file contains evaluation lineage at all.
        metric: metrics of the evaluation.
        valid_dataset: path and size of the evaluation data.
        dataset_graph: the data pipeline.
        user_defined: custom data; later values of a key win.
        run_info: custom data that MindInsight does not show.
    """

    train: Mapping[str, Mapping[str, JsonValue]] | None = None
    has_evaluation: bool = False
    metric: Mapping[str, JsonValue] | None = None
    valid_dataset: Mapping[str, JsonValue] | None = None
    dataset_graph: Mapping[str, JsonValue] | None = None
    user_defined: Mapping[str, JsonValue] = field(default_factory=dict)
    run_info: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MergedLineage:
    """The merged content of all lineage files of a run.

    Attributes:
        sections: name -> fields: ``metric``, ``hyper_parameters``, ``algorithm``, ``train_dataset``, ``model``,
            ``valid_dataset``, ``dataset_graph``, ``user_defined`` and ``run_info``; one that was not recorded is empty.
        fields: every name of :data:`FIELDS` -> its value or ``None``.
        graph_key: the same text for equal data pipelines.
    """

    sections: Mapping[str, Mapping[str, JsonValue]]
    fields: Mapping[str, JsonValue]
    graph_key: str


def lineage_of_file(events: Iterable[LineageEvent], on_problem: Callable[[str], None]) -> FileLineage:
    """The content of one file.

    Args:
        events: its records in order.
        on_problem: called with a description of what had to be skipped.
    """
    newest: dict[type, Any] = {}
    custom: dict[type, dict[str, JsonValue]] = {UserDefinedInfo: {}, RunInfo: {}}
    for event in events:
        if isinstance(event.what, UserDefinedInfo):
            custom[type(event.what)].update(user_defined_to_json(event.what.values))
        else:
            newest[type(event.what)] = event.what
    train: TrainInfo | None = newest.get(TrainInfo)
    evaluation: EvaluationInfo | None = newest.get(EvaluationInfo)
    graph: DatasetGraph | None = newest.get(DatasetGraph)
    return FileLineage(
        train=None if train is None else _train_sections(train),
        has_evaluation=evaluation is not None,
        metric=None if evaluation is None else _metric(evaluation.metric, on_problem),
        valid_dataset=None if evaluation is None else _valid_dataset(evaluation),
        dataset_graph=None if graph is None else dataset_graph_to_json(graph),
        user_defined=custom[UserDefinedInfo],
        run_info=custom[RunInfo],
    )


def merge_files(files: Iterable[FileLineage]) -> MergedLineage | None:
    """The merged lineage of a run's files, or ``None`` if none of them contains any.

    Args:
        files: in the reader's order, oldest first.
    """
    sections: dict[str, Mapping[str, JsonValue]] | None = None
    for file in files:
        replaces = file.train is not None or file.dataset_graph is not None
        if not replaces and not file.has_evaluation:
            continue  # custom data alone: the reader ignores the file
        if sections is None or replaces:
            sections = _no_sections()
        sections["user_defined"] = {**sections["user_defined"], **file.user_defined}
        sections["run_info"] = {**sections["run_info"], **file.run_info}
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
    return MergedLineage(sections, fields, json.dumps(sections["dataset_graph"], sort_keys=True))


def _no_sections() -> dict[str, Mapping[str, JsonValue]]:
    others = ("metric", "valid_dataset", "dataset_graph", "user_defined", "run_info")
    return {name: {} for name in (*_TRAIN_SECTIONS, *others)}


def _train_sections(train: TrainInfo) -> dict[str, dict[str, JsonValue]]:
    sections: dict[str, dict[str, JsonValue]] = {}
    for section, names in _TRAIN_SECTIONS.items():
        values = {name: getattr(train, attribute) for name, attribute in names.items()}
        sections[section] = {
            name: float32_to_json(value) if isinstance(value, float) else value
            for name, value in values.items()
            if value is not None
        }
    return sections


def _valid_dataset(evaluation: EvaluationInfo) -> dict[str, JsonValue] | None:
    values = {name: getattr(evaluation, name) for name in _VALID_DATASET}
    return {name: value for name, value in values.items() if value is not None} or None


def _metric(text: str | None, on_problem: Callable[[str], None]) -> dict[str, JsonValue] | None:
    if not text:
        return None if text is None else {}
    try:
        return parsed_metric(text)
    except ValueError as error:
        on_problem(f"skipped a metric ({error})")
        return {}
