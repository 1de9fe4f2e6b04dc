"""Search the lineage of runs: read, cache, filter and sort it; answer with JSON.

A file that has not changed is not read again. A damaged file costs only its own lineage and is
reported once, not at every query. ``conditions`` checks the search conditions, and ``merge``
combines the contents of files.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileformat.framing import OVERHEAD
from mindsummary_lightning.fileformat.lineage_codec import decode_lineage_content
from mindsummary_lightning.fileio.scan import RecordScanner
from mindsummary_lightning.lineage.cell_values import in_order
from mindsummary_lightning.lineage.conditions import SCALAR, SearchCondition
from mindsummary_lightning.lineage.json_values import JsonValue
from mindsummary_lightning.lineage.merge import (
    FileLineage,
    MergedLineage,
    ShownGraph,
    lineage_of_file,
    merge_files,
)
from mindsummary_lightning.lineage.query_conditions import Conditions
from mindsummary_lightning.lineage.scalar_statistics import RUN_FACTS, ScalarStatistics
from mindsummary_lightning.reading.run_status import run_status
from mindsummary_lightning.reading.run_tree import FileState, RunDirectory
from mindsummary_lightning.warn_once import WarnOnce

_LOG = logging.getLogger(__name__)
# a run takes a few kilobytes; a query over more runs than this would read them all every time
_MAX_RUNS = 32_768
# section -> whether the lineage page shows its columns at first
_CUSTOMIZED = {"metric": True, "user_defined": False}
_GRAPH = "dataset_graph"
_MAX_GRAPHS = 1024
# of the wall time, with which every payload of this package and of MindSpore begins
_TIME_KEY, _TIME_SIZE = b"\x09", 9
# runs whose files are read side by side: a processor is a third faster where it does one thing at a
# time
TOGETHER = 32
_STATUS = ("status", "user_defined/status")
_FIRST_MARK = 2  # 1 stands for "no mark" in MindInsight


_Read: TypeAlias = "dict[tuple[str, FileState], FileLineage | None]"


class _Known(NamedTuple):
    # None: one could not be opened, and is tried again next time
    files: Mapping[str, FileState] | None
    read: _Read  # the content of each; ``None`` of one not opened
    lineage: MergedLineage | None


_UNKNOWN = _Known(None, {}, None)


def _updated(files: Mapping[str, FileState], known: _Read, new: _Read) -> _Known:
    """Merge the lineage of a run again after some of its files have changed."""
    read = {file: known.get(file) or new[file] for file in files.items()}
    opened = [content for content in read.values() if content is not None]
    is_complete = len(opened) == len(read)
    return _Known(files if is_complete else None, read, merge_files(opened))


class LineageCache:
    """Cache of the lineage of runs, for the ``max_runs`` runs queried most recently.

    Threads may share it.
    """

    def __init__(self, max_runs: int = _MAX_RUNS) -> None:
        self._max_runs = max_runs
        self._runs: OrderedDict[str, _Known] = OrderedDict()
        self._graphs: dict[bytes, ShownGraph] = {}  # by the payload behind its wall time
        self._lock = threading.Lock()
        self._warnings = WarnOnce(_LOG)

    def lineages(
        self, runs: Sequence[tuple[str, Mapping[str, FileState]]]
    ) -> list[MergedLineage | None]:
        """Return the merged lineage of runs, ``None`` for a run without lineage.

        Args:
            runs: run directories, with the paths of their lineage files, oldest first, and the
                present states (size and times) of these files.
        """
        found: list[MergedLineage | None] = []
        for begin in range(0, len(runs), TOGETHER):
            found += self._read_together(runs[begin : begin + TOGETHER])
        return found

    def _read_together(
        self, runs: Sequence[tuple[str, Mapping[str, FileState]]]
    ) -> list[MergedLineage | None]:
        with self._lock:
            known = [self._runs.get(directory, _UNKNOWN) for directory, _ in runs]
        new = self._read_changed([files for _, files in runs], known)
        lineages = []
        with self._lock:
            for (directory, files), found in zip(runs, known, strict=True):
                present = found if found.files == files else _updated(files, found.read, new)
                self._runs[directory] = present
                self._runs.move_to_end(directory)
                lineages.append(present.lineage)
            while len(self._runs) > self._max_runs:
                self._runs.popitem(last=False)
        return lineages

    def _read_changed(
        self, files_of_runs: Sequence[Mapping[str, FileState]], known: Sequence[_Known]
    ) -> _Read:
        """Read the lineage files that are new or have changed, interleaved."""
        new: _Read = {}
        readings = []
        for files, found in zip(files_of_runs, known, strict=True):
            if found.files != files:
                unread = [file for file in files.items() if found.read.get(file) is None]
                readings += [self._read(path, state, new) for path, state in unread]
        for _ in itertools.zip_longest(*readings):
            pass
        return new

    def has_damage(self, directory: str) -> bool:
        """Tell whether a lineage file of a run was damaged or could not be opened.

        This is the state when the run's lineage was last read.
        """
        with self._lock:
            read = self._runs.get(directory, _UNKNOWN).read.values()
        return any(file is None or file.is_damaged for file in read)

    def _read(self, path: str, state: FileState, read: _Read) -> Iterator[None]:
        """Read a lineage file in three parts of work, as a generator."""

        def warn(message: str, *args: object) -> None:
            self._warnings.warn((path, state, message), message, *args)

        try:
            blocks, contents, at = RecordScanner(path).batches(), [], 0
            begun = [*itertools.islice(blocks, 2)]  # all of most files
            yield
            for payload in itertools.chain.from_iterable(itertools.chain(begun, blocks)):
                try:
                    contents.append(self._content(payload))
                except ValueError as error:
                    raise DamagedFileError(path, at, str(error)) from error
                at += len(payload) + OVERHEAD
            if at < state[0]:
                raise DamagedFileError(
                    path, at, f"the file ends inside this record, at byte {state[0]}"
                )
            yield
            read[path, state] = lineage_of_file(
                contents, lambda problem: warn("%s in %s", problem, path)
            )
        except DamagedFileError as error:
            warn("skipped a damaged lineage file, as MindInsight does: %s", error)
            read[path, state] = FileLineage({}, is_damaged=True)
        except OSError as error:
            warn(
                "skipped a lineage file that cannot be read: %s: %s", path, error.strerror or error
            )
            read[path, state] = None

    def _content(self, payload: bytes) -> tuple[str | None, Any]:
        # Few data pipelines are recorded again and again, and they take longest; only the time
        # before them differs.
        rest = payload[_TIME_SIZE:] if payload.startswith(_TIME_KEY) else payload
        graph = self._graphs.get(rest)
        if graph is not None:
            return _GRAPH, graph
        kind, content = decode_lineage_content(payload)
        if kind != _GRAPH:
            return kind, content
        graph = ShownGraph.of(content)
        if len(self._graphs) < _MAX_GRAPHS:
            self._graphs[rest] = graph
        return kind, graph


READING = threading.Lock()  # see `reading`
# one for the process: servers and notebooks ask about the same runs again and again
CACHE = LineageCache()


@contextlib.contextmanager
def reading(patience_s: float = -1.0) -> Iterator[None]:
    """Allow only one thread at a time to read many runs; two at once take longer.

    A thread that has waited ``patience_s`` seconds continues. A negative value waits without limit.
    """
    has_turn = READING.acquire(timeout=patience_s)
    try:
        yield
    finally:
        if has_turn:
            READING.release()


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed query over runs, with the field to sort by.

    Attributes:
        conditions: the conditions that found runs meet.
        sort_by: the field to sort by; ``""`` keeps the order of the listing.
        is_descending: whether the largest value comes first.
    """

    conditions: Conditions = field(default_factory=Conditions)
    sort_by: str = ""
    is_descending: bool = False

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields that the query compares or sorts by."""
        fields = self.conditions.fields
        if self.sort_by:
            return (*fields, self.sort_by)
        return fields


def search_lineage(
    directories: Iterable[RunDirectory],
    condition: SearchCondition,
    added_info: Mapping[str, Mapping[str, JsonValue]] | None = None,
    *,
    is_for_browser: bool = False,
) -> dict[str, Any]:
    """Find the runs that meet a condition; return the same dict as MindInsight 2.3.1.

    Different data pipelines are numbered in the order of ``directories``.

    Args:
        directories: the runs.
        condition: the condition.
        added_info: ``tag`` and ``remark`` that users gave to runs, by ``summary_dir``.
        is_for_browser: whether an int beyond 2**53 is a text, as MindInsight shows it, also for the
            condition.

    Returns:
        The answer of :func:`~mindsummary_lightning.filter_summary_lineage`. Its content belongs to
        the cache: copy it before you change it.
    """
    scalars = ScalarStatistics(condition.fields)
    runs = _runs(directories, added_info or {}, scalars)
    if is_for_browser:
        runs = [run._replace(lineage=run.lineage.for_a_browser()) for run in runs]
    runs = [run for run in runs if condition.matches(run.value)]
    if condition.ordering is not None:
        runs = condition.ordering.sort(runs, _Run.value)
    return _answer(runs, runs[condition.page], condition.lineage_types)


def query_lineage(
    directories: Iterable[RunDirectory], query: Query, scalars: ScalarStatistics
) -> dict[str, Any]:
    """Find the runs that meet a query; return their lineage and the queried values.

    The answer is like :func:`search_lineage`'s. Each run has, in addition, ``asked`` (values of the
    query's fields, by field) and ``run_info`` (recorded values that MindInsight does not show).
    """
    runs = [
        run for run in _runs(directories, {}, scalars) if query.conditions.matches(_Values(run))
    ]
    if query.sort_by:
        sort_by = query.sort_by
        runs = in_order(runs, lambda run: run.value(sort_by), is_descending=query.is_descending)
    answer = _answer(runs, runs, SearchCondition().lineage_types)
    for shown, run in zip(answer["object"], runs, strict=True):
        shown["run_info"] = {**run.lineage.sections["run_info"], "status": run.value("status")}
        shown["asked"] = {name: run.value(name) for name in query.fields}
    return answer


def _answer(runs: list[_Run], shown: list[_Run], lineage_types: Sequence[str]) -> dict[str, Any]:
    return {
        "customized": _customized(shown),
        "object": [_shown(run, lineage_types) for run in shown],
        "count": len(runs),
    }


def recorded_fields(directories: Iterable[RunDirectory]) -> set[str]:
    """Collect the names of the fields for which at least one run has a value."""
    names: set[str] = set()
    for run in _runs(directories, {}):
        names.update(run.names())
    return names


def _names(prefix: str, values: Mapping[str, JsonValue]) -> Iterator[str]:
    for name, value in values.items():
        yield prefix + name
        if isinstance(value, dict):
            yield from _names(f"{prefix}{name}/", value)


def _found(values: JsonValue, path: str) -> JsonValue:
    """Look up custom data by name, or nested data by a path with slashes.

    The path is the name of the data's column in tables.
    """
    for name in [path] if isinstance(values, dict) and path in values else path.split("/"):
        values = values.get(name) if isinstance(values, dict) else None
    return values


class _Run(NamedTuple):
    summary_dir: str
    update_time_us: int
    lineage: MergedLineage
    dataset_mark: str
    added_info: Mapping[str, JsonValue]
    path: str
    scalars: ScalarStatistics

    def value(self, field: str) -> JsonValue:
        """Return the value of a field of the run; ``None`` if it was not recorded."""
        if field in RUN_FACTS or SCALAR.fullmatch(field):
            return self.scalars.value(self.path, field)
        section, slash, name = field.partition("/")
        if field in _STATUS:
            return run_status(self.path, self.lineage.sections["run_info"], time.time())
        if slash:
            sections = self.lineage.sections
            value = _found(sections.get(section, {}), name)
            if value is None and section == "user_defined":
                return _found(sections["run_info"], name)
            return value
        if field == "summary_dir":
            return self.summary_dir
        if field == "dataset_mark":
            return self.dataset_mark
        if field == "tag":
            return self.added_info.get(field)
        if field == "written":
            return self.update_time_us / 1e6
        return self.lineage.fields.get(field)

    def names(self) -> Iterator[str]:
        """Yield the names of all fields in the run's lineage files, with nested paths."""
        yield from (name for name, value in self.lineage.fields.items() if value is not None)
        for section in (*_CUSTOMIZED, "run_info"):
            prefix = "metric/" if section == "metric" else "user_defined/"
            yield from _names(prefix, self.lineage.sections[section])


