"""Merge the lineage files of a run by the rules of MindInsight 2.3.1's reader.

From each file, the newest training, evaluation and dataset lineage counts, and all its custom data
in order. Files follow each other in time:

* A file with training or dataset lineage replaces everything before it.
* A file with only evaluation lineage is merged into the earlier content.
* A file with none of the three adds nothing.

Where a file would make MindInsight fail for every run (a metric that is not a JSON object, an
evaluation without a metric after one that had it), the run keeps the valid content. This module
reads no files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mindsummary_lightning.lineage.json_values import (
    JsonValue,
    dataset_graph_to_json,
    float32_to_json,
    for_a_browser,
    has_inexact_int,
    user_defined_to_json,
)
from mindsummary_lightning.values import DatasetGraph
from mindsummary_lightning.values.lineage_info import parsed_metric

# section -> name in the file
_CUSTOM = {"user_defined": "user_defined_info", "run_info": "run_info"}

# Fields of filter_summary_lineage, in the order it returns them: field -> (section, name in the
# section).
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
_SECTIONS = ("metric", "dataset_graph", *dict(FIELDS.values()), *_CUSTOM)
_NOTHING: Mapping[str, Mapping[str, JsonValue]] = {name: {} for name in _SECTIONS}


@dataclass(frozen=True, slots=True)
class ShownGraph:
    """A data pipeline as JSON; runs with the same pipeline share the object.

    Attributes:
        content: the JSON.
        key: a text that is the same for equal pipelines.
    """

    content: Mapping[str, JsonValue] = field(default_factory=dict)
    key: str = "{}"

    @classmethod
    def of(cls, graph: DatasetGraph) -> ShownGraph:
        """Convert the data pipeline of a lineage event to JSON."""
        content = dataset_graph_to_json(graph)
        return cls(content, json.dumps(content, sort_keys=True))


class FileLineage(NamedTuple):
    """The merged content of a lineage file.

    Attributes:
        sections: as of :class:`MergedLineage`; sections that the file does not contain are missing.
        starts_anew: whether the file contains training or dataset lineage.
        has_evaluation: whether the file contains evaluation lineage.
        is_damaged: whether the file is damaged, so that its whole content is ignored.
        graph: its data pipeline, or ``None``.
    """

    sections: Mapping[str, Mapping[str, JsonValue]]
    starts_anew: bool = False
    has_evaluation: bool = False
    is_damaged: bool = False
    graph: ShownGraph | None = None


class MergedLineage(NamedTuple):
    """The merged content of all lineage files of a run.

    Attributes:
        sections: name -> fields: ``metric``, ``hyper_parameters``, ``algorithm``,
            ``train_dataset``, ``model``, ``valid_dataset``, ``dataset_graph``, ``user_defined`` and
            ``run_info``; a section that was not recorded is empty.
        fields: every name of :data:`FIELDS` -> its value or ``None``.
        graph_key: a text that is the same for equal data pipelines.
        has_inexact_int: whether the custom data that MindInsight shows hold an int that a 64-bit
            float cannot hold exactly.
    """

    sections: Mapping[str, Mapping[str, JsonValue]]
    fields: Mapping[str, JsonValue]
    graph_key: str
    has_inexact_int: bool = False

    def for_a_browser(self) -> MergedLineage:
        """Return a copy in which ints that JavaScript would round are texts."""
        if not self.has_inexact_int:
            return self
        sections = dict(self.sections)
        sections["user_defined"] = for_a_browser(sections["user_defined"])
        return self._replace(sections=sections, has_inexact_int=False)


def lineage_of_file(
    contents: Iterable[tuple[str | None, Any]], on_problem: Callable[[str], None]
) -> FileLineage:
    """Merge the records of a lineage file.

    Args:
        contents: name and content of the records, in the order of the file.
        on_problem: called with a text about skipped content.
    """
    newest: dict[str | None, Any] = {}
    custom: dict[str, dict[str, JsonValue]] = {kind: {} for kind in _CUSTOM.values()}
    for kind, content in contents:
        if kind in custom:
            custom[kind].update(user_defined_to_json(content))
        else:
            newest[kind] = content
    evaluation, graph = newest.get("evaluation_lineage"), newest.get("dataset_graph")
    sections = {name: custom[kind] for name, kind in _CUSTOM.items()}
    for content in (newest.get("train_lineage"), evaluation):
        sections.update(_sections(content or {}))
    if evaluation is not None and "metric" in evaluation:
        sections["metric"] = _metric(evaluation["metric"], on_problem)
    if graph is not None:
        sections["dataset_graph"] = graph.content
    starts_anew = graph is not None or "train_lineage" in newest
    return FileLineage(sections, starts_anew, evaluation is not None, graph=graph)


def merge_files(files: Iterable[FileLineage]) -> MergedLineage | None:
    """Merge the contents of a run's lineage files, given oldest first.

    The result is ``None`` if the files hold no lineage.
    """
    sections: dict[str, Mapping[str, JsonValue]] | None = None
    graph = ShownGraph()
    for file in files:
        if not file.starts_anew and not file.has_evaluation:
            continue  # custom data alone: the reader ignores the file
        if sections is None or file.starts_anew:
            sections, graph = {**_NOTHING, **file.sections}, file.graph or ShownGraph()
        else:
            custom = {name: {**sections[name], **file.sections[name]} for name in _CUSTOM}
            sections = {**sections, **file.sections, **custom}
    if sections is None:
        return None
    fields = {name: sections[section].get(key) for name, (section, key) in FIELDS.items()}
    return MergedLineage(sections, fields, graph.key, has_inexact_int(sections["user_defined"]))


def _sections(content: Mapping[str, Any]) -> dict[str, dict[str, JsonValue]]:
    sections = {name: part for name, part in content.items() if isinstance(part, dict)}
    for part in sections.values():  # changed in place: they were decoded for this file alone
        for key, value in part.items():
            if isinstance(value, float):
                part[key] = float32_to_json(value)
    return sections


def _metric(text: str, on_problem: Callable[[str], None]) -> dict[str, JsonValue]:
    if not text:
        return {}
    try:
        return parsed_metric(text)
    except ValueError as error:
        on_problem(f"skipped a metric ({error})")
        return {}
