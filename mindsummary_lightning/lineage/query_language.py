"""Parse the language of queries over runs, such as ``lr<0.1 status=finished``.

The command line, Python and the viewer's table of runs use it.
``docs/reference/query-language.md`` has the grammar. A query is a text such as
``optimizer=adam accuracy>0.9 -debug``: conditions and words that a run must all meet, and ``OR``
between alternatives.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mindsummary_lightning.lineage.cell_values import number_of
from mindsummary_lightning.lineage.column_names import is_of_files
from mindsummary_lightning.lineage.conditions import (
    INTEGER_FIELDS,
    NUMBER_FIELDS,
    SCALAR,
    relative_to_base,
)
from mindsummary_lightning.lineage.field_names import QueryError, field_of
from mindsummary_lightning.lineage.query_conditions import (
    BOOLEANS,
    Alternative,
    Condition,
    Conditions,
    Word,
)

_OPERATOR = re.compile(r"==|!=|<=|>=|=|<|>")
_PLAIN_NAME = re.compile(r"[^\s\"'<>=!]+")
_QUOTED = re.compile(r""" "(?:[^"]|"")*" | '(?:[^']|'')*' """, re.VERBOSE)
# between slashes, without blanks: a path in it needs no backslashes
_EXPRESSION = re.compile(r"(?P<excluded>-?)/(?P<expression>\S+)/(?=\s|$)")
# An expression that searches ten thousand names must not hold the thread that runs it.
_LONGEST_EXPRESSION, _MOST_REPETITIONS = 200, 2
_ESCAPED = re.compile(r"\\.")
_REPEATED_GROUP = re.compile(r"\)[*+{]")
_REPETITION = re.compile(r"[*+]|\{\d*,")
_NUMBERS = frozenset((*INTEGER_FIELDS, *NUMBER_FIELDS, "steps", "curve", "duration", "pace"))


def parse_conditions(
    query: str | Sequence[str],
    known: Collection[str] = (),
    *,
    aliases: Mapping[str, str] | None = None,
    timezone: datetime.tzinfo | None = None,
    base_dir: str = "",
    is_rest_value: bool = False,
) -> Conditions:
    """Parse a query, or a list of queries that a run must all meet.

    >>> parse_conditions("optimizer=adam accuracy>0.9", ["optimizer", "metric/accuracy"]).matches(
    ...     {"optimizer": "Adam", "metric/accuracy": 0.95}
    ... )
    True

    Args:
        query: texts in the language that ``docs/reference/query-language.md`` defines.
        known: names of the fields that rows have. A name in the query is completed with them
            (``accuracy`` to ``metric/accuracy``). A known name may contain blanks and signs without
            quotes. If ``known`` is empty, names are taken as they are written.
        aliases: other spellings of fields and values, such as names in another language.
        timezone: the time zone of dates; ``None`` is the zone of the machine.
        base_dir: the directory of the runs. An absolute path that is compared with ``summary_dir``
            is made relative to it.
        is_rest_value: whether, in a query with one condition, words after it belong to its value,
            as in ``--where 'note=a long text'``.

    Raises:
        QueryError: a name is unknown or the end of several known names, a numeric field is compared
            with a text, or a word between slashes is not a usable regular expression.
            ``metric/<name>``, ``user_defined/<name>``, ``last:<tag>``, ``min:<tag>`` and
            ``max:<tag>`` count as fields even if they are not known.
    """
    texts = [query] if isinstance(query, str) else list(query)
    parser = _QueryParser(known, aliases or {}, timezone, base_dir)
    alternatives: Sequence[Alternative] = (Alternative(),)
    for text in texts:
        found = parser.parsed(text, is_rest_value).alternatives
        alternatives = [_joined(first, second) for first in alternatives for second in found]
    return Conditions(tuple(alternatives))


