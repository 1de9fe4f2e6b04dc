"""Query the lineage (settings and results) of a run or of all runs in a directory.

``get_summary_lineage`` is the function that MindInsight had up to version 0.7.
``filter_summary_lineage`` answers like MindInsight 2.3.1, with JSON of the same structure. Neither
needs a server, torch or MindInsight.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, TypedDict

from mindsummary_lightning.errors import (
    LineageFileNotFoundError,
    LineageParamSummaryPathError,
    LineageParamTypeError,
    LineageParamValueError,
    LineageQuerySummaryDataError,
)
from mindsummary_lightning.lineage.conditions import parse_condition
from mindsummary_lightning.lineage.search import CACHE, search_lineage
from mindsummary_lightning.reading.run_tree import list_train_jobs
from mindsummary_lightning.values.text import listed

_LOG = logging.getLogger(__name__)


class LineageOfRun(TypedDict):
    """The lineage of a run in a query's answer; ``lineage_type`` may exclude parts."""

    summary_dir: str
    model_lineage: dict[str, Any]
    dataset_graph: dict[str, Any]
    added_info: dict[str, Any]


class LineageAnswer(TypedDict):
    """The result of :func:`filter_summary_lineage`: runs, their number, value types."""

    customized: dict[str, Any]
    object: list[LineageOfRun]
    count: int


_KEYS = (
    "metric",
    "hyper_parameters",
    "algorithm",
    "train_dataset",
    "model",
    "valid_dataset",
    "dataset_graph",
)


def get_summary_lineage(
    summary_dir: str | os.PathLike[str], keys: list[str] | None = None
) -> dict[str, Any]:
    """Return the lineage of a run: metrics, settings, data sets and data pipeline.

    Args:
        summary_dir: the run directory.
        keys: parts to return, out of ``metric``, ``hyper_parameters``, ``algorithm``,
            ``train_dataset``, ``model``, ``valid_dataset`` and ``dataset_graph``; ``None`` returns
            all of them.

    Returns:
        ``{"summary_dir": the directory's real path, key: {name: value}, ...}``. It has recorded
        values only; a part that was not recorded is empty. ``{}`` if no file of the run holds
        readable lineage; a damaged file is skipped with a warning.

    Raises:
        LineageParamSummaryPathError: ``summary_dir`` is not a path, is empty, or is not a
            directory.
        LineageFileNotFoundError: the directory does not contain a lineage file.
        LineageParamTypeError: ``keys`` is not a list of str, or ``summary_dir`` is None.
        LineageParamValueError: a key is unknown.
        LineageQuerySummaryDataError: the directory cannot be listed.

    Example:
        >>> get_summary_lineage("/runs/run1", keys=["metric"])  # doctest: +SKIP
        {'summary_dir': '/runs/run1', 'metric': {'accuracy': 0.97}}
    """
    wanted = _checked_keys(keys)
    directory = _real_path("summary_dir", summary_dir)
    try:
        runs = list_train_jobs(directory, max_depth=0)
    except OSError as error:
        raise LineageQuerySummaryDataError(
            f"the run directory {directory} cannot be listed: {error}"
        ) from error
    if not runs:
        raise LineageFileNotFoundError(
            f"{directory} does not contain a lineage file (a name ending in '_lineage')"
        )
    (lineage,) = CACHE.lineages([(directory, runs[0].files)])
    if lineage is None:
        return {}
    answer: dict[str, Any] = {"summary_dir": directory}
    for key in wanted:
        answer[key] = deepcopy(lineage.sections[key])
    return answer


