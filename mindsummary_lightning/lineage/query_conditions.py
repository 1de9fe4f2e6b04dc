"""Parsed queries over runs: alternatives of conditions and words.

A row meets an alternative if it meets all its conditions and words.
"""

from __future__ import annotations

import datetime
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mindsummary_lightning.lineage.cell_values import (
    Number,
    Value,
    as_text,
    is_nan,
    number_of,
    searched_text,
)

BOOLEANS = {"true": 1, "false": 0}
# fields that hold seconds since the epoch and are compared with dates, too
_TIMES = ("written", "started")
_DATE = re.compile(r"\d{4}(-|$)")
_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of a field with a value, such as ``lr<0.1``.

    Attributes:
        field: name of the field.
        operator: one of ``= != < <= > >=``.
        text: the value as it was written, without its quotes.
        is_quoted: whether it was in quotes: then it is a text, in exactly these letters.
        timezone: the time zone of dates; ``None`` is the zone of the machine.
    """

    field: str
    operator: str
    text: str
    is_quoted: bool = False
    timezone: datetime.tzinfo | None = None

    def matches(self, actual: Value) -> bool:
        """Tell whether a value meets the condition; ``None`` (no value) meets only ``!=``."""
        if actual is None:
            return self.operator == "!="
        if self._is_date() and number_of(actual) is not None:
            return self._matches_date(actual)
        if self.operator == "=":
            return self._equals(actual)
        if self.operator == "!=":
            return not self._equals(actual)
        return self._is_in_order(actual)

    def _is_date(self) -> bool:
        return self.field in _TIMES and _DATE.match(self.text) is not None

    def _matches_date(self, seconds: Number) -> bool:
        try:
            time = datetime.datetime.fromtimestamp(seconds, self.timezone)
        except (OSError, OverflowError, ValueError):  # no time that a calendar has
            return self.operator == "!="
        shown = time.isoformat(" ", "seconds")[: len(self.text)]
        asked = self.text.replace("T", " ")
        if self.operator in _ORDERS:
            return _ORDERS[self.operator](shown, asked)
        return (shown == asked) == (self.operator == "=")

    def _equals(self, actual: Value) -> bool:
        if self.is_quoted:
            return isinstance(actual, str) and actual == self.text
        shown, asked = as_text(actual).casefold(), self.text.casefold()
        if "*" in asked:
            return fits(asked, shown)
        number = number_of(self.text)
        if number is None:
            number = BOOLEANS.get(asked)
        found = number_of(actual)
        if number is None or found is None:
            return shown == asked
        if is_nan(found) and is_nan(number):
            return True
        return found == number or shown == asked

    def _is_in_order(self, actual: Value) -> bool:
        order = _ORDERS[self.operator]
        if self.is_quoted:
            return isinstance(actual, str) and order(actual, self.text)
        asked = number_of(self.text)
        if asked is None:
            return isinstance(actual, str) and order(actual.casefold(), self.text.casefold())
        found = number_of(actual)
        return found is not None and order(found, asked)


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a query that a run's name or values must contain, or must not contain.

    Attributes:
        text: the word, in lower case.
        is_excluded: whether name and values must not contain the word.
        is_quoted: whether it was in quotes: then ``*`` and ``-`` have no special meaning.
        is_expression: whether it is a regular expression, which was written between slashes. It
            is searched for without regard to case, in each value of the row separately.
    """

    text: str
    is_excluded: bool = False
    is_quoted: bool = False
    is_expression: bool = False

    def is_in(self, searched: str) -> bool:
        """Tell whether a text in lower case contains the word.

        For a row, pass its
        :func:`~mindsummary_lightning.lineage.cell_values.searched_text`.
        """
        if self.is_expression:
            return re.search(self.text, searched, re.IGNORECASE | re.MULTILINE) is not None
        if "*" in self.text and not self.is_quoted:
            return any(fits(f"*{self.text}*", line) for line in searched.split("\n"))
        return self.text in searched


@dataclass(frozen=True, slots=True)
class Alternative:
    """A part of a query between two ``OR``: all its conditions and words must hold."""

    conditions: tuple[Condition, ...] = ()
    words: tuple[Word, ...] = ()

    def matches(self, row: Mapping[str, Value], searched: str | None = None) -> bool:
        """Tell whether a row meets all conditions and words of the alternative.

        ``searched`` is the row's text as for :meth:`Conditions.matches`, if it is known.
        """
        # Conditions one by one: what a row has to read from files it reads only if those before it
        # hold.
        if not all(condition.matches(row.get(condition.field)) for condition in self.conditions):
            return False
        if not self.words:
            return True
        text = searched_text(row) if searched is None else searched
        return all(word.is_in(text) != word.is_excluded for word in self.words)


@dataclass(frozen=True, slots=True)
class Conditions:
    """A parsed query: a run is found if it meets any of its alternatives.

    Attributes:
        alternatives: the parts between ``OR``. There is at least one; it is empty for a query that
            finds every run.
    """

    alternatives: tuple[Alternative, ...] = (Alternative(),)

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields that conditions compare, in order, without repetition."""
        names: dict[str, None] = {}
        for alternative in self.alternatives:
            names.update((condition.field, None) for condition in alternative.conditions)
        return tuple(names)

    @property
    def words(self) -> tuple[Word, ...]:
        """The words of all alternatives."""
        words: list[Word] = []
        for alternative in self.alternatives:
            words += alternative.words
        return tuple(words)

    def matches(self, row: Mapping[str, Value], searched: str | None = None) -> bool:
        """Tell whether a row meets the query.

        Args:
            row: values by name of the field. A missing name and ``None`` mean no value, which meets
                ``!=`` only.
            searched: the row's :func:`~mindsummary_lightning.lineage.cell_values.searched_text`;
                pass it if you ask many queries about the same rows.
        """
        return any(alternative.matches(row, searched) for alternative in self.alternatives)


def fits(pattern: str, text: str) -> bool:
    """Tell whether a text fits a pattern in which ``*`` stands for any characters.

    The pattern has at least one ``*``. Search time is proportional to the length of the text.
    """
    first, *middle, last = pattern.split("*")
    at, end = len(first), len(text) - len(last)
    if at > end or not text.startswith(first) or not text.endswith(last):
        return False
    for part in middle:
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True