def _joined(first: Alternative, second: Alternative) -> Alternative:
    """Join two alternatives of a query: a run must meet both.

    Conditions on scalars come last: their files are read only for runs that meet all other
    conditions.
    """
    conditions = list(first.conditions + second.conditions)
    conditions.sort(key=lambda condition: is_of_files(condition.field))
    return Alternative(tuple(conditions), first.words + second.words)


class _QueryParser:
    def __init__(
        self,
        known: Collection[str],
        aliases: Mapping[str, str],
        timezone: datetime.tzinfo | None,
        base_dir: str,
    ) -> None:
        self.known = known
        self.aliases = aliases
        self.timezone = timezone
        self.base_dir = base_dir
        self.names = {*known, *aliases}
        for field in known:
            self.names.update(_endings(field))
        self.longest = max(map(len, self.names), default=0)

    def parsed(self, text: str, is_rest_value: bool) -> Conditions:
        alternatives: list[list[_QueryPart]] = [[]]
        for part in self._parts(text):
            if part.what == _OR:
                alternatives.append([])
            else:
                alternatives[-1].append(part)
        if is_rest_value and len(alternatives) == 1:
            alternatives = [_with_the_rest(text, alternatives[0])]
        return Conditions(tuple(self._alternative(parts) for parts in alternatives))

    def _alternative(self, parts: Sequence[_QueryPart]) -> Alternative:
        conditions = []
        words = []
        for part in parts:
            if isinstance(part.what, Condition):
                conditions.append(self._checked(part.what))
            else:
                words.append(self._word(part.what))
        return Alternative(tuple(conditions), tuple(words))

    def _parts(self, text: str) -> Iterator[_QueryPart]:
        at = 0
        while at < len(text):
            if text[at].isspace():
                at += 1
                continue
            part = _expression_at(text, at) or self._condition(text, at) or _word_at(text, at)
            yield part
            at = part.end

    def _condition(self, text: str, at: int) -> _QueryPart | None:
        """Parse the condition that begins at a position; ``None`` if a word begins there."""
        name = self._name(text, at)
        if name is None:
            return None
        value = _skip_blanks(text, name.end + len(name.operator))
        shown, is_quoted, end = _value_at(text, value)
        compared = "=" if name.operator == "==" else name.operator
        return _QueryPart(
            Condition(name.field, compared, shown, is_quoted, self.timezone), value, end
        )

    def _name(self, text: str, at: int) -> _Name | None:
        quoted = _QUOTED.match(text, at)
        if quoted is not None:
            sign = _OPERATOR.match(text, _skip_blanks(text, quoted.end()))
            if sign is not None:
                return _Name(_unquoted(quoted.group()), sign.group(), sign.start())
        return self._known_name(text, at) or _plain_name(text, at)

    def _known_name(self, text: str, at: int) -> _Name | None:
        """Find the longest known field name at a position that an operator follows."""
        names = []
        for sign in _OPERATOR.finditer(text, at):
            name = text[at : sign.start()].rstrip()
            if len(name) > self.longest:
                break
            if name in self.names:
                names.append(_Name(name, sign.group(), sign.start()))
        return names[-1] if names else None

    def _checked(self, condition: Condition) -> Condition:
        field = self._field(condition.field)
        text = condition.text
        if not condition.is_quoted:
            text = self.aliases.get(text, text)
        if _holds_numbers(field) and (condition.is_quoted or not _is_number(text)):
            raise QueryError(
                "number", field, f"{field} must be compared with a number, got {condition.text!r}"
            )
        if field == "summary_dir" and self.base_dir:
            text = relative_to_base(text, self.base_dir)
        return replace(condition, field=field, text=text)

    def _word(self, written: Word) -> Word:
        if written.is_expression:
            return written
        if written.is_quoted:
            return replace(written, text=written.text.lower())
        is_excluded = len(written.text) > 1 and written.text.startswith("-")
        text = written.text[is_excluded:]
        return Word(self.aliases.get(text, text).lower(), is_excluded)

    def _field(self, name: str) -> str:
        name = self.aliases.get(name, name)
        return field_of(name, self.known) if self.known else name


