"""Find the field that a name in a query means, among the fields that runs have.

A shortened name is completed. An unknown name is refused, and the message tells the closest names.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from mindsummary_lightning.errors import LineageSearchConditionParamError, closest
from mindsummary_lightning.lineage.cell_values import SECTIONS
from mindsummary_lightning.lineage.conditions import SCALAR
from mindsummary_lightning.values.text import listed

_LAST = "last:"  # of a scalar, for which its bare tag stands
_OLD_METRIC = "metric_"
# what a run notes of itself; a user's setting of the same name comes first
_OPTIMIZER_GROUPS = "/optimizer_groups/"
_LISTED = 30  # fields in a message


class QueryError(LineageSearchConditionParamError):
    """A query has an unknown or ambiguous field, a wrong value, or a wrong expression.

    Attributes:
        problem: ``unknown`` (no such field), ``ambiguous`` (several fields end in the name),
            ``number`` (the field takes numbers only) or ``expression`` (a word between slashes
            cannot be used as a regular expression).
        field: the name, or the expression, as the query has it.
        names: the fields that the name may mean. For an expression: the fault of the expression.
    """

    def __init__(self, problem: str, field: str, text: str, names: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.problem = problem
        self.field = field
        self.names: tuple[str, ...] = tuple(sorted(names))


def field_of(name: str, known: Collection[str]) -> str:
    """Find the field that a name in a query means.

    Raises:
        QueryError: there is no such field, or several known fields end in the name.
    """
    found = complete_name(name, known)
    if found is not None:
        return found
    if name.startswith(_OLD_METRIC) and name != _OLD_METRIC:
        return "metric/" + name[len(_OLD_METRIC) :]
    if is_open_field(name):
        return name
    fields = listed(sorted(known), _LISTED)
    all_fields = (
        f". Use metric/{name} or user_defined/{name} for a value that you recorded, last:{name}, "
        f"min:{name} or max:{name} for a scalar, or one of {fields}"
    )
    raise QueryError("unknown", name, f"no field {name!r}{closest(name, known) or all_fields}")


def complete_name(name: str, known: Collection[str]) -> str | None:
    """Find the known field that is equal to ``name`` or ends in it.

    Returns:
        The field; ``None`` if no known field ends in the name.

    Raises:
        QueryError: several fields end in the name.
    """
    spellings = [name]
    if name.startswith(_OLD_METRIC):
        spellings.append("metric/" + name[len(_OLD_METRIC) :])
    if name == "user_defined/status":
        spellings.append("status")
    for spelling in spellings:
        if spelling in known:
            return spelling
    found = _completed(name, {field: field for field in known})
    return found or _completed(name.casefold(), {field.casefold(): field for field in known})


def _completed(name: str, fields: Mapping[str, str]) -> str | None:
    """Find the field that ends in a name; refuse a name that fits several fields.

    ``fields`` holds the fields by their spellings. A part of a scalar's tag means its last value.
    """
    recorded = {}
    scalars = {}
    for spelling, field in fields.items():
        if SCALAR.fullmatch(spelling) is None:
            recorded[spelling] = field
        elif spelling.startswith(_LAST) or spelling == name:
            scalars[spelling] = field
    found = _fields_of(name, recorded, SECTIONS) or _fields_of(name, scalars, (_LAST,))
    if len(found) > 1:
        raise QueryError(
            "ambiguous",
            name,
            f"{name!r} is ambiguous. Name one of {listed(sorted(found), 5)}",
            found,
        )
    return found[0] if found else None


def _fields_of(name: str, fields: Mapping[str, str], prefixes: Sequence[str]) -> list[str]:
    """List the fields that a name can mean.

    These have the name with a prefix, or else they end in it.
    """
    exact = [fields[prefix + name] for prefix in ("", *prefixes) if prefix + name in fields]
    ending = [field for spelling, field in fields.items() if spelling.endswith(f"/{name}")]
    own = [field for field in ending if _OPTIMIZER_GROUPS not in f"/{field}"]
    return exact or own or ending


def is_open_field(name: str) -> bool:
    """Tell whether a name has the form of a metric, setting or scalar statistic.

    Such names are ``metric/<name>``, ``user_defined/<name>`` and ``last:<tag>``.
    """
    for section in SECTIONS:
        if name.startswith(section) and name != section:
            return True
    return SCALAR.fullmatch(name) is not None
