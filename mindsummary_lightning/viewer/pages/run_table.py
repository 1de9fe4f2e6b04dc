"""Endpoints of the table of runs: its rows, and the curves of the visible rows.

Rows come from the directory listing and the lineage files, so ten thousand runs are listed without
opening a summary file. Steps and the curve of the loss need the summary files, which are read for a
few rows at a time.
"""

from __future__ import annotations

import functools
import gc
import itertools
import math
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.fileformat.file_names import is_graph_name, timestamp_of
from mindsummary_lightning.lineage.json_values import for_a_browser
from mindsummary_lightning.lineage.merge import MergedLineage
from mindsummary_lightning.lineage.run_rows import join_old_metrics, lineage_cells
from mindsummary_lightning.lineage.scalar_statistics import statistics_of
from mindsummary_lightning.lineage.search import CACHE, READING, TOGETHER, reading
from mindsummary_lightning.reading.followed_run import FollowedRun
from mindsummary_lightning.reading.run_names import names_of_ids
from mindsummary_lightning.reading.run_status import GROWING_S, run_status
from mindsummary_lightning.reading.run_tree import SETTLED_S, FileState, ListedRun
from mindsummary_lightning.reading.scalar_summaries import duration_s, is_diverged, seconds_per_step
from mindsummary_lightning.values.lineage_info import EXACT_MAX
from mindsummary_lightning.values.statistics_columns import STATISTICS_TAG
from mindsummary_lightning.values.step_chain import OUTPUT_STATISTICS_TAG
from mindsummary_lightning.viewer.api import WRONG_VALUE, ApiError, ApiRequest
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from mindsummary_lightning.viewer.remarks import remarks_of

_MAX_CURVES = 500  # in a request
_MAX_TAGS = 50  # that are asked for, likewise
# for lineage that is not known yet, in the first answer and in later ones
_FIRST_ROWS_S, _MORE_ROWS_S = 0.1, 5.0
_CURVES_LIMIT_S = 1.0  # the page asks again for those that were not reached
_LINE_POINTS = 48
_STATISTICS = frozenset(
    {STATISTICS_TAG, OUTPUT_STATISTICS_TAG}
)  # tags of which a page of our own tells
_LINES = 36  # colours and dashes of curves that static/table/colours.js tells apart
_REMARK = "remark"  # column of what users noted on the lineage page
_LOSSES = ("loss", "train_loss", "train/loss", "loss/auto", "train_loss_epoch", "train_loss_step")

# A run, the state of its lineage files (None: they are still to be read), and what they say, by
# column.
_Row: TypeAlias = "tuple[ListedRun, dict[str, FileState] | None, dict[str, Any]]"


@dataclass(frozen=True, slots=True)
class KnownFacts:
    """Steps, loss and other facts from the summary files of a run, as last read.

    Attributes:
        listed: the run, as it was listed then.
        facts: the answer of :func:`facts_of`.
        read_at: time of the reading, seconds of :attr:`LoadedRuns.clock`.
    """

    listed: ListedRun
    facts: Mapping[str, Any]
    read_at: float


