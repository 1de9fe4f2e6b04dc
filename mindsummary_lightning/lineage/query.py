"""Queries over the lineage of recorded runs: one run in full, or all runs of a directory filtered, sorted and paged.

``get_summary_lineage`` is the function MindInsight had up to 0.7; ``filter_summary_lineage`` answers like MindInsight
2.3.1, as JSON of the same shape. Neither needs a server, torch or MindInsight. ``run_listing`` finds the files,
``run_cache`` reads them, ``conditions`` understands what is searched.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from mindsummary_lightning.errors import (
    LineageFileNotFoundError,
    LineageParamSummaryPathError,
    LineageParamTypeError,
    LineageParamValueError,
    LineageQuerySummaryDataError,
)
from mindsummary_lightning.lineage.cache import RunCache
from mindsummary_lightning.lineage.conditions import SearchCondition, searched_for
from mindsummary_lightning.lineage.json_values import JsonValue, unshared
from mindsummary_lightning.lineage.merge import MergedLineage
from mindsummary_lightning.reading.summary_base_dir import lineage_file_states, list_train_jobs

__all__ = ["filter_summary_lineage", "get_summary_lineage"]

_KEYS = ("metric", "hyper_parameters", "algorithm", "train_dataset", "model", "valid_dataset", "dataset_graph")
_CUSTOMIZED = {"metric": True, "user_defined": False}  # section -> whether the lineage page shows its columns at once
_FIRST_MARK = 2  # 1 stands for "no mark" in MindInsight

_RUNS = RunCache()


def get_summary_lineage(summary_dir: str | os.PathLike[str], keys: list[str] | None = None) -> dict[str, Any]:
    """The lineage of one run.

    Args:
        summary_dir: the run directory, as an absolute path without ``..``.
        keys: parts to return, out of ``metric``, ``hyper_parameters``, ``algorithm``, ``train_dataset``, ``model``,
            ``valid_dataset`` and ``dataset_graph``; ``None`` is all of them.

    Returns:
        ``{"summary_dir": the directory's real path, key: {name: value}, ...}``. Only what was recorded appears; a part
        nobody recorded is empty. ``{}`` if no file of the run holds lineage that can be read; a damaged file is left
        out with a warning in the log.

    Raises:
        LineageParamSummaryPathError: ``summary_dir`` is no path, empty, relative, holds ``..``, or is no directory.
        LineageFileNotFoundError: the directory holds no lineage file.
        LineageParamTypeError: ``keys`` is no list of str, or ``summary_dir`` is None.
        LineageParamValueError: an unknown key.
        LineageQuerySummaryDataError: the directory cannot be listed.

    Example:
        >>> get_summary_lineage("/runs/run1", keys=["metric"])  # doctest: +SKIP
        {'summary_dir': '/runs/run1', 'metric': {'accuracy': 0.97}}
    """
    wanted = _checked_keys(keys)
    directory = _real_path("summary_dir", summary_dir)
    if not os.path.isabs(summary_dir) or not os.path.isdir(directory):
        problem = "is no directory" if os.path.isabs(summary_dir) else "must be an absolute path (os.path.abspath)"
        raise LineageParamSummaryPathError(f"summary_dir {problem}: {os.fspath(summary_dir)!r}")
    try:
        files = lineage_file_states(directory)
    except OSError as error:
        raise LineageQuerySummaryDataError(f"the run directory {directory} cannot be listed: {error}") from error
    if not files:
        raise LineageFileNotFoundError(f"no lineage file (a name ending in '_lineage') lies in {directory}")
    lineage = _RUNS.lineage(directory, files)
    if lineage is None:
        return {}
    return {"summary_dir": directory, **{key: unshared(lineage.sections[key]) for key in wanted}}


def filter_summary_lineage(
    summary_base_dir: str | os.PathLike[str], search_condition: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The lineage of all runs under a directory that meet a condition.

    Runs are the directory itself and its direct children, if they hold a lineage file; a child that is a symbolic link
    is none. Files that did not change since this process last read them are not read again.

    Args:
        summary_base_dir: the directory, without ``..``; one that does not exist holds no run.
        search_condition: what to find, all of it at once; ``None`` finds every run.

            * a field -> ``{operator: value}``. Operators are ``eq``, ``lt``, ``gt``, ``le``, ``ge``, ``in`` and
              ``not_in``. Text fields (``eq``, ``in``, ``not_in`` only): ``summary_dir`` (``./run1`` or an absolute
              path), ``loss_function``, ``train_dataset_path``, ``test_dataset_path``, ``network``, ``optimizer``,
              ``dataset_mark``. Whole numbers from 0: ``train_dataset_count``, ``test_dataset_count``, ``epoch``,
              ``batch_size``, ``device_num``, ``model_size`` (bytes). Numbers (no ``not_in``): ``learning_rate``,
              ``loss``, ``metric/<name>`` or ``metric_<name>``. Anything: ``user_defined/<name>``. A run without the
              value does not match an order.
            * ``sorted_name``: a field; ``sorted_type``: ``ascending`` (also for None) or ``descending``. No value sorts
              lowest. Without them, the run updated last comes first.
            * ``limit``: runs on a page, 1..100 (10 if only ``offset`` is given); ``offset``: number of the page,
              0..100000. Without them, everything is returned.
            * ``lineage_type``: ``{"eq": part}`` or ``{"in": [part, ...]}`` of ``model`` and ``dataset``: parts to
              return; both by default.

    Returns:
        ``{"customized": ..., "object": [...], "count": n}``: ``object`` holds a dict a run, with ``summary_dir``
        (``./run1``), ``model_lineage`` (every field, ``None`` if not recorded, and the dicts ``metric`` and
        ``user_defined``), ``dataset_graph`` and ``added_info`` (empty without a server); ``count`` is the number of
        runs found before paging; ``customized`` says for each ``metric/<name>`` and ``user_defined/<name>`` of the page
        its type (``int``, ``float``, ``str``, ``dict``, ``bool``, ... or ``mixed``). The caller owns the result.

    Raises:
        LineageSearchConditionParamError: the condition is refused.
        LineageParamSummaryPathError: ``summary_base_dir`` is no path, empty, or holds ``..``.
        LineageParamTypeError: ``summary_base_dir`` is None.
        LineageQuerySummaryDataError: the directory is there but cannot be listed.

    Example:
        >>> condition = {"metric/accuracy": {"gt": 0.9}, "sorted_name": "loss", "limit": 3}
        >>> filter_summary_lineage("/runs", condition)["count"]  # doctest: +SKIP
        12
    """
    base = _real_path("summary_base_dir", summary_base_dir)
    condition = searched_for({} if search_condition is None else search_condition, base)
    runs = [run for run in _lineage_under(base) if condition.holds(run.value)]
    if condition.ordering is not None:
        runs = condition.ordering.arranged(runs, _Run.value)
    page = condition.page
    shown = runs if page is None else runs[page.offset * page.limit : (page.offset + 1) * page.limit]
    return {
        "customized": _customized(shown),
        "object": [_shown(run, condition) for run in shown],
        "count": len(runs),
    }


@dataclass(frozen=True, slots=True)
class _Run:
    """A run as a query sees it."""

    summary_dir: str
    update_time_us: int
    lineage: MergedLineage
    dataset_mark: str

    def value(self, field: str) -> JsonValue:
        """Value of a field; ``None`` if it was not recorded."""
        section, slash, name = field.partition("/")
        if slash:
            return self.lineage.sections[section].get(name)
        if field == "summary_dir":
            return self.summary_dir
        if field == "dataset_mark":
            return self.dataset_mark
        return self.lineage.fields.get(field)  # ``tag``, which only a server knows, is None


def _lineage_under(base: str) -> list[_Run]:
    """The runs under a directory, last updated first."""
    try:
        directories = list_train_jobs(base)
    except OSError as error:
        raise LineageQuerySummaryDataError(f"the directory {base} cannot be listed: {error}") from error
    marks: dict[Any, str] = {}
    runs: list[_Run] = []
    for directory in directories:
        lineage = _RUNS.lineage(directory.path, directory.files)
        if lineage is not None:
            # Marks go by the listing, which orders by whole seconds; MindInsight gives all from the ninth pipeline on
            # the mark 10, here they go on counting.
            mark = marks.setdefault(lineage.graph_key, str(_FIRST_MARK + len(marks)))
            runs.append(_Run(directory.summary_dir, directory.update_time_us, lineage, mark))
    return sorted(runs, key=lambda run: run.update_time_us, reverse=True)


def _shown(run: _Run, condition: SearchCondition) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    sections = run.lineage.sections
    if "model" in condition.lineage_types:
        shown["summary_dir"] = run.summary_dir
        shown["model_lineage"] = {
            **run.lineage.fields,
            "dataset_mark": run.dataset_mark,
            "metric": unshared(sections["metric"]),
            "user_defined": unshared(sections["user_defined"]),
        }
    if "dataset" in condition.lineage_types:
        shown["summary_dir"] = run.summary_dir
        shown["dataset_graph"] = unshared(sections["dataset_graph"])
    shown["added_info"] = {}
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


def _checked_keys(keys: object) -> list[str]:
    if keys is None:
        return list(_KEYS)
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise LineageParamTypeError(f"keys must be a list of str or None, not {keys!r}")
    for key in keys:
        if key not in _KEYS:
            raise LineageParamValueError(f"keys must be out of {', '.join(_KEYS)}, not {key!r}")
    return keys


def _real_path(name: str, path: object) -> str:
    if path is None:
        raise LineageParamTypeError(f"{name} must be the path of a directory, not None")
    if not isinstance(path, (str, os.PathLike)):
        raise LineageParamSummaryPathError(f"{name} must be the path of a directory, not {path!r}")
    text = os.fspath(path)
    if not isinstance(text, str) or not text or "\0" in text:
        raise LineageParamSummaryPathError(f"{name} must be the path of a directory, as a str, not {path!r}")
    if ".." in text.split("/"):
        raise LineageParamSummaryPathError(f"{name} must not hold '..' (os.path.abspath takes it out): {text!r}")
    return os.path.realpath(text)
