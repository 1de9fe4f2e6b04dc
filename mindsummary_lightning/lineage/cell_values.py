"""Interpret values of table cells as numbers, as text, and as keys to sort by.

A value is the content of a cell of a table of runs: bool, int, float, str, a list of these, or
``None``, which is no value.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

Value: TypeAlias = Any  # what json.loads can return
Number: TypeAlias = "int | float"
Row = TypeVar("Row")

SECTIONS = ("metric/", "user_defined/")
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?", re.IGNORECASE | re.ASCII)
_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "infinity": math.inf}
_WITHOUT_ORDER = 2  # from here on, keys are of NaN and of no value


def number_of(value: Value) -> Number | None:
    """Convert a value to a number, also a text that shows a number; else ``None``.

    Such texts are ``1e-3``, ``NaN`` and ``-inf``. A bool stays a bool.
    """
    if isinstance(value, (int, float)):
        return value
    if not isinstance(value, str):
        return None
    text = value.strip()
    if _NUMBER.fullmatch(text):
        with contextlib.suppress(ValueError):  # an int of thousands of digits
            return int(text)
        return float(text)
    unsigned = text.lstrip("+-")
    if len(text) - len(unsigned) > 1:
        return None
    number = _NOT_FINITE.get(unsigned.casefold())
    if number is None:
        return None
    return -number if text.startswith("-") else number


def is_nan(number: Number) -> bool:
    """Tell whether a number is NaN.

    Unlike :func:`math.isnan`, it accepts an int of any size.
    """
    return isinstance(number, float) and math.isnan(number)


def as_text(value: Value) -> str:
    """Convert a value to the text that a search compares.

    A list becomes JSON. NaN and infinities become ``NaN``, ``Infinity`` and ``-Infinity``, as in
    tables.
    """
    if isinstance(value, (list, dict)):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return str(value)


def searched_text(row: Mapping[str, Value]) -> str:
    """Return the text that a query's words are searched in, for a row of a table.

    It has a line ``<field>=<value>`` for every value, with the short name of the field. The run's
    name has two lines if it begins with ``./``: with and without it. All letters are in lower case.
    """
    lines = []
    for name, value in row.items():
        if value is None:
            continue
        text = as_text(value)
        if name not in ("run", "summary_dir"):
            lines.append(f"{short_name(name)}={text}")
            continue
        lines.append(text)
        if text.startswith("./"):
            lines.append(text[2:])
    return "\n".join(lines).lower()


def short_name(field: str) -> str:
    """Return a field's name without its prefix ``metric/`` or ``user_defined/``."""
    for section in SECTIONS:
        field = field.removeprefix(section)
    return field


def sort_key(value: Value) -> tuple[Any, ...]:
    """Return a key that sorts values: numbers, then texts, then NaN, then no value.

    Booleans are 1 and 0. A text that shows a number is that number. Numbers inside a text are
    compared as numbers: ``run9`` comes before ``run10``.
    """
    number = number_of(value)
    if number is not None and not is_nan(number):
        return (0, number)
    if number is not None:
        return (2,)
    if value is None:
        return (3,)
    text = as_text(value)
    parts = []
    for part in re.split(r"(\d+)", text):
        parts.append((0, int(part), "") if part.isdecimal() else (1, 0, part.casefold()))
    return (1, parts, text)


def in_order(
    rows: Sequence[Row], value_of: Callable[[Row], Value], *, is_descending: bool = False
) -> list[Row]:
    """Sort rows by a value; rows with NaN or no value are last in both directions.

    Rows with equal values keep their order.
    """
    with_value: list[tuple[tuple[Any, ...], Row]] = []
    without: list[tuple[tuple[Any, ...], Row]] = []
    for row in rows:
        key = sort_key(value_of(row))
        has_order = key[0] < _WITHOUT_ORDER
        (with_value if has_order else without).append((key, row))
    with_value.sort(key=lambda pair: pair[0], reverse=is_descending)
    without.sort(key=lambda pair: pair[0])
    return [row for _, row in with_value + without]
