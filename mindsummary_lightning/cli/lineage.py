"""``mindsummary lineage DIR``: the runs below a directory as a table, filtered and sorted, or as JSON."""

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
        help="keep runs with, for example, 'accuracy>0.9', 'network=LeNet' or 'last:train_loss<=0.1'; "
        "operators are = != < <= > >=; may be given several times",
    ),
    argument(
        "--sort", metavar="FIELD", help="sort by this field, smallest first; no value is last"
    ),
    flag("--descending", "with --sort: largest first"),
    argument("--limit", type=positive, metavar="N", help="show the first N runs"),
    flag("--json", "print JSON: the answer of filter_summary_lineage and run_info"),
)
_SETTING = "a setting"
# Columns in order; a name that ends in "/" stands for all that begin with it. Paths, sizes and
# remarks are in --json.
_COLUMNS = (
    *(
        "run",
        "metric/",
        "status",
        "loss",
        "network",
        "optimizer",
        "learning_rate",
        "batch_size",
        "epoch",
    ),
    *("loss_function", _SETTING, "device_num", "train_dataset_count", "test_dataset_count"),
)
_RESULTS = ("metric/", "loss")
_HIDDEN = ("dataset_mark", "written")
_ALWAYS = ("summary_dir", "dataset_mark", "written", *RUN_FACTS)  # fields that every run has
_WIDEST_CELL = 32


def run(arguments: argparse.Namespace) -> Answer:
    """The runs; 0 also if none is found, 1 if lineage is missing because a file is damaged."""
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
        lack = "meets the conditions" if arguments.where else "has lineage that can be read"
        none = f"no run with lineage in {arguments.directory} or below it"
        say(f"none of {counted(len(runs), 'run')} {lack}" if runs else none, sys.stderr)
    problems = [
        *_unrecorded(query.fields, known if runs else None),
        *_unknown_scalars(query.fields, scalars),
    ]
    is_damaged = any(CACHE.has_damage(run.path) for run in runs)
    lines = _table(found, query.fields, directory) if found else ()
    return Answer(
        {**result, "object": [_without_asked(run) for run in found]},
        lines,
        int(is_damaged),
        problems,
    )


def _query(
    arguments: argparse.Namespace,
    directory: str,
    runs: Sequence[RunDirectory],
    known: Collection[str],
) -> Query:
    """What is asked; a name of which no lineage file has a value may be that of a scalar."""
    if arguments.descending and not arguments.sort:
        raise UsageError("--descending is the direction of --sort: give both")
    fields = {*known, *PLAIN_FIELDS, *_ALWAYS}
    try:
        query = _parsed(arguments, directory, fields)
    except QueryError as error:
        tags = scalar_tags(runs) if error.problem == "unknown" else set()
        query = _with_scalars(arguments, directory, fields, tags, error)
    else:
        lacking = {
            field for field in query.fields if field in fields and field not in (*known, *_ALWAYS)
        }
        tags = scalar_tags(runs) if lacking else set()
        if lacking & tags:
            query = _with_scalars(arguments, directory, fields - (lacking & tags), tags)
    _say_what_is_last(query, " ".join([*arguments.where, arguments.sort or ""]))
    return query


def _with_scalars(
    arguments: argparse.Namespace,
    directory: str,
    fields: Collection[str],
    tags: Collection[str],
    refused: QueryError | None = None,
) -> Query:
    """What is asked, if bare tags are names too; ``refused`` is why it cannot be answered without them."""
    try:
        return _parsed(arguments, directory, {*fields, *(f"last:{tag}" for tag in tags)})
    except QueryError as error:
        has_a_guess = refused is not None and closest(refused.field, fields)
        raise UsageError(str(refused if has_a_guess else error)) from error


def _say_what_is_last(query: Query, asked: str) -> None:
    """Tell which names were taken for those of scalars."""
    for field in query.fields:
        if field.startswith("last:") and field not in asked:
            tag = field.removeprefix("last:")
            text = f"{tag} is a scalar: its last value is taken; min:{tag} and max:{tag} are its least and greatest"
            say(text, sys.stderr)


def _parsed(arguments: argparse.Namespace, directory: str, fields: Collection[str]) -> Query:
    conditions = parse_conditions(arguments.where, fields, base_dir=directory, is_rest_value=True)
    for text in arguments.where:
        _refuse_a_bare_name(text, fields)
    _refuse_repetition(conditions)
    sort_by = field_of(arguments.sort, fields) if arguments.sort else ""
    return Query(conditions, sort_by, arguments.descending)


