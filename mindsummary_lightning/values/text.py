"""Text as the format holds it, and as a terminal may show it.

Numbers are as a person wrote them.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_FLOAT32 = struct.Struct("<f")


class Phrase(str):
    """Text of a template and values, which can be translated.

    Attributes:
        template: as of ``str.format``; without values the text itself.
        values: what is put into it; phrases among them are said in the other words as well.
    """

    template: str
    values: tuple[object, ...]

    def __new__(cls, template: str, *values: object) -> Phrase:
        """The template with the values in it."""
        phrase = super().__new__(cls, template.format(*values) if values else template)
        phrase.template, phrase.values = template, values
        return phrase

    def said(self, words: Mapping[str, str]) -> str:
        """The text in a different language: every template as ``words`` has it."""
        template = words.get(self.template, self.template)
        values = [
            value.said(words) if isinstance(value, Phrase) else value for value in self.values
        ]
        return template.format(*values) if values else template


def utf8_text(text: str) -> str:
    """The text with every lone surrogate written as its escape.

    UTF-8 cannot hold lone surrogates.
    """
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode()


def utf8_json(value: Any) -> Any:
    r"""A JSON value with :func:`utf8_text` of every text.

    An escape such as ``"\ud800"`` is a lone surrogate.
    """
    return map_json(value, lambda leaf: utf8_text(leaf) if isinstance(leaf, str) else leaf)


def map_json(value: Any, change: Callable[[Any], Any]) -> Any:
    """A JSON value with every number, text and name as ``change`` gives it.

    Tuples become lists.
    """
    if isinstance(value, dict):
        return {change(key): map_json(entry, change) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [map_json(entry, change) for entry in value]
    return change(value)


def finite_or_named(value: Any) -> Any:
    """The value; a float that is not finite as its name, which JSON can hold.

    The names are ``NaN``, ``Infinity`` and ``-Infinity``.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def listed(names: Sequence[str], most: int) -> str:
    """Text such as ``a, b and 3 more``.

    It has at most so many names, and the number of the remaining ones.
    """
    shown = ", ".join(names[:most])
    if len(names) > most:
        return Phrase("{} and {} more", shown, len(names) - most)
    return shown


def counted(number: int, noun: str) -> str:
    """Text such as ``1 run`` and ``2 runs``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def shortest_float32(value: float) -> float:
    """The number with the fewest decimal digits that is the same float32.

    It is 0.1 for 0.10000000149011612.

    The one rule for every float32 that leaves as text, JSON or a column of float64, so that a query
    for 0.1 finds what was recorded as 0.1.

    Args:
        value: a number that a float32 holds exactly; NaN and infinities stay what they are.
    """
    # Up to six digits survive a float32, so fewer need no try (but for subnormals, which stay as
    # protobuf prints them); nine tell any two apart.
    packed = _FLOAT32.pack(value)
    for digits in range(6, 9):
        short = float(f"{value:.{digits}g}")
        if short - short == 0 and _FLOAT32.pack(short) == packed:
            return short
    return float(f"{value:.9g}")


def without_secrets(text: str, *addresses: str) -> str:
    """A text without the secrets of addresses.

    Users and passwords, and everything after a ``?``, become ``***``.
    """
    remote = "\n".join(address for address in addresses if ":/" in address)
    users = re.findall(r":/+([^/\n]*)@", remote)
    secrets = {
        *users,
        *(user.partition(":")[2] for user in users),
        *re.findall(r"\?(.+)", remote),
    } - {""}
    return re.sub(
        "|".join(map(re.escape, sorted(secrets, key=len, reverse=True))) or "$^", "***", text
    )
