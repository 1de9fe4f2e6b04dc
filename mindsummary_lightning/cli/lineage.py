"""``mindsummary lineage DIR``: the runs in a directory as a table or JSON.

Conditions filter the runs, and a field sorts them.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from mindsummary_lightning.cli.arguments import DIRECTORY, argument, flag, positive
from mindsummary_lightning.cli.output import (
    Answer,
    UsageError,
    cut,
    readable_time,
    say,
    short_number,
    table_lines,
)
from mindsummary_lightning.cli.runs import runs_in
from mindsummary_lightning.errors import closest, printable
from mindsummary_lightning.lineage.column_names import (
    METRIC,
    USER_DEFINED,
    is_statistic,
    setting_column,
)
from mindsummary_lightning.lineage.conditions import PLAIN_FIELDS, SCALAR
from mindsummary_lightning.lineage.field_names import QueryError, complete_name, field_of
from mindsummary_lightning.lineage.merge import FIELDS
from mindsummary_lightning.lineage.query_conditions import Conditions
from mindsummary_lightning.lineage.query_language import parse_conditions
from mindsummary_lightning.lineage.run_rows import TIMES, join_old_metrics
from mindsummary_lightning.lineage.scalar_statistics import RUN_FACTS, ScalarStatistics, scalar_tags
from mindsummary_lightning.lineage.search import CACHE, Query, query_lineage, recorded_fields
from mindsummary_lightning.lineage.table import Cell, flat_records
from mindsummary_lightning.reading.run_tree import RunDirectory, RunTree, runs_with_lineage
from mindsummary_lightning.values.text import counted

ARGUMENTS = (
    DIRECTORY,
    argument(
        "--where",
        action="append",
        default=[],
        metavar="CONDITION",
        help="keep runs with, for example, 'accuracy>0.9', 'network=LeNet' or "
        "'last:train_loss<=0.1'; operators are = != < <= > >=; may be given several times",
    ),
    argument("--sort", metavar="FIELD", help="sort by this field, smallest first, missing last"),
    flag("--descending", "with --sort: largest first"),
    argument("--limit", type=positive, metavar="N", help="show the first N runs"),
    flag("--json", "print the results of filter_summary_lineage and run_info as JSON"),
)
_SETTING = "a setting"
# Columns in order; a name that ends in "/" stands for all that begin with it. Paths, sizes and
# remarks are in --json.
_COLUMNS = (
    "run",
    "metric/",
    "status",
    "loss",
    "network",
    "optimizer",
    "learning_rate",
    "batch_size",
    "epoch",
    "loss_function",
    _SETTING,
    "device_num",
    "train_dataset_count",
    "test_dataset_count",
)
_RESULTS = ("metric/", "loss")
_HIDDEN = ("dataset_mark", "written")
_ALWAYS = ("summary_dir", "dataset_mark", "written", *RUN_FACTS)  # fields that every run has
_WIDEST_CELL = 32


def run(arguments: argparse.Namespace) -> Answer:
    """List the runs; exit 1 if lineage is missing because a file is damaged.

    The exit code is 0 also if no run is found.
    """
    directory = os.path.abspath(arguments.directory)
    tree = RunTree(directory)
    runs = runs_with_lineage(tree)
    if not tree.event_directories():
        runs_in([arguments.directory])  # refuses a directory without runs
    known = recorded_fields(runs)
    query = _query(arguments, directory, runs, known)
    scalars = ScalarStatistics(query.fields)
    result = query_lineage(runs, query, scalars)
    found = result["object"][: arguments.limit]
    if not found and not arguments.json:
        _say_none_found(arguments, len(runs))
    problems = _unrecorded(query.fields, known) if runs else []
    problems += _unknown_scalars(query.fields, scalars)
    is_damaged = any(CACHE.has_damage(run.path) for run in runs)
    lines = _table(found, query.fields, directory) if found else ()
    answer = {**result, "object": [_without_asked(run) for run in found]}
    return Answer(answer, lines, int(is_damaged), problems)


def _say_none_found(arguments: argparse.Namespace, number: int) -> None:
    """Explain why no run is listed; ``number`` is the number of runs with lineage."""
    if number:
        lack = "meets the conditions" if arguments.where else "has lineage that can be read"
        say(f"none of {counted(number, 'run')} {lack}", sys.stderr)
    else:
        say(f"no run in {arguments.directory} or its subdirectories has lineage", sys.stderr)


def _query(
    arguments: argparse.Namespace,
    directory: str,
    runs: Sequence[RunDirectory],
    known: Collection[str],
) -> Query:
    """Parse the conditions and the sort order from the command line.

    A name that is in no lineage file may be the name of a scalar.
    """
    if arguments.descending and not arguments.sort:
        raise UsageError("--descending needs --sort. Give both")
    fields = {*known, *PLAIN_FIELDS, *_ALWAYS}
    try:
        query = _parsed(arguments, directory, fields)
    except QueryError as error:
        tags = scalar_tags(runs) if error.problem == "unknown" else set()
        query = _with_scalars(arguments, directory, fields, tags, error)
    else:
        unrecorded = fields.difference(known, _ALWAYS).intersection(query.fields)
        tags = scalar_tags(runs) if unrecorded else set()
        if unrecorded & tags:
            query = _with_scalars(arguments, directory, fields - (unrecorded & tags), tags)
    _say_what_is_last(query, " ".join([*arguments.where, arguments.sort or ""]))
    return query


def _with_scalars(
    arguments: argparse.Namespace,
    directory: str,
    fields: Collection[str],
    tags: Collection[str],
    refused: QueryError | None = None,
) -> Query:
    """Parse the query again, where plain tags also name the last values of scalars.

    ``refused`` is the error of the query without them.
    """
    last_values = {f"last:{tag}" for tag in tags}
    try:
        return _parsed(arguments, directory, last_values.union(fields))
    except QueryError as error:
        has_a_guess = refused is not None and closest(refused.field, fields)
        raise UsageError(str(refused if has_a_guess else error)) from error


def _say_what_is_last(query: Query, asked: str) -> None:
    """Print which names in the query were taken as last values of scalars."""
    for field in query.fields:
        if field.startswith("last:") and field not in asked:
            tag = field.removeprefix("last:")
            extremes = f"For its least or greatest value, write min:{tag} or max:{tag}"
            say(f"{tag} is a scalar, so its last value is used. {extremes}", sys.stderr)


def _parsed(arguments: argparse.Namespace, directory: str, fields: Collection[str]) -> Query:
    conditions = parse_conditions(arguments.where, fields, base_dir=directory, is_rest_value=True)
    for text in arguments.where:
        _refuse_a_bare_name(text, fields)
    _refuse_repetition(conditions)
    sort_by = field_of(arguments.sort, fields) if arguments.sort else ""
    return Query(conditions, sort_by, arguments.descending)


def _refuse_a_bare_name(text: str, fields: Collection[str]) -> None:
    """Raise an error for an unfinished condition, such as ``--where loss``."""
    if text.strip() and complete_name(text.strip(), fields) is None:
        return
    raise UsageError(f"--where must be FIELD, one of = != < <= > >=, and a value, not {text!r}")


def _refuse_repetition(conditions: Conditions) -> None:
    if len(conditions.alternatives) > 1:
        return
    seen = set()
    for condition in conditions.alternatives[0].conditions:
        compared = (condition.field, condition.operator)
        if compared in seen and condition.operator != "!=":
            text = f"{condition.field}{condition.operator}{condition.text}"
            raise UsageError(
                f"--where {text!r} compares {condition.field} in the same way as an earlier "
                "--where. Give only one of the two"
            )
        seen.add(compared)


def _unrecorded(fields: Iterable[str], known: Collection[str]) -> list[str]:
    """Describe the requested lineage fields that no run has."""
    problems = []
    for field in dict.fromkeys(fields):
        is_lineage = field not in _ALWAYS and not SCALAR.fullmatch(field)
        if is_lineage and field not in known:
            problems.append(f"no run has the field {field}{closest(field, known)}")
    return problems


def _unknown_scalars(fields: Iterable[str], scalars: ScalarStatistics) -> list[str]:
    """Describe the requested scalars that no run has."""
    if not scalars.tags:
        return []
    problems = []
    for field in dict.fromkeys(fields):
        found = SCALAR.fullmatch(field)
        if found and found["tag"] not in scalars.tags:
            problems.append(
                f"no run has a scalar {found['tag']}{closest(found['tag'], scalars.tags)}"
            )
    return list(dict.fromkeys(problems))


def _without_asked(run: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the requested values of a run by those values that are scalars."""
    shown = {key: value for key, value in run.items() if key != "asked"}
    scalars = {field: value for field, value in run["asked"].items() if SCALAR.fullmatch(field)}
    if scalars:
        return {**shown, "scalars": scalars}
    return shown


