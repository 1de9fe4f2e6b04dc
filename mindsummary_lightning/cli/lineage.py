"""``mindsummary lineage DIR``: the runs under a directory as a table, filtered and sorted, or as JSON.

The table shows settings and results, results first; empty columns are skipped. On a terminal long cells are shortened
and columns that do not fit are named below; in a pipe or file everything is printed in full and without colour.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mindsummary_lightning.cli.output import UsageError, columns, escaped, heading, say, short_number, width

if TYPE_CHECKING:
    from mindsummary_lightning.lineage.table import Cell

__all__ = ["HELP", "NAME", "add_arguments", "run"]

NAME = "lineage"
HELP = "List the runs in a directory with their settings and results, filtered and sorted."

_OPERATORS = {"==": "eq", "=": "eq", ">=": "ge", "<=": "le", ">": "gt", "<": "lt", "!=": "not_in"}
_WHERE = re.compile(r"\s*(?P<field>.+?)\s*(?P<operator>==|>=|<=|!=|=|>|<)\s*(?P<value>.*?)\s*", re.DOTALL)
# Columns in order; a name that ends in "/" stands for all that begin with it. Paths, sizes and remarks are in --json.
_COLUMNS = (
    *("summary_dir", "metric/", "loss", "network", "optimizer", "learning_rate", "batch_size", "epoch"),
    *("loss_function", "user_defined/", "device_num", "train_dataset_count", "test_dataset_count"),
)
_WIDEST_CELL = 32


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("directory", metavar="DIR", help="a run, or a directory whose children are runs")
    parser.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="CONDITION",
        help="keep runs with, for example, 'metric/accuracy>0.9', 'network=LeNet' or 'user_defined/lr<=0.1'; "
        "operators are = != < <= > >=; may be given several times",
    )
    parser.add_argument("--sort", metavar="FIELD", help="sort by this field, smallest first; no value is smallest")
    parser.add_argument("--descending", action="store_true", help="sort largest first")
    parser.add_argument("--limit", type=_positive, metavar="N", help="show the first N runs")
    parser.add_argument("--json", action="store_true", help="print JSON: the answer of filter_summary_lineage")


def run(arguments: argparse.Namespace) -> int:
    """Print the runs.

    Returns:
        0, also if no run is found.

    Raises:
        FileNotFoundError: there is no such directory.
        UsageError: a condition or the field to sort by is refused.
    """
    from mindsummary_lightning.errors import LineageSearchConditionParamError
    from mindsummary_lightning.lineage.query import filter_summary_lineage
    from mindsummary_lightning.lineage.table import lineage_records

    directory = os.path.abspath(arguments.directory)
    if not os.path.isdir(directory):
        raise FileNotFoundError(f"no such directory: {arguments.directory}")
    condition = _search_condition(arguments)
    try:
        if arguments.json:
            result = filter_summary_lineage(directory, condition)
            result["object"] = result["object"][: arguments.limit]
            for line in json.dumps(_finite(result), indent=2, allow_nan=False).split("\n"):
                say(line)
        else:
            _print_table(lineage_records(directory, condition)[: arguments.limit])
    except LineageSearchConditionParamError as error:
        raise UsageError(str(error)) from error  # here it is the command line that is wrong
    return 0


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {number}")
    return number


def _search_condition(arguments: argparse.Namespace) -> dict[str, Any]:
    condition: dict[str, Any] = {}
    for text in arguments.where:
        field, operator, value = _parsed(text)
        expressions = condition.setdefault(field, {})
        if operator == "not_in":
            expressions.setdefault(operator, []).append(value)
        elif operator in expressions:
            raise UsageError(f"--where {text!r}: {field} is compared this way twice")
        else:
            expressions[operator] = value
    if arguments.sort:
        condition["sorted_name"] = arguments.sort
        condition["sorted_type"] = "descending" if arguments.descending else "ascending"
    return condition


def _parsed(text: str) -> tuple[str, str, Cell]:
    found = _WHERE.fullmatch(text)
    if not found:
        raise UsageError(f"--where must be FIELD, one of = != < <= > >=, and a value, not {text!r}")
    field = found["field"]
    return field, _OPERATORS[found["operator"]], _value(field, found["value"])


def _value(field: str, text: str) -> Cell:
    from mindsummary_lightning.lineage.conditions import INTEGER_FIELDS, NUMBER_FIELDS, TEXT_FIELDS

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


def _finite(value: Any) -> Any:
    """The same with NaN and infinities as text, since JSON has no such numbers."""
    from mindsummary_lightning.lineage.json_values import double_to_json

    if isinstance(value, dict):
        return {key: _finite(element) for key, element in value.items()}
    if isinstance(value, list):
        return [_finite(element) for element in value]
    return double_to_json(value) if isinstance(value, float) else value


def _print_table(records: Sequence[Mapping[str, Cell]]) -> None:
    if not records:
        say("no runs with lineage found", sys.stderr)
        return
    is_terminal = sys.stdout.isatty()
    names = [name for name in _by_interest(records[0]) if any(record[name] is not None for record in records)]
    rows = [names, *([_cell(record[name], is_terminal) for name in names] for record in records)]
    numbers = [index for index, name in enumerate(names) if all(_is_number(record[name]) for record in records)]
    fitting = _fitting(rows, width()) if is_terminal else len(names)
    for index, line in enumerate(columns([row[:fitting] for row in rows], numbers)):
        print(line if index else heading(line))
    if fitting < len(names):
        say(f"not shown because the terminal is too narrow: {', '.join(names[fitting:])}")


def _by_interest(names: Iterable[str]) -> list[str]:
    kept = [name for name in names if _prefix(name) in _COLUMNS]
    return sorted(kept, key=lambda name: _COLUMNS.index(_prefix(name)))


def _prefix(name: str) -> str:
    section, slash, _ = name.partition("/")
    return section + slash


def _is_number(value: Cell) -> bool:
    return value is None or isinstance(value, (int, float))


def _fitting(rows: Sequence[Sequence[str]], limit: int) -> int:
    """How many of the columns fit; the first one always does."""
    for number in range(len(rows[0]), 1, -1):
        if max(map(len, columns([row[:number] for row in rows]))) <= limit:
            return number
    return 1


def _cell(value: Cell, is_terminal: bool) -> str:
    if value is None or isinstance(value, float):
        return short_number(value)
    text = escaped(str(value))
    return text[: _WIDEST_CELL - 1] + "…" if is_terminal and len(text) > _WIDEST_CELL else text
