"""The query language of the shell, of Python and of the table of runs: parsing, matching and sorting.

``docs/lineage.md`` has the grammar. A query is a text such as ``optimizer=adam accuracy>0.9 -debug``: conditions and
words that a run must all meet, and ``OR`` between alternatives. Rows are mappings from the names of fields to values,
wherever they come from, so nothing here reads a file.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import math
import operator
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

from mindsummary_lightning.errors import LineageSearchConditionParamError, closest
from mindsummary_lightning.lineage.conditions import INTEGER_FIELDS, NUMBER_FIELDS, SCALAR, relative_to_base
from mindsummary_lightning.values.text import listed

Value: TypeAlias = Any  # what a row holds: bool, int, float, str, a list of these, or None for no value
Row = TypeVar("Row")
Number: TypeAlias = "int | float"

_OPERATOR = re.compile(r"==|!=|<=|>=|=|<|>")
_PLAIN_NAME = re.compile(r"[^\s\"'<>=!]+")
_QUOTED = re.compile(r""" "(?:[^"]|"")*" | '(?:[^']|'')*' """, re.VERBOSE)
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?", re.IGNORECASE | re.ASCII)
_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "infinity": math.inf}
_BOOLEANS = {"true": 1, "false": 0}
_TIMES = ("written", "started")  # fields that hold seconds since the epoch and are compared with dates, too
_DATE = re.compile(r"\d{4}(-|$)")
_NUMBERS = frozenset((*INTEGER_FIELDS, *NUMBER_FIELDS, "steps", "curve", "duration", "pace"))
_SECTIONS = ("metric/", "user_defined/")
_LAST = "last:"  # of a scalar, for which its bare tag stands
_OLD_METRIC = "metric_"
_OPTIMIZER_GROUPS = "/optimizer_groups/"  # what a run notes of itself; a user's setting of the same name comes first
_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


