"""Search conditions of MindInsight's lineage queries: check, match, sort.

A condition is accepted or refused as MindInsight 2.3.1 does it. In addition, three spellings of its
older documented API are accepted: ``metric_accuracy`` for ``metric/accuracy``, an absolute path for
a ``summary_dir``, and ``lineage_type`` as a plain ``"dataset"``, ``"model"`` or ``None``. Fields of
recorded scalars are accepted too: ``last:<tag>``, ``min:<tag>``, ``max:<tag>`` and
``best_step:<tag>``. This module reads no files.
"""

from __future__ import annotations

import functools
import operator
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from mindsummary_lightning.errors import LineageSearchConditionParamError, closest
from mindsummary_lightning.lineage.json_values import JsonValue

TEXT_FIELDS = (
    "summary_dir",
    "loss_function",
    "train_dataset_path",
    "test_dataset_path",
    "network",
    "optimizer",
    "dataset_mark",
)
INTEGER_FIELDS = (
    "train_dataset_count",
    "test_dataset_count",
    "epoch",
    "batch_size",
    "device_num",
    "model_size",
)
NUMBER_FIELDS = ("learning_rate", "loss")
SCALAR = re.compile(r"(?P<statistic>last|min|max|best_step):(?P<tag>.+)", re.DOTALL)
"""Pattern of fields that are a statistic of a scalar, such as ``last:loss``.

The statistics are the last, smallest and largest value, and the step of the best value. MindInsight
does not have such fields.
"""

PLAIN_FIELDS = frozenset((*TEXT_FIELDS, *INTEGER_FIELDS, *NUMBER_FIELDS))
_METRIC, _USER_DEFINED, _OLD_METRIC = "metric/", "user_defined/", "metric_"
_LINEAGE_TYPES = ("dataset", "model")
_SETTINGS = ("limit", "offset", "sorted_name", "sorted_type", "lineage_type")
_MAX_LIMIT, _DEFAULT_LIMIT, _MAX_OFFSET = 100, 10, 100_000
_MAX_INTEGER = 2**63 - 1

_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq,
    "lt": operator.lt,
    "gt": operator.gt,
    "le": operator.le,
    "ge": operator.ge,
    "in": lambda actual, expected: actual in expected,
    "not_in": lambda actual, expected: actual not in expected,
}
_MEMBERSHIP = ("in", "not_in")

Run = TypeVar("Run")


class Test(NamedTuple):
    """A comparison of a run's field with an expected value, as part of a condition."""

    field: str
    operator: str
    expected: Any

    def matches(self, actual: JsonValue) -> bool:
        """Tell whether a value passes the test; values that do not compare fail."""
        try:
            return bool(_OPERATORS[self.operator](actual, self.expected))
        except (TypeError, ValueError):  # also for not_in
            return False


@dataclass(frozen=True, slots=True)
class Ordering:
    """An order of runs by a field, ascending or descending; ``None`` counts as lowest.

    Values that do not compare sort by the names of their types.
    """

    field: str
    descending: bool

    def sort(self, runs: Sequence[Run], value_of: Callable[[Run, str], JsonValue]) -> list[Run]:
        """Sort runs; runs with equal values keep their order in both directions."""
        keyed = [(value_of(run, self.field), run) for run in runs]
        try:
            keyed.sort(key=lambda pair: (pair[0] is not None, pair[0]), reverse=self.descending)
        except TypeError:  # values that do not compare with each other
            by_value = functools.cmp_to_key(_compare)
            keyed = [(value_of(run, self.field), run) for run in runs]
            keyed.sort(key=lambda pair: by_value(pair[0]), reverse=self.descending)
        return [run for _, run in keyed]