@dataclass(slots=True)
class RunTable:
    """The rows of the table of runs; rows of unchanged runs are kept between requests."""

    # of the runs of the newest listing; so are the curves
    rows: dict[str, _Row] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)  # of the runs in every table, by train id
    answer: dict[str, Any] = field(default_factory=dict)
    curves: dict[str, tuple[float, dict[str, Any]]] = field(default_factory=dict)
    facts: dict[str, KnownFacts] = field(default_factory=dict)
    remarks: dict[str, str] = field(default_factory=dict)  # that the rows hold
    # of rows, for searches
    texts: dict[str, tuple[Mapping[str, Any], str]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


@functools.lru_cache(maxsize=8)
def table_of(base_dir: str) -> RunTable:
    """Return the table of the runs in a directory; all requests share it."""
    return RunTable()


def run_table(runs: LoadedRuns, request: ApiRequest) -> dict[str, Any]:
    """Answer with the rows of the table of runs, by column.

    If all runs have the same value in a column, the answer holds the value once. ``unread`` counts
    the runs whose lineage could not be read in time. The page asks again for them.
    """
    table = table_of(runs.base_dir)
    limit_s = _MORE_ROWS_S if table.rows else _FIRST_ROWS_S
    with table.lock, reading(limit_s):
        files_of = {run.summary_dir: run.files for run in runs.run_directories()}
        rows = _known_rows(runs, table, files_of)
        _read_changed(runs, rows, files_of, limit_s)
        _note_remarks(runs, table, rows)
        if not table.answer or list(map(id, rows.values())) != list(map(id, table.rows.values())):
            _make_answer(runs, table, rows)
        return table.answer


def _known_rows(
    runs: LoadedRuns, table: RunTable, files_of: Mapping[str, dict[str, FileState]]
) -> dict[str, _Row]:
    """Return the kept rows; rows of runs that changed are marked for reading."""
    rows: dict[str, _Row] = {}
    for listed in runs.listing():
        files = files_of.get(listed.train_id, {})
        row = table.rows.get(listed.train_id)
        if row is None or row[0] != listed or row[1] != files:
            row = (listed, None, {} if row is None else row[2])
        elif row[2].get("status") == "running":
            row = _with_status_now(row)
        rows[listed.train_id] = row
    return rows


def _read_changed(
    runs: LoadedRuns,
    rows: dict[str, _Row],
    files_of: Mapping[str, dict[str, FileState]],
    limit_s: float,
) -> None:
    """Read the lineage of changed runs into their rows, until the time limit."""
    changed = [
        (row[0], files_of.get(train_id, {})) for train_id, row in rows.items() if row[1] is None
    ]
    end = runs.clock() + limit_s
    while changed:
        some, changed = changed[:TOGETHER], changed[TOGETHER:] if runs.clock() <= end else []
        lineages = CACHE.lineages([(listed.path, files) for listed, files in some])
        for (listed, files), lineage in zip(some, lineages, strict=True):
            rows[listed.train_id] = (listed, files, _cells(listed, lineage))


def _note_remarks(runs: LoadedRuns, table: RunTable, rows: dict[str, _Row]) -> None:
    """Put the users' remarks into the rows.

    A setting named ``remark`` has another column.
    """
    noted = remarks_of(runs.base_dir).all()
    texts = {train_id: str(of.get(_REMARK) or "") for train_id, of in noted.items()}
    for train_id in {*texts, *table.remarks} & rows.keys():
        listed, files, cells = rows[train_id]
        text = texts.get(train_id, "")
        if cells.get(_REMARK, "") == text:
            continue
        others = {name: value for name, value in cells.items() if name != _REMARK}
        rows[train_id] = (listed, files, {**others, **({_REMARK: text} if text else {})})
    table.remarks = {train_id: text for train_id, text in texts.items() if text}


def _make_answer(runs: LoadedRuns, table: RunTable, rows: dict[str, _Row]) -> None:
    """Build the answer from the rows, and forget runs that no longer exist."""
    join_old_metrics([row[2] for row in rows.values()])
    table.rows = rows
    for known in (table.curves, table.facts, table.texts):
        for train_id in known.keys() - rows.keys():
            del known[train_id]
    unread = sum(row[1] is None for row in rows.values())
    table.names = dict(zip(rows, names_of_ids(list(rows), runs.base_dir), strict=True))
    # a browser makes the usual names: those of 10,000 runs are a seventh of the answer
    other = {one: name for one, name in table.names.items() if name != one.removeprefix("./")}
    columns = _columns(list(rows.values()))
    table.answer = {"name": runs.name, "unread": unread, "other_names": other, **columns}


def read_lineage(runs: LoadedRuns) -> None:
    """Read the lineage of all runs in advance, and build the rows of the table.

    It waits while a page reads lineage.
    """
    gc.disable()  # it would look at everything that was read, again and again
    try:
        directories = [(directory.path, directory.files) for directory in runs.run_directories()]
        for at in range(0, len(directories), TOGETHER):
            with READING:
                pass
            CACHE.lineages(directories[at : at + TOGETHER])
        while run_table(runs, ApiRequest())["unread"]:
            pass
    finally:
        gc.freeze()  # what was read stays until the end
        gc.enable()
    time.sleep(SETTLED_S)
    # of thousands of runs this takes long: the directories need not be listed at the next look
    runs.scan_again()


def _columns(rows: Sequence[_Row]) -> dict[str, Any]:
    cells = [row[2] for row in rows]
    same, columns = {}, {}
    for name in dict.fromkeys(itertools.chain.from_iterable(cells)):
        values = [row.get(name) for row in cells]
        if len(values) > 1 and all(value == values[0] for value in values):
            (same[name],) = _for_a_browser(values[:1])
        else:
            columns[name] = _for_a_browser(values)
    runs = [row[0] for row in rows]
    return {
        "train_ids": [run.train_id for run in runs],
        "written": [round(run.update_time_us / 1e6, 2) for run in runs],  # seconds
        "lines": _lines(runs),
        "columns": columns,
        "same": same,
    }


def _lines(runs: Sequence[ListedRun]) -> list[int]:
    """Number the curves of the runs, 0 to 35, in the order in which the runs began.

    A new run comes last, so it changes no other number. Among runs that began in the same second, a
    shorter name comes first: version_2 before version_10. The number selects colour and dashes.
    """
    keys = [(_began_s(run), len(run.train_id), run.train_id) for run in runs]
    order = sorted(range(len(runs)), key=keys.__getitem__)
    numbers = [0] * len(runs)
    for number, place in enumerate(order):
        numbers[place] = number % _LINES
    return numbers


def _began_s(run: ListedRun) -> float:
    """Return the Unix time in the name of a run's oldest lineage file, seconds.

    A run without lineage files has the time of its newest file.
    """
    oldest = timestamp_of(run.lineage_names[0]) if run.lineage_names else None
    return run.create_time_s if oldest is None else oldest


def _for_a_browser(values: list[Any]) -> list[Any]:
    integers = [value for value in values if type(value) is int] if _has_integers(values) else []
    has_inexact = any(abs(value) > EXACT_MAX for value in integers)
    converted: list[Any] = for_a_browser(values) if has_inexact else values
    return converted


def _has_integers(values: list[Any]) -> bool:
    return int in set(map(type, values))  # in C: most columns have none


def curves(runs: LoadedRuns, request: ApiRequest) -> dict[str, Any]:
    """Answer with steps, loss and requested scalars of the runs read within a second.

    The first run is read in any case.
    """
    try:
        body = request.json()
        train_ids, tags = body["train_ids"][:_MAX_CURVES], body.get("tags", [])[:_MAX_TAGS]
    except (ApiError, TypeError, KeyError, AttributeError):
        raise ApiError(
            WRONG_VALUE, 'the request body must be {"train_ids": [...], "tags": [...]}'
        ) from None
    started = runs.clock()
    answer: dict[str, dict[str, Any]] = {}
    for train_id in train_ids:
        if answer and runs.clock() - started > _CURVES_LIMIT_S:
            break
        listed = runs.find(train_id) if isinstance(train_id, str) else None
        answer[str(train_id)] = {} if listed is None else facts_of(runs, listed, tags)
    return {"curves": answer}


def _cells(listed: ListedRun, lineage: MergedLineage | None) -> dict[str, Any]:
    info = {} if lineage is None else lineage.sections["run_info"]
    status = run_status(listed.path, info, time.time())
    return {**lineage_cells(lineage), **({} if status is None else {"status": status})}


def _with_status_now(row: _Row) -> _Row:
    """Return a row with its present status: a running run may have been killed."""
    listed, files, cells = row
    (lineage,) = CACHE.lineages([(listed.path, files or {})])
    status = _cells(listed, lineage).get("status")
    return row if status == cells.get("status") else (listed, files, {**cells, "status": status})


def facts_of(runs: LoadedRuns, listed: ListedRun, tags: Sequence[Any]) -> dict[str, Any]:
    """Read steps, loss, scalars and times of a run from its summary files.

    Args:
        runs: the runs of the directory.
        listed: the run.
        tags: tags of the scalars whose last, smallest and largest values are wanted.

    Returns:
        The facts by name; empty if the run no longer exists.
    """
    table = table_of(runs.base_dir)
    times = _times_of(listed)
    if times is None:
        return {}
    written = max(times.values(), default=0.0)
    ended = max((times[name] for name in times if name in listed.lineage_names), default=0.0)
    known = table.curves.get(listed.train_id)
    if known is None or known[0] != written:
        if (run := runs.run(listed.train_id)) is None:
            return {}
        known = table.curves[listed.train_id] = (written, _read(run))
    facts = known[1]
    run = runs.run(listed.train_id) if tags else None
    scalars = {} if run is None else _extremes(run, tags)
    row = table.rows.get(listed.train_id)
    # A landscape is written after the end of the run that it belongs to; scalars are not.
    status = None if row is None else row[2].get("status")
    has_ended = status not in (None, "running", "killed") and facts["recorded"] <= ended
    is_growing = not has_ended and time.time() - written < GROWING_S
    answer = {**facts, "scalars": scalars, "written": written, "is_growing": is_growing}
    table.facts[listed.train_id] = KnownFacts(listed, answer, runs.clock())
    return answer


def _times_of(listed: ListedRun) -> dict[str, float] | None:
    """Return the modification times of a run's summary, lineage and graph files.

    Unix times in seconds by file name; ``None`` if the run vanished since it was listed.
    """
    try:
        with os.scandir(listed.path) as entries:
            return {
                entry.name: entry.stat(follow_symlinks=False).st_mtime
                for entry in entries
                if timestamp_of(entry.name) is not None or is_graph_name(entry.name)
            }
    except OSError:
        return None


def _read(run: FollowedRun) -> dict[str, Any]:
    tags = run.tags()
    series = {tag: run.scalars(tag) for tag in tags["scalar"]}
    loss = _loss(tags["scalar"])
    started = min((float(one.wall_times[0]) for one in series.values()), default=None)
    recorded = max((float(one.wall_times[-1]) for one in series.values()), default=0.0)
    longest = max(
        series.values(), key=lambda one: int(one.steps[-1]) - int(one.steps[0]), default=None
    )
    pace = None if longest is None else seconds_per_step(longest.steps, longest.wall_times)
    return {
        "started": started,
        "duration": duration_s(run.time_spans()),
        "pace": None if pace is None else _rounded(np.float64(pace)),
        "tags": tags["scalar"],
        "diverged": is_diverged({tag: float(one.values[-1]) for tag, one in series.items()}),
        "steps": max((int(one.steps[-1]) for one in series.values()), default=None),
        "tag": loss,
        "loss": None if loss is None else _rounded(series[loss].values[-1]),
        "line": [] if loss is None else _line(series[loss].values),
        "recorded": recorded,
        "has_graph": bool(run.graphs()),
        "has_landscape": bool(tags["loss_landscape"]),
        "has_statistics": not _STATISTICS.isdisjoint(tags["tensor"]),
    }


def _extremes(run: FollowedRun, tags: Sequence[Any]) -> dict[str, list[float | None]]:
    """Return last, smallest and largest finite value of requested scalars, by tag."""
    known = run.tags()["scalar"]
    return {tag: statistics_of(tag, run.scalars(tag)) for tag in tags if tag in known}


def _loss(tags: Sequence[str]) -> str | None:
    known = [tag for tag in _LOSSES if tag in tags]
    return next(
        iter(known or sorted((tag for tag in tags if "loss" in tag.lower()), key=len)), None
    )


def _line(values: NDArray[np.float32]) -> list[float | None]:
    """Shrink a curve to at most 48 means over parts of equal length."""
    begins = np.linspace(0, values.size, min(values.size, _LINE_POINTS), endpoint=False).astype(
        np.intp
    )
    means = np.add.reduceat(values, begins, dtype=np.float64) / np.diff(
        np.append(begins, values.size)
    )
    return [_rounded(mean) if math.isfinite(mean) else None for mean in means]


def _rounded(value: np.floating[Any]) -> float:
    return float(f"{value:.6g}")
