"""``mindsummary lineage DIR``: the runs below a directory as a table, filtered and sorted, or as JSON."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from mindsummary_lightning.cli.arguments import DIRECTORY, argument, flag
from mindsummary_lightning.cli.output import Answer, UsageError, cut, say, short_number, table_lines
from mindsummary_lightning.cli.runs import runs_in
from mindsummary_lightning.errors import LineageSearchConditionParamError, closest, printable
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
from mindsummary_lightning.reading.run_tree import RunTree, runs_with_lineage
from mindsummary_lightning.values.text import counted, listed


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not {text!r}")
    return int(text)


ARGUMENTS = (
    DIRECTORY,
    argument(
        "--where",
        action="append",
        default=[],
        metavar="CONDITION",
        help="keep runs with, for example, 'accuracy>0.9', 'network=LeNet' or 'user_defined/lr<=0.1'; "
        "operators are = != < <= > >=; may be given several times",
    ),
    argument("--sort", metavar="FIELD", help="sort by this field, smallest first; no value is smallest"),
    flag("--descending", "with --sort: largest first"),
    argument("--limit", type=_positive, metavar="N", help="show the first N runs"),
    flag("--json", "print JSON: the answer of filter_summary_lineage and run_info"),
)
_OPERATORS = {"==": "eq", "=": "eq", ">=": "ge", "<=": "le", ">": "gt", "<": "lt", "!=": "eq"}
_WHERE = re.compile(r"\s*(?P<field>.+?)\s*(?P<operator>==|>=|<=|!=|=|>|<)\s*(?P<value>.*?)\s*", re.DOTALL)
# Columns in order; a name that ends in "/" stands for all that begin with it. Paths, sizes and remarks are in --json.
_COLUMNS = (
    *("summary_dir", "metric/", "loss", "network", "optimizer", "learning_rate", "batch_size", "epoch"),
    *("loss_function", "user_defined/", "device_num", "train_dataset_count", "test_dataset_count"),
)
_RESULTS = ("metric/", "loss")
_WIDEST_CELL = 32


def run(arguments: argparse.Namespace) -> Answer:
    """The runs; 0 also if none is found, 1 if lineage is missing because a file is damaged."""
    directory = os.path.abspath(arguments.directory)
    tree = RunTree(directory)
    runs = runs_with_lineage(tree)
    if not tree.event_directories():
        runs_in([arguments.directory])  # refuses a directory without runs
    known = recorded_fields(runs)
    condition = _condition(arguments, directory, known)
    fields = [field for field, _, _ in condition.tests] + ([condition.ordering.field] if condition.ordering else [])
    result = search_lineage(runs, condition)
    info = run_info(runs)
    found = [{**run, "run_info": info[run["summary_dir"]]} for run in result["object"][: arguments.limit]]
    if not found and not arguments.json:
        lack = "meets the conditions" if condition.tests else "has lineage that can be read"
        none = f"no run with lineage in {arguments.directory} or below it"
        say(f"none of {counted(len(runs), 'run')} {lack}" if runs else none, sys.stderr)
    unknown = [field for field in dict.fromkeys(fields) if "/" in field and field not in known and runs]
    problems = [f"no run has {field}{closest(field, known)}" for field in unknown]
    is_damaged = any(CACHE.has_damage(run.path) for run in runs)
    return Answer({**result, "object": found}, _table(found, fields) if found else (), int(is_damaged), problems)


def _condition(arguments: argparse.Namespace, directory: str, known: Collection[str]) -> SearchCondition:
    tests: list[Test] = []
    for text in arguments.where:
        asked, operator, value = _parsed(text, known)
        try:
            test = checked_test(f"--where {asked}", f"--where {asked}", asked, _OPERATORS[operator], value, directory)
        except LineageSearchConditionParamError as error:
            raise UsageError(str(error)) from error
        if operator == "!=":
            test = Test(asked, "not_in", [test.expected])
        elif any(test[:2] == other[:2] for other in tests):
            raise UsageError(f"--where {text!r}: another --where compares {asked} in the same way; give one of them")
        tests.append(test)
    place, asked = "the field of --sort", arguments.sort and _field(arguments.sort, known)
    if arguments.descending and not asked:
        raise UsageError("--descending is the direction of --sort: give both")
    ordering = ordering_by(asked, place, is_descending=arguments.descending) if asked else None
    return SearchCondition(tuple(tests), ordering)


def _field(asked: str, known: Collection[str]) -> str:
    """The field of a name, or of the last part of one that the runs have."""
    ending = [field for field in known if field.endswith(f"/{asked}")]
    ending = [field for field in ending if "/optimizer_groups/" not in field] or ending  # which are not a user's
    hint = f"; which of {listed(sorted(ending), 5)}?" if ending else closest(asked, known)
    try:
        return known_field(asked, "--where or --sort", hint=hint)
    except LineageSearchConditionParamError as error:
        if len(ending) == 1:
            return ending[0]
        raise UsageError(str(error)) from error


def _parsed(text: str, known: Collection[str]) -> tuple[str, str, Cell]:
    found = _WHERE.fullmatch(text)
    if not found:
        raise UsageError(f"--where must be FIELD, one of = != < <= > >=, and a value, not {text!r}")
    field = _field(found["field"], known)
    return field, found["operator"], _value(field, found["value"])


def _value(field: str, text: str) -> Cell:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    if field in TEXT_FIELDS:
        return text
    for kind in (int, float) if "_" not in text else ():  # 2024_06 is a number in Python alone
        with contextlib.suppress(ValueError):
            return kind(text)
    if field in INTEGER_FIELDS or field in NUMBER_FIELDS or field.startswith("metric"):
        raise UsageError(f"--where: {field} is compared with a number, not {text!r}")
    return text


def _table(runs: Sequence[Mapping[str, Any]], asked: Sequence[str]) -> Iterator[str]:
    records = flat_records(runs)
    without_column = flat_records({"model_lineage": {"user_defined": run["run_info"]}} for run in runs)
    for record, info in zip(records, without_column, strict=True):
        record.update((name, info[name]) for name in asked if name in info and record.get(name) is None)
    names = [name for name in _by_interest(records, asked) if any(record[name] is not None for record in records)]
    rows = [names, *([_cell(record[name]) for name in names] for record in records)]
    numbers = [index for index, name in enumerate(names) if not any(isinstance(each[name], str) for each in records)]
    return table_lines(rows, numbers)


def _by_interest(records: Sequence[Mapping[str, Cell]], asked: Sequence[str]) -> list[str]:
    """Names of the columns: run, what was asked for, a result, the settings that differ, other results, the rest."""
    names = [name for name in records[0] if _prefix(name) in _COLUMNS]
    differing = {name for name in names if any(record[name] != records[0][name] for record in records)}
    results = [name for name in names if _prefix(name) in _RESULTS]
    number = {name: sum(record[name] is not None for record in records) for name in results}
    result = max(results, key=lambda name: (name in differing, number[name], "loss" not in name), default=None)

    def rank(name: str) -> tuple[int, int]:
        is_result, is_setting = name == result and (name in differing or len(records) == 1), name not in results
        differs = name in differing
        groups = (name == "summary_dir", name in asked, is_result, differs and is_setting, differs, True)
        return groups.index(True), _COLUMNS.index(_prefix(name))

    return sorted(names, key=rank)


def _prefix(name: str) -> str:
    return "".join(name.partition("/")[:2])


def _cell(value: Cell) -> str:
    if value is None or isinstance(value, float):
        return short_number(value)
    text = printable(str(value))
    return cut(text, _WIDEST_CELL) if sys.stdout.isatty() else text
