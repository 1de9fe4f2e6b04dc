"""When two answers are the same, and where they are not."""

from __future__ import annotations

import math
from typing import Any

from tests.oracle.differential.asking import Answer

_RELATIVE = 1e-6


def mismatch(theirs: Answer, ours: Answer) -> str | None:
    """The first place where two answers differ, or ``None``.

    Numbers may differ by 1e-6 of their size; JavaScript does not tell ``1`` from ``1.0``. Texts of
    errors are equal but for the number of spaces between words.
    """
    if theirs.status != ours.status:
        return f"status {theirs.status} there, {ours.status} here"
    if theirs.content_type != ours.content_type:
        return f"content type {theirs.content_type} there, {ours.content_type} here"
    return _mismatch("", theirs.content, ours.content)


def _mismatch(place: str, theirs: Any, ours: Any) -> str | None:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        if theirs.keys() != ours.keys():
            return f"{place}: keys {sorted(theirs)} there, {sorted(ours)} here"
        return _first(
            _mismatch(f"{place}/{key}", theirs[key], ours[key])
            for key in theirs
            if key != "error_msg"
        ) or (
            _mismatch(
                f"{place}/error_msg",
                *(answer.get("error_msg", "").split() for answer in (theirs, ours)),
            )
        )
    if isinstance(theirs, list) and isinstance(ours, list):
        if len(theirs) != len(ours):
            return f"{place}: {len(theirs)} elements there, {len(ours)} here"
        return _first(
            _mismatch(f"{place}/{index}", *pair)
            for index, pair in enumerate(zip(theirs, ours, strict=True))
        )
    if _is_number(theirs) and _is_number(ours):
        is_same = math.isclose(theirs, ours, rel_tol=_RELATIVE) or (
            math.isnan(theirs) and math.isnan(ours)
        )
    else:
        is_same = type(theirs) is type(ours) and theirs == ours
    return None if is_same else f"{place}: {theirs!r:.200} there, {ours!r:.200} here"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _first(found: Any) -> str | None:
    return next((one for one in found if one is not None), None)
