"""A lineage query over listed runs: which of them meet a condition, in which order, and the JSON of the answer.

The runs' files are read by ``cache``; ``conditions`` checks and explains what is searched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mindsummary_lightning.lineage.cache import LineageCache
from mindsummary_lightning.lineage.conditions import SearchCondition
from mindsummary_lightning.lineage.json_values import JsonValue
from mindsummary_lightning.lineage.merge import MergedLineage
from mindsummary_lightning.reading.run_tree import RunDirectory

CACHE = LineageCache()  # one for the process: servers and notebooks ask about the same runs again and again

_CUSTOMIZED = {"metric": True, "user_defined": False}  # section -> whether the lineage page shows its columns at first
_FIRST_MARK = 2  # 1 stands for "no mark" in MindInsight


def search_lineage(
    directories: Iterable[RunDirectory],
    condition: SearchCondition,
    added_info: Mapping[str, Mapping[str, JsonValue]] | None = None,
) -> dict[str, Any]:
    """The runs that meet a condition, as MindInsight 2.3.1 answers it.

    Args:
        directories: the runs, in the order in which data pipelines are numbered.
        condition: the condition.
        added_info: what users noted about runs, by ``summary_dir``: ``tag`` and ``remark``.

    Returns:
        ``customized``, ``object`` and ``count``, as :func:`~mindsummary_lightning.filter_summary_lineage` describes.
        What is inside belongs to the cache: copy it before you change it.
    """
    runs = [run for run in _runs(directories, added_info or {}) if condition.matches(run.value)]
    if condition.ordering is not None:
        runs = condition.ordering.sort(runs, _Run.value)
    shown = runs[condition.page]
    return {
        "customized": _customized(shown),
        "object": [_shown(run, condition.lineage_types) for run in shown],
        "count": len(runs),
    }


def run_info(directories: Iterable[RunDirectory]) -> dict[str, Mapping[str, JsonValue]]:
    """By ``summary_dir``, the custom data that MindInsight does not show: versions, precision, how the run ended."""
    return {run.summary_dir: run.lineage.sections["run_info"] for run in _runs(directories, {})}


@dataclass(frozen=True, slots=True)
class _Run:
    summary_dir: str
    update_time_us: int
    lineage: MergedLineage
    dataset_mark: str
    added_info: Mapping[str, JsonValue] = field(default_factory=dict)

    def value(self, field: str) -> JsonValue:
        """Value of a field; ``None`` if it was not recorded."""
        section, slash, name = field.partition("/")
        if slash:
            sections = self.lineage.sections
            return sections[section].get(name, sections["run_info"].get(name) if section == "user_defined" else None)
        if field == "summary_dir":
            return self.summary_dir
        if field == "dataset_mark":
            return self.dataset_mark
        if field == "tag":
            return self.added_info.get(field)
        return self.lineage.fields.get(field)


def _runs(directories: Iterable[RunDirectory], added_info: Mapping[str, Mapping[str, JsonValue]]) -> list[_Run]:
    """The runs that hold lineage, last updated first."""
    marks: dict[str, str] = {}
    runs: list[_Run] = []
    for directory in directories:
        lineage = CACHE.lineage(directory.path, directory.files)
        if lineage is not None:
            # MindInsight gives the mark 10 to all pipelines from the ninth on; here they are numbered on.
            mark = marks.setdefault(lineage.graph_key, str(_FIRST_MARK + len(marks)))
            added = added_info.get(directory.summary_dir, {})
            runs.append(_Run(directory.summary_dir, directory.update_time_us, lineage, mark, added))
    return sorted(runs, key=lambda run: run.update_time_us, reverse=True)


def _shown(run: _Run, lineage_types: Sequence[str]) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    sections = run.lineage.sections
    if "model" in lineage_types:
        shown["summary_dir"] = run.summary_dir
        shown["model_lineage"] = {
            **run.lineage.fields,
            "dataset_mark": run.dataset_mark,
            "metric": sections["metric"],
            "user_defined": sections["user_defined"],
        }
    if "dataset" in lineage_types:
        shown["summary_dir"] = run.summary_dir
        shown["dataset_graph"] = sections["dataset_graph"]
    shown["added_info"] = run.added_info
    return shown


def _customized(runs: list[_Run]) -> dict[str, dict[str, Any]]:
    types: dict[str, set[str]] = {}
    for run in runs:
        for section in _CUSTOMIZED:
            for name, value in run.lineage.sections[section].items():
                types.setdefault(f"{section}/{name}", set()).add(type(value).__name__)
    return {
        label: {"label": label, "required": _CUSTOMIZED[label.partition("/")[0]], "type": _common_type(names)}
        for label, names in types.items()
    }


def _common_type(names: set[str]) -> str:
    if len(names) == 1:
        return next(iter(names))
    return "float" if names == {"int", "float"} else "mixed"