class QueryError(LineageSearchConditionParamError):
    """A query cannot be understood.

    Attributes:
        problem: ``unknown`` (no such field), ``ambiguous`` (several fields end in the name) or ``number`` (the field is
            compared with numbers only).
        field: the name that the query has.
        names: the fields that it may mean.
    """

    def __init__(self, problem: str, field: str, text: str, names: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.problem = problem
        self.field = field
        self.names = tuple(sorted(names))


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of a field with a value.

    Attributes:
        field: name of the field.
        operator: one of ``= != < <= > >=``.
        text: the value as it was written, without its quotes.
        is_quoted: whether it was in quotes: then it is a text, in exactly these letters.
        timezone: the zone of dates; ``None`` is that of the machine.
    """

    field: str
    operator: str
    text: str
    is_quoted: bool = False
    timezone: datetime.tzinfo | None = None

    def matches(self, actual: Value) -> bool:
        """Whether a value meets the condition; ``None``, which is no value, meets ``!=`` only."""
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
        shown = datetime.datetime.fromtimestamp(seconds, self.timezone).isoformat(" ", "seconds")[: len(self.text)]
        asked = self.text.replace("T", " ")
        if self.operator in _ORDERS:
            return _ORDERS[self.operator](shown, asked)
        return (shown == asked) == (self.operator == "=")

    def _equals(self, actual: Value) -> bool:
        if self.is_quoted:
            return isinstance(actual, str) and actual == self.text
        shown, asked = as_text(actual).casefold(), self.text.casefold()
        if "*" in asked:
            return _pattern(asked).fullmatch(shown) is not None
        number = number_of(self.text)
        if number is None:
            number = _BOOLEANS.get(asked)
        found = number_of(actual)
        if number is None or found is None:
            return shown == asked
        return found == number or (math.isnan(found) and math.isnan(number)) or shown == asked

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
    """A word that a run's name or values must contain.

    Attributes:
        text: the word, in lower case.
        is_excluded: whether they must not contain it.
        is_quoted: whether it was in quotes: then ``*`` and ``-`` are letters like others.
    """

    text: str
    is_excluded: bool = False
    is_quoted: bool = False

    def is_in(self, searched: str) -> bool:
        """Whether a text in lower case contains the word; see :func:`searched_text`."""
        if "*" in self.text and not self.is_quoted:
            return _pattern(self.text).search(searched) is not None
        return self.text in searched


@dataclass(frozen=True, slots=True)
class Alternative:
    """What a run must meet, all of it."""

    conditions: tuple[Condition, ...] = ()
    words: tuple[Word, ...] = ()

    def matches(self, row: Mapping[str, Value], searched: str | None = None) -> bool:
        """Whether a row meets it; ``searched`` is its :func:`searched_text` if that is known."""
        # Conditions one by one: what a row has to read from files it reads only if those before it hold.
        if not all(condition.matches(row.get(condition.field)) for condition in self.conditions):
            return False
        if not self.words:
            return True
        text = searched_text(row) if searched is None else searched
        return all(word.is_in(text) != word.is_excluded for word in self.words)


@dataclass(frozen=True, slots=True)
class Conditions:
    """A query: a run is found if it meets one of the alternatives.

    Attributes:
        alternatives: the parts between ``OR``; at least one, which is empty for a query that finds every run.
    """

    alternatives: tuple[Alternative, ...] = (Alternative(),)

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields that conditions compare, in order, each once."""
        conditions = (condition for one in self.alternatives for condition in one.conditions)
        return tuple(dict.fromkeys(condition.field for condition in conditions))

    @property
    def words(self) -> tuple[Word, ...]:
        """The words of all alternatives."""
        return tuple(word for one in self.alternatives for word in one.words)

    def matches(self, row: Mapping[str, Value], searched: str | None = None) -> bool:
        """Whether a row is found.

        Args:
            row: value by name of the field. A name that it lacks, or ``None``, is no value, which meets ``!=`` only.
            searched: the row's :func:`searched_text`, where many queries are asked about the same rows.
        """
        return any(one.matches(row, searched) for one in self.alternatives)


def parse_conditions(
    query: str | Sequence[str],
    known: Collection[str] = (),
    *,
    aliases: Mapping[str, str] | None = None,
    timezone: datetime.tzinfo | None = None,
    base_dir: str = "",
    is_rest_value: bool = False,
) -> Conditions:
    """Parse a query, or several that must all be met.

    >>> parse_conditions("optimizer=adam accuracy>0.9", ["optimizer", "metric/accuracy"]).matches(
    ...     {"optimizer": "Adam", "metric/accuracy": 0.95}
    ... )
    True

    Args:
        query: texts in the language that ``docs/lineage.md`` defines.
        known: names of the fields that rows have. A name in the query is completed with them (``accuracy`` to
            ``metric/accuracy``); a known name may contain blanks and signs without quotes. Without any, names are taken
            as they are written.
        aliases: other names of fields and other texts of values, such as those of another language.
        timezone: the zone of dates; ``None`` is that of the machine.
        base_dir: the directory of the runs; an absolute path that is compared with ``summary_dir`` is taken to be below
            it.
        is_rest_value: whether, in a query with one condition, words after it belong to its value, as in
            ``--where 'note=a long text'``.

    Raises:
        QueryError: a name is none of the known fields or the end of several, or a field of numbers is compared with a
            text. ``metric/<name>``, ``user_defined/<name>`` and ``last:<tag>``, ``min:<tag>``, ``max:<tag>`` are taken
            for fields even if they are not known.
    """
    texts = [query] if isinstance(query, str) else list(query)
    parser = _Parser(known, aliases or {}, timezone, base_dir)
    joined = Conditions()
    for text in texts:
        found = parser.parsed(text, is_rest_value)
        joined = Conditions(
            tuple(
                Alternative((*first.conditions, *second.conditions), (*first.words, *second.words))
                for first in joined.alternatives
                for second in found.alternatives
            )
        )
    return joined


def field_of(name: str, known: Collection[str]) -> str:
    """The field that a name in a query stands for, as :func:`parse_conditions` finds it.

    Raises:
        QueryError: there is none, or several known fields end in the name.
    """
    found = complete_name(name, known)
    if found is not None:
        return found
    if name.startswith(_OLD_METRIC) and name != _OLD_METRIC:
        return "metric/" + name[len(_OLD_METRIC) :]
    if is_open_field(name):
        return name
    fields = listed(sorted(known), 30)
    all_fields = f"; fields are metric/{name} or user_defined/{name} if you recorded it, {fields}"
    raise QueryError("unknown", name, f"no field {name!r}{closest(name, known) or all_fields}")


def complete_name(name: str, known: Collection[str]) -> str | None:
    """The known field that a name stands for: itself, or the only one that ends in it; ``None`` if there is none.

    Raises:
        QueryError: several fields end in the name.
    """
    old = "metric/" + name[len(_OLD_METRIC) :] if name.startswith(_OLD_METRIC) else name
    for spelling in (name, old, name.removeprefix("user_defined/") if name == "user_defined/status" else name):
        if spelling in known:
            return spelling
    found = _completed(name, {field: field for field in known})
    return found or _completed(name.casefold(), {field.casefold(): field for field in known})


def _completed(name: str, fields: Mapping[str, str]) -> str | None:
    """As :func:`complete_name`, of the fields by their spellings."""
    recorded = {spelling: field for spelling, field in fields.items() if not spelling.startswith(_LAST)}
    found = _fields_of(name, recorded, _SECTIONS) or _fields_of(name, fields, (_LAST,))
    if len(found) > 1:
        raise QueryError("ambiguous", name, f"no field {name!r}; which of {listed(sorted(found), 5)}?", found)
    return found[0] if found else None


def _fields_of(name: str, fields: Mapping[str, str], prefixes: Sequence[str]) -> list[str]:
    """The fields that a name can mean: with one of the prefixes, or else those that end in it."""
    exact = [fields[prefix + name] for prefix in ("", *prefixes) if prefix + name in fields]
    ending = [field for spelling, field in fields.items() if spelling.endswith(f"/{name}")]
    own = [field for field in ending if _OPTIMIZER_GROUPS not in field]
    return exact or own or ending


def is_open_field(name: str) -> bool:
    """Whether a name is that of a field of any run, recorded or not: a metric, a setting or a scalar."""
    return any(name.startswith(section) and name != section for section in _SECTIONS) or bool(SCALAR.fullmatch(name))


def number_of(value: Value) -> Number | None:
    """A value as a number, also a text that shows one (``1e-3``, ``NaN``, ``-inf``); ``None`` if it is none."""
    if isinstance(value, (int, float)):
        return value
    if not isinstance(value, str):
        return None
    text = value.strip()
    if _NUMBER.fullmatch(text):
        with contextlib.suppress(ValueError):  # an int of thousands of digits
            return int(text)
        return float(text)
    sign = -1 if text.startswith("-") else 1
    number = _NOT_FINITE.get(text.lstrip("+-").casefold()) if len(text) - len(text.lstrip("+-")) < 2 else None
    return None if number is None else sign * number


def as_text(value: Value) -> str:
    """A value as a search sees it: a list as JSON, ``NaN`` and ``Infinity`` as cells show them."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict)) else str(value)


def searched_text(row: Mapping[str, Value]) -> str:
    """What words are looked for in: the row's values with the short names of their fields, a line each."""
    lines = [
        as_text(value) if name in ("run", "summary_dir") else f"{short_name(name)}={as_text(value)}"
        for name, value in row.items()
        if value is not None
    ]
    return "\n".join(lines).lower()


def short_name(field: str) -> str:
    """The name of a field without ``metric/`` or ``user_defined/``."""
    for section in _SECTIONS:
        field = field.removeprefix(section)
    return field


def sort_key(value: Value) -> tuple[Any, ...]:
    """The key of a value in ascending order: numbers, then texts, then NaN, then no value.

    Booleans are 1 and 0, a text that shows a number is that number, and numbers inside of texts count as such:
    ``run9`` comes before ``run10``.
    """
    number = number_of(value)
    if number is not None and not math.isnan(number):
        return (0, number)
    if number is not None:
        return (2,)
    if value is None:
        return (3,)
    text = as_text(value)
    parts = [(0, int(part), "") if part.isdecimal() else (1, 0, part.casefold()) for part in re.split(r"(\d+)", text)]
    return (1, parts, text)


def in_order(rows: Sequence[Row], value_of: Callable[[Row], Value], *, is_descending: bool = False) -> list[Row]:
    """Rows by a value of theirs; NaN and no value come last in both directions, equal ones keep their order."""
    keyed = [(sort_key(value_of(row)), row) for row in rows]
    with_value = [pair for pair in keyed if pair[0][0] < 2]
    with_value.sort(key=lambda pair: pair[0], reverse=is_descending)
    without = sorted((pair for pair in keyed if pair[0][0] >= 2), key=lambda pair: pair[0])
    return [row for _, row in (*with_value, *without)]


class _Parser:
    def __init__(
        self, known: Collection[str], aliases: Mapping[str, str], timezone: datetime.tzinfo | None, base_dir: str
    ) -> None:
        self.known = known
        self.aliases = aliases
        self.timezone = timezone
        self.base_dir = base_dir
        self.names = {*known, *aliases, *(ending for field in known for ending in _endings(field))}

    def parsed(self, text: str, is_rest_value: bool) -> Conditions:
        alternatives: list[list[_Part]] = [[]]
        for part in self._parts(text):
            if part.what == _OR:
                alternatives.append([])
            else:
                alternatives[-1].append(part)
        if is_rest_value and len(alternatives) == 1:
            alternatives = [_with_the_rest(text, alternatives[0])]
        return Conditions(tuple(self._alternative(parts) for parts in alternatives))

    def _alternative(self, parts: Sequence[_Part]) -> Alternative:
        conditions = [self._checked(part.what) for part in parts if isinstance(part.what, Condition)]
        # Scalars last: their files are read only of runs that meet all other conditions.
        conditions.sort(key=lambda condition: SCALAR.fullmatch(condition.field) is not None)
        words = [_word(part.what) for part in parts if isinstance(part.what, Word)]
        return Alternative(tuple(conditions), tuple(words))

    def _parts(self, text: str) -> Iterator[_Part]:
        at = 0
        while at < len(text):
            if text[at].isspace():
                at += 1
                continue
            part = self._condition(text, at) or _word_at(text, at)
            yield part
            at = part.end

    def _condition(self, text: str, at: int) -> _Part | None:
        """The condition that begins at a place; ``None`` if a word does."""
        name = self._name(text, at)
        if name is None:
            return None
        value = _skip_blanks(text, name.end + len(name.operator))
        shown, is_quoted, end = _value_at(text, value)
        compared = "=" if name.operator == "==" else name.operator
        return _Part(Condition(name.field, compared, shown, is_quoted, self.timezone), value, end)

    def _name(self, text: str, at: int) -> _Name | None:
        quoted = _QUOTED.match(text, at)
        if quoted is not None:
            sign = _OPERATOR.match(text, _skip_blanks(text, quoted.end()))
            if sign is not None:
                return _Name(_unquoted(quoted.group()), sign.group(), sign.start())
        return self._known_name(text, at) or _plain_name(text, at)

    def _known_name(self, text: str, at: int) -> _Name | None:
        """The longest name of a known field that begins here and is followed by an operator."""
        names = []
        for sign in _OPERATOR.finditer(text, at):
            name = text[at : sign.start()].rstrip()
            if name in self.names:
                names.append(_Name(name, sign.group(), sign.start()))
        return names[-1] if names else None

    def _checked(self, condition: Condition) -> Condition:
        field = self._field(condition.field)
        text = condition.text if condition.is_quoted else self.aliases.get(condition.text, condition.text)
        is_of_numbers = field in _NUMBERS or field.startswith("metric/") or SCALAR.fullmatch(field) is not None
        is_number = not condition.is_quoted and (number_of(text) is not None or text.casefold() in _BOOLEANS)
        if is_of_numbers and not is_number:
            raise QueryError("number", field, f"{field} is compared with a number, not {condition.text!r}")
        if field == "summary_dir" and self.base_dir:
            text = relative_to_base(text, self.base_dir)
        return replace(condition, field=field, text=text)

    def _field(self, name: str) -> str:
        name = self.aliases.get(name, name)
        return field_of(name, self.known) if self.known else name


@dataclass(frozen=True, slots=True)
class _Name:
    field: str
    operator: str
    end: int  # where the operator begins


@dataclass(frozen=True, slots=True)
class _Part:
    what: Condition | Word
    begin: int  # of a condition: of its value
    end: int


_OR = Word("OR")


def _endings(field: str) -> Iterator[str]:
    """What follows each ``/`` of a name."""
    while "/" in field:
        field = field.partition("/")[2]
        if field:
            yield field


def _plain_name(text: str, at: int) -> _Name | None:
    name = _PLAIN_NAME.match(text, at)
    sign = _OPERATOR.match(text, _skip_blanks(text, name.end())) if name else None
    return _Name(name.group(), sign.group(), sign.start()) if name and sign else None


def _skip_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _value_at(text: str, at: int) -> tuple[str, bool, int]:
    """The text of a value, whether it is in quotes, and where it ends."""
    quoted = _QUOTED.match(text, at)
    if quoted is not None and _is_blank_or_end(text, quoted.end()):
        return _unquoted(quoted.group()), True, quoted.end()
    end = at
    while not _is_blank_or_end(text, end):
        end += 1
    return text[at:end], False, end


def _word_at(text: str, at: int) -> _Part:
    shown, is_quoted, end = _value_at(text, at)
    return _Part(Word(shown, is_quoted=is_quoted), at, end)


def _word(written: Word) -> Word:
    if written.is_quoted:
        return replace(written, text=written.text.lower())
    is_excluded = len(written.text) > 1 and written.text.startswith("-")
    return Word(written.text[is_excluded:].lower(), is_excluded)


def _with_the_rest(text: str, parts: list[_Part]) -> list[_Part]:
    """The parts, the words after the only condition being in its value."""
    conditions = [at for at, part in enumerate(parts) if isinstance(part.what, Condition)]
    if len(conditions) != 1 or conditions[0] == len(parts) - 1:
        return parts
    part = parts[conditions[0]]
    assert isinstance(part.what, Condition)
    value = replace(part.what, text=text[part.begin :].rstrip(), is_quoted=False)
    return [*parts[: conditions[0]], _Part(value, part.begin, len(text))]


def _is_blank_or_end(text: str, at: int) -> bool:
    return at >= len(text) or text[at].isspace()


def _unquoted(text: str) -> str:
    return text[1:-1].replace(text[0] * 2, text[0])


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, text.split("*"))), re.DOTALL)