def _table(
    runs: Sequence[Mapping[str, Any]], asked: Sequence[str], directory: str
) -> Iterator[str]:
    records = flat_records(runs, directory)
    columns = {name: _column(name) for name in asked}
    for record, run in zip(records, runs, strict=True):
        record["status"] = run["run_info"]["status"]
        _add_asked(record, {columns[name]: value for name, value in run["asked"].items()})
    join_old_metrics(records)
    records = _with_equal_columns(records)
    names = _by_interest(records, list(columns.values()))
    rows = [names]
    for record in records:
        rows.append([_cell(record[name]) for name in names])
    numbers = []
    for index, name in enumerate(names):
        if not any(isinstance(record[name], str) for record in records):
            numbers.append(index)
    return table_lines(rows, numbers)


def _with_equal_columns(records: Sequence[Mapping[str, Cell]]) -> list[dict[str, Cell]]:
    """Give all records the same columns, without empty columns."""
    recorded: dict[str, None] = {}
    for record in records:
        recorded.update((name, None) for name, cell in record.items() if cell is not None)
    equal = []
    for record in records:
        equal.append({name: record.get(name) for name in recorded})
    return equal


def _add_asked(record: dict[str, Cell], asked: Mapping[str, Any]) -> None:
    """Add to a record the requested values that have no column yet."""
    for name, value in asked.items():
        if record.get(name) is not None or isinstance(value, (dict, list)):
            continue
        is_time = name in TIMES and isinstance(value, float)
        record[name] = readable_time(value) if is_time else value