def filter_summary_lineage(
    summary_base_dir: str | os.PathLike[str],
    search_condition: Mapping[str, Any] | None = None,
    *,
    recursive: bool = False,
) -> LineageAnswer:
    """Return the lineage of all runs in a directory that meet a search condition.

    Runs are the directory itself and its direct children, as in MindInsight, if they contain a
    lineage file; symbolic links are not followed. A file that has not changed since this process
    last read it is not read again.

    Args:
        summary_base_dir: the directory.
        search_condition: a dict that the runs must meet in all its entries; ``None`` finds every
            run. An entry is a test, ``field: {operator: value}``, or one of the settings below. A
            run without a value of the field does not match ``lt``, ``gt``, ``le`` and ``ge``.

            * Text fields, with the operators ``eq``, ``in`` and ``not_in``: ``summary_dir``
              (``./run1`` or an absolute path), ``loss_function``, ``train_dataset_path``,
              ``test_dataset_path``, ``network``, ``optimizer``, ``dataset_mark``.
            * Whole numbers from 0, also with ``lt``, ``gt``, ``le`` and ``ge``:
              ``train_dataset_count``, ``test_dataset_count``, ``epoch``, ``batch_size``,
              ``device_num``, ``model_size`` (bytes).
            * Numbers, with all operators but ``not_in``: ``learning_rate``, ``loss``,
              ``metric/<name>`` or ``metric_<name>``.
            * Statistics of a scalar, likewise numbers: ``last:<tag>``, ``min:<tag>``,
              ``max:<tag>`` (the last, the smallest finite and the largest finite value) and
              ``best_step:<tag>``. Summary files are read for them.
            * Any value, with all operators: ``user_defined/<name>``.
            * ``sorted_name``: the field to sort by; ``sorted_type``: ``ascending`` (also for None)
              or ``descending``. A missing value is the lowest. Without them, the run updated last
              comes first.
            * ``limit``: runs on a page, 1..100 (10 if only ``offset`` is given); ``offset``:
              number of the page, 0..100000. Without them, all runs are returned.
            * ``lineage_type``: ``{"eq": part}`` or ``{"in": [part, ...]}`` of ``model`` and
              ``dataset``: the parts to return; both by default.
        recursive: take runs at any depth, as ``mindsummary lineage`` does. Without it, a warning
            is logged if all runs are deeper.

    Returns:
        ``{"customized": ..., "object": [...], "count": n}``: three entries. The caller owns them.

        * ``object``: a dict per run, with ``summary_dir`` (``./run1``), ``model_lineage`` (every
          field, ``None`` if not recorded, and the dicts ``metric`` and ``user_defined``),
          ``dataset_graph`` and ``added_info`` (empty without a server).
        * ``count``: the number of runs found before paging.
        * ``customized``: the type of each ``metric/<name>`` and ``user_defined/<name>`` of the page
          (``int``, ``float``, ``str``, ``dict``, ``bool``, ... or ``mixed``).

    Raises:
        LineageSearchConditionParamError: the condition is refused.
        LineageParamSummaryPathError: ``summary_base_dir`` is not a path, is empty, or is not a
            directory.
        LineageParamTypeError: ``summary_base_dir`` is None.
        LineageQuerySummaryDataError: the directory exists but cannot be listed.

    Example:
        >>> condition = {"metric/accuracy": {"gt": 0.9}, "sorted_name": "loss", "limit": 3}
        >>> filter_summary_lineage("/runs", condition)["count"]  # doctest: +SKIP
        12
    """
    base = _real_path("summary_base_dir", summary_base_dir)
    condition = parse_condition({} if search_condition is None else search_condition, base)
    try:
        directories = list_train_jobs(base, None if recursive else 1)
        if not directories and not recursive:
            _warn_of_deeper_runs(base)
    except OSError as error:
        raise LineageQuerySummaryDataError(
            f"the directory {base} cannot be listed: {error}"
        ) from error
    answer = search_lineage(directories, condition)
    # Run by run: what runs share in the cache, such as a data pipeline, they must not share in the
    # caller's hands.
    runs = [deepcopy(run) for run in answer["object"]]
    return {"customized": answer["customized"], "object": runs, "count": answer["count"]}


def _warn_of_deeper_runs(base: str) -> None:
    deeper = [run.summary_dir.removeprefix("./") for run in list_train_jobs(base, None)]
    if deeper:
        text = (
            "no run is directly in %s, but these runs are deeper: %s. Pass recursive=True, or the "
            "directory above one of these runs"
        )
        _LOG.warning(text, base, listed(deeper, 5))


def _checked_keys(keys: object) -> list[str]:
    if keys is None:
        return list(_KEYS)
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise LineageParamTypeError(f"keys must be a list of str or None, not {keys!r}")
    for key in keys:
        if key not in _KEYS:
            raise LineageParamValueError(f"each key must be one of {', '.join(_KEYS)}, not {key!r}")
    return keys


def _real_path(name: str, path: object) -> str:
    if path is None:
        raise LineageParamTypeError(f"{name} must be the path of a directory, not None")
    if not isinstance(path, (str, os.PathLike)):
        raise LineageParamSummaryPathError(f"{name} must be the path of a directory, not {path!r}")
    text = os.fspath(path)
    if not isinstance(text, str) or not text or "\0" in text:
        raise LineageParamSummaryPathError(
            f"{name} must be the path of a directory, as a str, not {path!r}"
        )
    if not os.path.isdir(text):
        where = "" if os.path.isabs(text) else f" (the working directory is {os.getcwd()})"
        raise LineageParamSummaryPathError(f"{name} {text!r} is not a directory{where}")
    return os.path.realpath(text)