@dataclass(frozen=True, slots=True)
class SearchCondition:
    """A checked search condition: tests, order, page, and the parts to return.

    Attributes:
        tests: a run is found if it passes all tests.
        ordering: ``None`` keeps the order of the listing.
        page: slice of the found runs to return.
        lineage_types: parts of a run to return, out of ``dataset`` and ``model``.
    """

    tests: tuple[Test, ...] = ()
    ordering: Ordering | None = None
    page: slice = field(default_factory=lambda: slice(None))
    lineage_types: tuple[str, ...] = _LINEAGE_TYPES

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields that the condition tests or sorts by."""
        sorted_by = [self.ordering.field] if self.ordering else []
        return (*(test.field for test in self.tests), *sorted_by)

    def matches(self, value_of: Callable[[str], JsonValue]) -> bool:
        """Tell whether a run passes all tests of the condition.

        ``value_of`` returns the run's value of a field, or ``None``.
        """
        return all(test.matches(value_of(test.field)) for test in self.tests)


def parse_condition(condition: object, base_dir: str) -> SearchCondition:
    """Convert the dict of a lineage query to a checked ``SearchCondition``.

    An absolute ``summary_dir`` in it becomes relative to ``base_dir``.

    Raises:
        LineageSearchConditionParamError: the condition is refused. The message tells the place in
            the dict and the expected value.
    """
    if not isinstance(condition, Mapping):
        raise _refusal("search_condition", "a dict", condition)
    tests: list[Test] = []
    for name, expressions in condition.items():
        if name in _SETTINGS:
            continue
        known = known_field(name, "search_condition", _SETTINGS)
        place = f"search_condition[{known!r}]"
        if not isinstance(expressions, Mapping):
            raise _refusal(place, "a dict of operators, like {'eq': ...}", expressions)
        for key, value in expressions.items():
            tests.append(checked_test(place, f"{place}[{key!r}]", known, key, value, base_dir))
    return SearchCondition(
        tuple(tests), _ordering(condition), _page(condition), _lineage_types(condition)
    )


def known_field(name: object, place: str, others: Sequence[str] = (), hint: str = "") -> str:
    """Return the field that a name in a query means; refuse an unknown name.

    Args:
        name: the name.
        place: where the name stands in the query, for the message.
        others: names that may stand there in addition, for the message.
        hint: a text for the message instead of a list of names.

    Raises:
        LineageSearchConditionParamError: there is no such field.
    """
    if isinstance(name, str):
        if name in PLAIN_FIELDS or name.startswith(_USER_DEFINED):
            return name
        if _is_metric(name) or SCALAR.fullmatch(name):
            return name
        if name.startswith(_OLD_METRIC) and name != _OLD_METRIC:
            return _METRIC + name[len(_OLD_METRIC) :]
    known = (*sorted(PLAIN_FIELDS), *others)
    all_fields = (
        f". Use metric/{name} or user_defined/{name} for a value that you recorded, last:{name}, "
        f"min:{name} or max:{name} for a scalar, or one of {', '.join(known)}"
    )
    raise LineageSearchConditionParamError(
        f"{place}: no field {name!r}{hint or closest(name, known) or all_fields}"
    )


def checked_test(
    place: str, value_place: str, name: str, key: object, value: Any, base_dir: str
) -> Test:
    """Make a test of a field, after checking its operator and its expected value.

    ``place`` and ``value_place`` tell where field and value stand in the query, for messages.

    Raises:
        LineageSearchConditionParamError: the field does not take the operator or the value.
    """
    operators = ("eq", *_MEMBERSHIP) if name in TEXT_FIELDS else tuple(_OPERATORS)
    if not isinstance(key, str) or key not in operators:
        raise _refusal(f"an operator of {place}", f"one of {', '.join(operators)}", key)
    if not name.startswith(_USER_DEFINED):
        _check_expected(value_place, name, key, value)
    return Test(name, key, _expected(name, value, base_dir))


def _check_expected(place: str, name: str, key: str, value: object) -> None:
    """Refuse an expected value that does not fit the field and the operator."""
    is_number = name in NUMBER_FIELDS or _is_metric(name) or SCALAR.fullmatch(name) is not None
    if key == "in" or (key == "not_in" and not is_number):
        takes, is_right = "a list or tuple", isinstance(value, (list, tuple))
    elif name in TEXT_FIELDS:
        takes, is_right = "a str", isinstance(value, str)
    elif is_number:  # for not_in as well, where a number then matches nothing
        takes = "a number"
        is_right = isinstance(value, (int, float)) and not isinstance(value, bool)
    else:
        takes = f"an int in 0..{_MAX_INTEGER}"
        is_int = isinstance(value, int) and not isinstance(value, bool)
        is_right = is_int and 0 <= value <= _MAX_INTEGER  # type: ignore[operator]  # it is an int
    if not is_right:
        raise _refusal(place, takes, value)


def _refusal(where: str, expected: str, found: object) -> LineageSearchConditionParamError:
    return LineageSearchConditionParamError(f"{where} must be {expected}, not {found!r}")


def _is_metric(name: str) -> bool:
    return name.startswith(_METRIC) and name != _METRIC


def _expected(field: str, value: Any, base_dir: str) -> Any:
    if field != "summary_dir":
        return value
    if isinstance(value, str):
        return relative_to_base(value, base_dir)
    return [relative_to_base(path, base_dir) for path in value]


def relative_to_base(path: Any, base_dir: str) -> Any:
    """Convert the absolute path of a run in ``base_dir`` to its name (``./<path>``).

    Everything else stays as it is.
    """
    if not isinstance(path, str) or not os.path.isabs(path):
        return path
    base = os.path.realpath(base_dir)
    parent, name = os.path.split(os.path.normpath(path))
    place = os.path.join(os.path.realpath(parent), name)  # no link below the base is followed
    below = ""
    if os.path.realpath(path) != base:
        below = os.path.relpath(place, base).replace(os.sep, "/")
    if below.partition("/")[0] == os.pardir:
        return path
    return f"./{below}"


def _ordering(condition: Mapping[str, Any]) -> Ordering | None:
    sorted_type = condition.get("sorted_type")
    if sorted_type not in ("ascending", "descending", None):
        raise _refusal("sorted_type", "'ascending', 'descending' or None", sorted_type)
    if "sorted_name" not in condition:
        if "sorted_type" in condition:
            raise LineageSearchConditionParamError(
                "sorted_type needs sorted_name. Give the field to sort by as sorted_name"
            )
        return None
    return ordering_by(
        condition["sorted_name"], "sorted_name", is_descending=sorted_type == "descending"
    )


def ordering_by(name: object, place: str, *, is_descending: bool) -> Ordering:
    """Make the order by the field ``name``.

    ``place`` tells where the name stands in the query, for the message.

    Raises:
        LineageSearchConditionParamError: there is no such field.
    """
    field = "tag" if name == "tag" else known_field(name, place)
    if field == _USER_DEFINED:
        raise _refusal(place, "'user_defined/<name>' with a name", name)
    return Ordering(field, is_descending)


def _page(condition: Mapping[str, Any]) -> slice:
    if "limit" not in condition and "offset" not in condition:
        return slice(None)
    limit = condition.get("limit", _DEFAULT_LIMIT)
    offset = condition.get("offset", 0)
    if not _is_plain_int(limit) or not 1 <= limit <= _MAX_LIMIT:
        raise _refusal("limit", f"an int in 1..{_MAX_LIMIT}, runs per page", limit)
    if not _is_plain_int(offset) or not 0 <= offset <= _MAX_OFFSET:
        raise _refusal("offset", f"an int in 0..{_MAX_OFFSET}, the index of the page", offset)
    return slice(offset * limit, (offset + 1) * limit)


def _is_plain_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _lineage_types(condition: Mapping[str, Any]) -> tuple[str, ...]:
    asked = condition.get("lineage_type")
    # the older API: ``model`` and None show everything, ``dataset`` its part
    if asked is None or asked == "model":
        return _LINEAGE_TYPES
    if asked == "dataset":
        return ("dataset",)
    if not isinstance(asked, Mapping):
        raise _refusal("lineage_type", "a dict, like {'eq': 'model'}", asked)
    if not asked:
        return _LINEAGE_TYPES
    types: list[Any] = []
    for key, value in asked.items():
        # The reader lets ``in`` replace what was named before it and ``eq`` add to it: the order in
        # the dict counts.
        if key == "in" and isinstance(value, (list, tuple)):
            types = list(value)
        elif key == "eq" and isinstance(value, str):
            types.append(value)
        else:
            raise _refusal("lineage_type", "a dict of 'eq' (a str) or 'in' (a list)", asked)
    for name in types:
        if name not in _LINEAGE_TYPES:
            raise _refusal("lineage_type", f"one of {', '.join(_LINEAGE_TYPES)}", name)
    return tuple(types)


def _compare(first: JsonValue, second: JsonValue) -> int:
    try:
        return int(first > second) - int(first < second)
    except TypeError:
        # NoneType comes before all others
        first_type, second_type = type(first).__name__, type(second).__name__
        return (first_type > second_type) - (first_type < second_type)