def _refuse_a_bare_name(text: str, fields: Collection[str]) -> None:
    """``--where loss`` is a condition that was not finished, not a word to look for."""
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
                f"--where {text!r}: another --where compares {condition.field} in the same way; give one of them"
            )
        seen.add(compared)


def _unrecorded(fields: Iterable[str], known: Collection[str] | None) -> list[str]:
    """What is to be said of fields that no run has; ``None`` if there are no runs."""
    if known is None:
        return []
    lineage = [
        field
        for field in dict.fromkeys(fields)
        if field not in _ALWAYS and not SCALAR.fullmatch(field)
    ]
    return [f"no run has {field}{closest(field, known)}" for field in lineage if field not in known]


def _unknown_scalars(fields: Iterable[str], scalars: ScalarStatistics) -> list[str]:
    if not scalars.tags:
        return []
    asked = [found["tag"] for found in map(SCALAR.fullmatch, dict.fromkeys(fields)) if found]
    unknown = [tag for tag in dict.fromkeys(asked) if tag not in scalars.tags]
    return [f"no run has a scalar {tag}{closest(tag, scalars.tags)}" for tag in unknown]


def _without_asked(run: Mapping[str, Any]) -> dict[str, Any]:
    """A run as JSON shows it; of what was asked for the scalars."""
    shown = {key: value for key, value in run.items() if key != "asked"}
    scalars = {field: value for field, value in run["asked"].items() if SCALAR.fullmatch(field)}
    return {**shown, "scalars": scalars} if scalars else shown


def _table(
    runs: Sequence[Mapping[str, Any]], asked: Sequence[str], directory: str
) -> Iterator[str]:
    records = flat_records(runs, directory)
    columns = {name: _column(name) for name in asked}
    for record, run in zip(records, runs, strict=True):
        record["status"] = run["run_info"]["status"]
        _add_asked(record, {columns[name]: value for name, value in run["asked"].items()})
    join_old_metrics(records)
    recorded = dict.fromkeys(
        name for record in records for name, cell in record.items() if cell is not None
    )
    records = [{name: record.get(name) for name in recorded} for record in records]
    names = _by_interest(records, list(columns.values()))
    rows = [names, *([_cell(record[name]) for name in names] for record in records)]
    numbers = [
        index
        for index, name in enumerate(names)
        if not any(isinstance(each[name], str) for each in records)
    ]
    return table_lines(rows, numbers)


def _add_asked(record: dict[str, Cell], asked: Mapping[str, Any]) -> None:
    """Add values that were asked for and have no column yet."""
    for name, value in asked.items():
        if record.get(name) is None and not isinstance(value, (dict, list)):
            record[name] = (
                readable_time(value) if name in TIMES and isinstance(value, float) else value
            )


def _by_interest(records: Sequence[Mapping[str, Cell]], asked: Sequence[str]) -> list[str]:
    """Names of the columns: run, what was asked for, a result, the settings that differ, other results, the rest."""
    names = [name for name in records[0] if _prefix(name) in _COLUMNS or name in asked]
    differing = {
        name for name in names if any(record[name] != records[0][name] for record in records)
    }
    results = [name for name in names if _prefix(name) in _RESULTS]
    number = {name: sum(record[name] is not None for record in records) for name in results}
    result = max(
        results,
        key=lambda name: (name in differing, number[name], "loss" not in name),
        default=None,
    )

    def rank(name: str) -> tuple[int, int]:
        is_result, is_setting = (
            name == result and (name in differing or len(records) == 1),
            name not in results,
        )
        differs = name in differing
        groups = (name == "run", name in asked, is_result, differs and is_setting, differs, True)
        return groups.index(True), _place(name)

    return sorted(names, key=rank)


def _column(field: str) -> str:
    """The column of a field of a query."""
    if field.startswith(USER_DEFINED) and field != f"{USER_DEFINED}status":
        return setting_column(field.removeprefix(USER_DEFINED))
    return {"summary_dir": "run", f"{USER_DEFINED}status": "status"}.get(field, field)


def _place(name: str) -> int:
    """Where a column is by its kind; those that are shown only because they were asked for come last."""
    return _COLUMNS.index(_prefix(name)) if _prefix(name) in _COLUMNS else len(_COLUMNS)


def _prefix(name: str) -> str:
    """The entry of _COLUMNS for a column, or its name if it has none."""
    if name.startswith(METRIC):
        return METRIC
    return (
        name
        if name in _COLUMNS or name in FIELDS or name in _HIDDEN or is_statistic(name)
        else _SETTING
    )


def _cell(value: Cell) -> str:
    if value is None or isinstance(value, float):
        return short_number(value)
    text = printable(str(value))
    return cut(text, _WIDEST_CELL) if sys.stdout.isatty() else text
