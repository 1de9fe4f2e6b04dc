"""Endpoint that searches and sorts the table of runs by a query.

Rows hold the values of lineage files (settings and results). Steps, curves and scalars are in
summary files. These are read only if a query needs them, for one second per request. The page asks
again until all files have been read.
"""

from __future__ import annotations

import datetime
import time
import zoneinfo
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mindsummary_lightning.lineage.cell_values import in_order, searched_text
from mindsummary_lightning.lineage.column_names import STATISTICS, USER_DEFINED
from mindsummary_lightning.lineage.conditions import SCALAR
from mindsummary_lightning.lineage.field_names import QueryError
from mindsummary_lightning.lineage.query_conditions import Conditions, Word
from mindsummary_lightning.lineage.query_language import parse_conditions
from mindsummary_lightning.reading.run_status import GROWING_S
from mindsummary_lightning.reading.run_tree import ListedRun
from mindsummary_lightning.viewer.api import WRONG_VALUE, ApiError, ApiRequest
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from mindsummary_lightning.viewer.pages.run_table import (
    KnownFacts,
    RunTable,
    facts_of,
    run_table,
    table_of,
)

EXPRESSION_LIMIT_S = 5.0  # for all rows: a search must not hold its thread
LIMIT_S = 1.0  # for reading summary files; the page asks again for the rest
# that what is known of a growing run is taken for new: a request must come to an end
FRESH_S = 5.0
_OF_FILES = {
    "diverged": "diverged",
    "steps": "steps",
    "curve": "loss",
    "started": "started",
    "duration": "duration",
    "pace": "pace",
}
_FIELDS = ("run", "summary_dir", "written", "status", *_OF_FILES)


@dataclass(frozen=True, slots=True)
class _AskedSearch:
    query: str
    sort_by: str
    is_descending: bool
    aliases: Mapping[str, str]
    timezone: datetime.tzinfo | None


def search(runs: LoadedRuns, request: ApiRequest) -> dict[str, Any]:
    """Answer with the names of the runs that meet a query, in order.

    The answer has these keys:

    * ``train_ids``: the names of the runs.
    * ``problem``: why the query cannot be answered, or ``None``.
    * ``nowhere``: a word of the query that no run contains, or ``None``.
    * ``unread``: number of runs whose summary files could not be read in time. Such runs are not
      found yet, or are sorted last.
    """
    asked = _asked(request)
    answer = run_table(runs, ApiRequest())
    table = table_of(runs.base_dir)
    known = {*answer["columns"], *answer["same"], *_FIELDS, *_last_values(table)}
    try:
        aliases = {USER_DEFINED + name: name for name in known} | dict(asked.aliases)
        query = parse_conditions(asked.query, known, aliases=aliases, timezone=asked.timezone)
    except QueryError as error:
        return _problem_of(error)
    named = aliases.get(asked.sort_by, asked.sort_by)
    sort_by = named if named in known or SCALAR.fullmatch(named) else ""
    tags = [found["tag"] for found in map(SCALAR.fullmatch, (*query.fields, sort_by)) if found]
    files = _SummaryFiles(runs, table, list(dict.fromkeys(tags)))
    rows = [_RowValues(listed, cells, files) for listed, _, cells in list(table.rows.values())]
    try:
        found, nowhere = _found(rows, query, table)
    except QueryError as error:
        return _problem_of(error)
    if sort_by:
        found = in_order(found, lambda row: row.get(sort_by), is_descending=asked.is_descending)
    unknown = next(
        (name for name in query.fields if name not in known and not SCALAR.fullmatch(name)), None
    )
    problem = None if unknown is None else {"kind": "unknown", "field": unknown, "names": ()}
    return _answer([row.listed.train_id for row in found], problem, nowhere, len(files.unread))


def _answer(
    train_ids: Iterable[str] = (),
    problem: Mapping[str, Any] | None = None,
    nowhere: str | None = None,
    unread: int = 0,
) -> dict[str, Any]:
    return {"train_ids": [*train_ids], "problem": problem, "nowhere": nowhere, "unread": unread}


def _problem_of(error: QueryError) -> dict[str, Any]:
    return _answer(problem={"kind": error.problem, "field": error.field, "names": error.names})


def _asked(request: ApiRequest) -> _AskedSearch:
    body = request.json()
    is_right = isinstance(body, dict) and isinstance(body.get("query"), str)
    aliases = body.get("aliases", {}) if is_right else None
    if not isinstance(aliases, dict) or not _are_texts(aliases.values()):
        fields = '"query": "...", "sort": "...", "descending": false, "aliases": {...}'
        raise ApiError(WRONG_VALUE, f"the request body must be {{{fields}}}")
    sort_by = body.get("sort", "")
    zone = _zone(body.get("timezone"))
    return _AskedSearch(
        body["query"],
        sort_by if isinstance(sort_by, str) else "",
        bool(body.get("descending")),
        aliases,
        zone,
    )


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)


def _zone(name: object) -> datetime.tzinfo | None:
    """Return the browser's time zone by name; ``None`` (local time) if it is unknown."""
    try:
        return zoneinfo.ZoneInfo(name) if isinstance(name, str) else None
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _last_values(table: RunTable) -> set[str]:
    """List the fields ``last:<tag>`` of the runs whose summary files were read."""
    return {f"last:{tag}" for known in list(table.facts.values()) for tag in known.facts["tags"]}