@dataclass(frozen=True, slots=True)
class _Name:
    field: str
    operator: str
    end: int  # where the operator begins


@dataclass(frozen=True, slots=True)
class _QueryPart:
    what: Condition | Word
    begin: int  # of a condition: of its value
    end: int


_OR = Word("OR")


def _holds_numbers(field: str) -> bool:
    if field in _NUMBERS or field.startswith("metric/"):
        return True
    return SCALAR.fullmatch(field) is not None


def _is_number(text: str) -> bool:
    return number_of(text) is not None or text.casefold() in BOOLEANS


def _endings(field: str) -> Iterator[str]:
    """Yield the parts of a name that follow a slash, longest first."""
    while "/" in field:
        field = field.partition("/")[2]
        if field:
            yield field


def _plain_name(text: str, at: int) -> _Name | None:
    name = _PLAIN_NAME.match(text, at)
    sign = _OPERATOR.match(text, _skip_blanks(text, name.end())) if name else None
    if name and sign:
        return _Name(name.group(), sign.group(), sign.start())
    return None


def _skip_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _value_at(text: str, at: int) -> tuple[str, bool, int]:
    """Return the value that begins at a position, whether it is quoted, and its end."""
    quoted = _QUOTED.match(text, at)
    if quoted is not None and _is_blank_or_end(text, quoted.end()):
        return _unquoted(quoted.group()), True, quoted.end()
    end = at
    while not _is_blank_or_end(text, end):
        end += 1
    return text[at:end], False, end


def _expression_at(text: str, at: int) -> _QueryPart | None:
    """Parse a regular expression between slashes, as in ``/version_[12]$/``."""
    found = _EXPRESSION.match(text, at)
    if found is None:
        return None
    expression = found["expression"]
    problem = _slowness(expression)
    if problem:
        message = f"{expression} must be a fast regular expression, but {problem}. Simplify it."
        raise QueryError("expression", expression, message, (problem,))
    try:
        re.compile(expression)
    except re.error as error:
        message = (
            f"{expression} must be a regular expression, but {error}. "
            "Correct it, or put the word in quotes."
        )
        raise QueryError("expression", expression, message, (str(error),)) from None
    word = Word(expression, is_excluded=bool(found["excluded"]), is_expression=True)
    return _QueryPart(word, at, found.end())


def _slowness(expression: str) -> str | None:
    """Tell why a regular expression could be slow to search for; ``None`` if fast.

    A repeated group can take exponential time. Every other repetition multiplies the time by the
    length of a line.
    """
    plain = _ESCAPED.sub("", expression)
    if len(expression) > _LONGEST_EXPRESSION:
        return f"it is longer than {_LONGEST_EXPRESSION} letters"
    if _REPEATED_GROUP.search(plain):
        return "it repeats a group"
    if len(_REPETITION.findall(plain)) > _MOST_REPETITIONS:
        return f"it repeats more than {_MOST_REPETITIONS} parts"
    return None


def _word_at(text: str, at: int) -> _QueryPart:
    shown, is_quoted, end = _value_at(text, at)
    return _QueryPart(Word(shown, is_quoted=is_quoted), at, end)


def _with_the_rest(text: str, parts: list[_QueryPart]) -> list[_QueryPart]:
    """Append the words after a query's only condition to the condition's value."""
    conditions = [at for at, part in enumerate(parts) if isinstance(part.what, Condition)]
    if len(conditions) != 1 or conditions[0] == len(parts) - 1:
        return parts
    part = parts[conditions[0]]
    assert isinstance(part.what, Condition)
    value = replace(part.what, text=text[part.begin :].rstrip(), is_quoted=False)
    return [*parts[: conditions[0]], _QueryPart(value, part.begin, len(text))]


def _is_blank_or_end(text: str, at: int) -> bool:
    return at >= len(text) or text[at].isspace()


def _unquoted(text: str) -> str:
    return text[1:-1].replace(text[0] * 2, text[0])