class _Values(Mapping[str, JsonValue]):
    """A run as a mapping from fields to values, for a query.

    Every field can be looked up. Iteration yields only the fields of lineage files.
    """

    def __init__(self, run: _Run) -> None:
        self._run = run

    def __getitem__(self, name: str) -> JsonValue:
        value = self._run.value(name)
        if value is None:
            raise KeyError(name)
        return value

    def __iter__(self) -> Iterator[str]:
        for name in dict.fromkeys(("summary_dir", "dataset_mark", *self._run.names())):
            if not isinstance(self._run.value(name), (dict, type(None))):
                yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _runs(
    directories: Iterable[RunDirectory],
    added_info: Mapping[str, Mapping[str, JsonValue]],
    scalars: ScalarStatistics | None = None,
) -> list[_Run]:
    """List the runs that hold lineage, last updated first."""
    statistics = scalars or ScalarStatistics(())
    marks: dict[str, str] = {}
    runs: list[_Run] = []
    with reading():
        listed = [*directories]
        lineages = CACHE.lineages([(directory.path, directory.files) for directory in listed])
    for directory, lineage in zip(listed, lineages, strict=True):
        if lineage is not None:
            # MindInsight gives the mark 10 to all pipelines from the ninth on; here they are
            # numbered on.
            mark = marks.setdefault(lineage.graph_key, str(_FIRST_MARK + len(marks)))
            added = added_info.get(directory.summary_dir, {})
            place = (directory.summary_dir, directory.update_time_us)
            runs.append(_Run(*place, lineage, mark, added, directory.path, statistics))
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
        label: {
            "label": label,
            "required": _CUSTOMIZED[label.partition("/")[0]],
            "type": _common_type(names),
        }
        for label, names in types.items()
    }


def _common_type(names: set[str]) -> str:
    if len(names) == 1:
        return next(iter(names))
    return "float" if names == {"int", "float"} else "mixed"