def _found(
    rows: list[_RowValues], query: Conditions, table: RunTable
) -> tuple[list[_RowValues], str | None]:
    """Find the rows that meet a query; without a hit, name a word that is in no row."""
    lacking = {word for word in query.words if not word.is_excluded}
    found = []
    for row in _within_limit(rows, query.words):
        text = row.searched_text(table) if query.words else None
        if text is not None and lacking:
            lacking -= _words_in(text, lacking)
        if query.matches(row, text):
            found.append(row)
    if not rows or found:
        return found, None
    return found, next((word.text for word in query.words if word in lacking), None)


def _within_limit(rows: list[_RowValues], words: Iterable[Word]) -> Iterator[_RowValues]:
    """Yield the rows, and stop a regular-expression search that takes too long.

    Raises:
        QueryError: the search takes longer than :data:`EXPRESSION_LIMIT_S` seconds.
    """
    expression = next((word.text for word in words if word.is_expression), None)
    if expression is None:
        yield from rows
        return
    end = time.monotonic() + EXPRESSION_LIMIT_S
    for row in rows:
        if time.monotonic() > end:
            message = f"/{expression}/ takes too long to search for. Simplify it."
            raise QueryError("expression", expression, message, ("it takes too long",))
        yield row


def _words_in(text: str, words: Iterable[Word]) -> set[Word]:
    return {word for word in words if word.is_in(text)}


@dataclass(slots=True)
class _SummaryFiles:
    """Reader of facts from the summary files of runs, within a time limit.

    The first run is read in any case.
    """

    runs: LoadedRuns
    table: RunTable
    tags: list[str]
    unread: set[str] = field(default_factory=set)
    end: float = field(init=False)
    has_read: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.end = self.runs.clock() + LIMIT_S

    def of(self, listed: ListedRun) -> Mapping[str, Any]:
        """Return steps, loss and other facts of a run; after the limit, only known facts."""
        known = self.table.facts.get(listed.train_id)
        if known is not None and known.listed == listed and self._is_enough(known):
            return known.facts
        if self.has_read and self.runs.clock() >= self.end:
            self.unread.add(listed.train_id)
            return {} if known is None else known.facts
        self.has_read = True
        return facts_of(self.runs, listed, self.tags)

    def _is_enough(self, known: KnownFacts) -> bool:
        scalars, tags = known.facts["scalars"], known.facts["tags"]
        if any(tag in tags and tag not in scalars for tag in self.tags):
            return False
        return not known.facts["is_growing"] or self.runs.clock() - known.read_at < FRESH_S


class _RowValues(Mapping[str, Any]):
    """The values of a run by column, as the table of runs shows them.

    You can look up every column. Iteration yields only the columns of lineage files.
    """

    def __init__(self, listed: ListedRun, cells: Mapping[str, Any], files: _SummaryFiles) -> None:
        self.listed = listed
        self._cells = cells
        self._files = files

    def __getitem__(self, name: str) -> Any:
        value = self._value(name)
        if value is None:
            raise KeyError(name)
        return value

    def __iter__(self) -> Iterator[str]:
        yield "summary_dir"
        yield from self._cells

    def __len__(self) -> int:
        return 1 + len(self._cells)

    def _value(self, name: str) -> Any:
        if name == "run":
            return self._files.table.names.get(self.listed.train_id)
        if name == "summary_dir":
            return self.listed.train_id
        if name == "written":
            return self._known_facts().get("written", self.listed.update_time_us / 1e6)
        if name == "status":
            return "running" if self._is_growing() else self._cells.get(name)
        if name in _OF_FILES:
            return self._files.of(self.listed).get(_OF_FILES[name])
        scalar = SCALAR.fullmatch(name)
        if scalar is None:
            return self._cells.get(name)
        statistics = self._files.of(self.listed).get("scalars", {}).get(scalar["tag"])
        return None if statistics is None else statistics[STATISTICS.index(scalar["statistic"])]

    def _known_facts(self) -> Mapping[str, Any]:
        known = self._files.table.facts.get(self.listed.train_id)
        return {} if known is None else known.facts

    def _is_growing(self) -> bool:
        """Tell whether the run is still being written.

        Files are read only for a run that was written recently or was growing at the last look.
        """
        is_recent = time.time() - self.listed.update_time_us / 1e6 < GROWING_S
        if not is_recent and not self._known_facts().get("is_growing"):
            return False
        return bool(self._files.of(self.listed).get("is_growing"))

    def searched_text(self, table: RunTable) -> str:
        """Return the text that a query's words are searched in, for this row.

        The text of the lineage values is built once and kept in ``table``.
        """
        known = table.texts.get(self.listed.train_id)
        if known is None or known[0] is not self._cells:
            text = searched_text({"summary_dir": self.listed.train_id, **self._cells})
            known = table.texts[self.listed.train_id] = (self._cells, text)
        return f"{known[1]}\nstatus=running" if self._is_growing() else known[1]