def _by_interest(records: Sequence[Mapping[str, Cell]], asked: Sequence[str]) -> list[str]:
    """Sort the columns by importance, the most important column first.

    The order: run, the requested columns, the main result, the settings that differ,
    other results that differ, the rest.
    """
    names = [name for name in records[0] if _prefix(name) in _COLUMNS or name in asked]
    differing = {name for name in names if _differs(records, name)}
    results = [name for name in names if _prefix(name) in _RESULTS]
    recorded = {name: _count_values(records, name) for name in results}

    def worth(name: str) -> tuple[bool, int, bool]:
        return name in differing, recorded[name], "loss" not in name

    main_result = max(results, key=worth, default=None)
    tells_runs_apart = main_result in differing or len(records) == 1

    def rank(name: str) -> tuple[int, int]:
        differs = name in differing
        groups = (
            name == "run",
            name in asked,
            name == main_result and tells_runs_apart,
            differs and name not in results,
            differs,
            True,
        )
        return groups.index(True), _place(name)

    return sorted(names, key=rank)


def _count_values(records: Sequence[Mapping[str, Cell]], name: str) -> int:
    return sum(record[name] is not None for record in records)


def _differs(records: Sequence[Mapping[str, Cell]], name: str) -> bool:
    first = records[0][name]
    return any(record[name] != first for record in records)


def _column(field: str) -> str:
    """Return the name of the column that shows a field of the query."""
    if field.startswith(USER_DEFINED) and field != f"{USER_DEFINED}status":
        return setting_column(field.removeprefix(USER_DEFINED))
    return {"summary_dir": "run", f"{USER_DEFINED}status": "status"}.get(field, field)


def _place(name: str) -> int:
    """Return a number that orders a column by its kind.

    Columns that are shown only because they were requested come last.
    """
    if _prefix(name) in _COLUMNS:
        return _COLUMNS.index(_prefix(name))
    return len(_COLUMNS)


def _prefix(name: str) -> str:
    """Return the entry in ``_COLUMNS`` for a column, or the column's own name."""
    if name.startswith(METRIC):
        return METRIC
    has_own_entry = name in _COLUMNS or name in FIELDS or name in _HIDDEN
    if has_own_entry or is_statistic(name):
        return name
    return _SETTING


def _cell(value: Cell) -> str:
    if value is None or isinstance(value, float):
        return short_number(value)
    text = printable(str(value))
    if sys.stdout.isatty():
        return cut(text, _WIDEST_CELL)
    return text
