"""``mindsummary lineage DIR``: the runs below a directory as a table, filtered and sorted, or as JSON.

The table shows results and settings: first what was asked for, one result, and the settings in which the runs differ;
empty columns are skipped. On a terminal long cells are shortened and columns that do not fit are named below; in a pipe
or file everything is printed in full and without colour.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence

from mindsummary_lightning.cli.output import (
    UsageError,
    cells,
    columns,
    counted,
    cut,
    escaped,
    say,
    say_json,
    say_table,
    short_number,
    width,
)
from mindsummary_lightning.cli.runs import runs_below
from mindsummary_lightning.errors import LineageSearchConditionParamError, closest
from mindsummary_lightning.lineage.conditions import (
    INTEGER_FIELDS,
    NUMBER_FIELDS,
    TEXT_FIELDS,
    SearchCondition,
    Test,
    checked_test,
    known_field,
    ordering_by,
)
from mindsummary_lightning.lineage.search import CACHE, recorded_fields, run_info, search_lineage
from mindsummary_lightning.lineage.table import Cell, flat_records
from mindsummary_lightning.reading.run_tree import RunDirectory, RunTree, runs_with_lineage

_OPERATORS = {"==": "eq", "=": "eq", ">=": "ge", "<=": "le", ">": "gt", "<": "lt", "!=": "eq"}
_WHERE = re.compile(r"\s*(?P<field>.+?)\s*(?P<operator>==|>=|<=|!=|=|>|<)\s*(?P<value>.*?)\s*", re.DOTALL)
# Columns in order; a name that ends in "/" stands for all that begin with it. Paths, sizes and remarks are in --json.
_COLUMNS = (
    *("summary_dir", "metric/", "loss", "network", "optimizer", "learning_rate", "batch_size", "epoch"),
    *("loss_function", "user_defined/", "device_num", "train_dataset_count", "test_dataset_count"),
)
_RESULTS = ("metric/", "loss")
_WIDEST_CELL = 32


def run(arguments: argparse.Namespace) -> int:
    """Print the runs; 0 also if none is found, 1 if lineage is missing because a file is damaged."""
    directory = os.path.abspath(arguments.directory)
    tree = RunTree(directory)
    runs = runs_with_lineage(tree)
    if not tree.event_directories():
        runs_below(arguments.directory)  # refuses a directory without runs
    condition = _condition(arguments, directory, runs)
    fields = [field for field, _, _ in condition.tests] + ([condition.ordering.field] if condition.ordering else [])
    result = search_lineage(runs, condition)
    found = result["object"][: arguments.limit]
    if arguments.json:
        info = run_info(runs)
        say_json({**result, "object": [{**run, "run_info": info[run["summary_dir"]]} for run in found]})
    elif found:
        _print_table(flat_records(found), fields)
    elif runs:
        lack = "meets the conditions" if condition.tests else "has lineage that can be read"
        say(f"none of {counted(len(runs), 'run')} {lack}", sys.stderr)
    else:
        say(f"no run with lineage in {arguments.directory} or below it", sys.stderr)
    known = recorded_fields(runs)
    for field in dict.fromkeys(fields):
        if "/" in field and field not in known and runs:
            say(f"mindsummary: no run has {field}{closest(field, known)}", sys.stderr)
    return 1 if any(CACHE.has_damage(run.path) for run in runs) else 0


def _condition(arguments: argparse.Namespace, directory: str, runs: Iterable[RunDirectory]) -> SearchCondition:
    tests: list[Test] = []
    asked, place = "", "the field of --where or --sort"
    try:
        for text in arguments.where:
            asked, operator, value = _parsed(text)
            field, option = known_field(asked, place), f"--where {asked}"
            test = checked_test(option, option, field, _OPERATORS[operator], value, directory)
            if operator == "!=":
                test = Test(field, "not_in", [test.expected])
            elif any(test[:2] == other[:2] for other in tests):
                raise UsageError(f"--where {text!r}: {asked} is compared this way twice")
            tests.append(test)
        asked = arguments.sort
        ordering = ordering_by(asked, place, is_descending=arguments.descending) if asked else None
    except LineageSearchConditionParamError as error:
        raise UsageError(f"{error}{closest(asked, recorded_fields(runs) - {asked})}") from error
    return SearchCondition(tuple(tests), ordering)


def _parsed(text: str) -> tuple[str, str, Cell]:
    found = _WHERE.fullmatch(text)
    if not found:
        raise UsageError(f"--where must be FIELD, one of = != < <= > >=, and a value, not {text!r}")
    field = found["field"]
    return field, found["operator"], _value(field, found["value"])


def _value(field: str, text: str) -> Cell:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    if field in TEXT_FIELDS:
        return text
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    if field in INTEGER_FIELDS or field in NUMBER_FIELDS or field.startswith("metric"):
        raise UsageError(f"--where: {field} is compared with a number, not {text!r}")
    return text


def _print_table(records: Sequence[Mapping[str, Cell]], asked: Sequence[str]) -> None:
    is_terminal = sys.stdout.isatty()
    names = [name for name in _by_interest(records, asked) if any(record[name] is not None for record in records)]
    rows = [names, *([_cell(record[name], is_terminal) for name in names] for record in records)]
    numbers = [index for index, name in enumerate(names) if all(_is_number(record[name]) for record in records)]
    fitting = _fitting(rows, width()) if is_terminal else len(names)
    say_table([row[:fitting] for row in rows], numbers)
    if fitting < len(names):
        say(f"not shown because the terminal is too narrow: {', '.join(names[fitting:])}")


def _by_interest(records: Sequence[Mapping[str, Cell]], asked: Sequence[str]) -> list[str]:
    """Names of the columns: run, what was asked for, a result, the settings that differ, other results, the rest."""
    names = [name for name in records[0] if _prefix(name) in _COLUMNS]
    differing = {name for name in names if any(record[name] != records[0][name] for record in records)}
    results = [name for name in names if _prefix(name) in _RESULTS]
    number = {name: sum(record[name] is not None for record in records) for name in results}
    result = max(results, key=lambda name: (name in differing, number[name], "loss" not in name), default=None)

    def rank(name: str) -> tuple[int, int]:
        groups = (
            name == "summary_dir",
            name in asked,
            name == result and (name in differing or len(records) == 1),
            name in differing and name not in results,
            name in differing,
            True,
        )
        return groups.index(True), _COLUMNS.index(_prefix(name))

    return sorted(names, key=rank)


def _prefix(name: str) -> str:
    section, slash, _ = name.partition("/")
    return section + slash


def _is_number(value: Cell) -> bool:
    return value is None or isinstance(value, (int, float))


def _fitting(rows: Sequence[Sequence[str]], limit: int) -> int:
    """How many of the columns fit; the first one always does."""
    for number in range(len(rows[0]), 1, -1):
        if max(map(cells, columns([row[:number] for row in rows]))) <= limit:
            return number
    return 1


def _cell(value: Cell, is_terminal: bool) -> str:
    if value is None or isinstance(value, float):
        return short_number(value)
    text = escaped(str(value))
    return cut(text, _WIDEST_CELL) if is_terminal else text
