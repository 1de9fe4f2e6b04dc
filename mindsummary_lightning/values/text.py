"""Convert texts and numbers for files, JSON, messages and terminals.

Numbers are shown as a person would write them.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_FLOAT32 = struct.Struct("<f")


class Phrase(str):
    """A str that remembers its template and values, so that it can be translated.

    Attributes:
        template: template of ``str.format``; without values the text itself.
        values: values of the template; phrases among them are translated too.
    """

    template: str
    values: tuple[object, ...]

    def __new__(cls, template: str, *values: object) -> Phrase:
        """Fill the template with the values."""
        phrase = super().__new__(cls, template.format(*values) if values else template)
        phrase.template, phrase.values = template, values
        return phrase

    def said(self, words: Mapping[str, str]) -> str:
        """Translate the text: ``words`` maps every template to its translation."""
        template = words.get(self.template, self.template)
        values = [
            value.said(words) if isinstance(value, Phrase) else value for value in self.values
        ]
        return template.format(*values) if values else template


def utf8_text(text: str) -> str:
    """Replace the lone surrogates of a text by escapes.

    UTF-8 cannot encode lone surrogates.
    """
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode()


def utf8_json(value: Any) -> Any:
    r"""Replace the lone surrogates in every text of a JSON value by escapes.

    An escape in JSON such as ``"\ud800"`` is a lone surrogate.
    """
    return map_json(value, lambda leaf: utf8_text(leaf) if isinstance(leaf, str) else leaf)


def map_json(value: Any, change: Callable[[Any], Any]) -> Any:
    """Apply a function to every number, text and key of a JSON value.

    Tuples become lists.
    """
    if isinstance(value, dict):
        return {change(key): map_json(entry, change) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [map_json(entry, change) for entry in value]
    return change(value)


def finite_or_named(value: Any) -> Any:
    """Replace a NaN or infinite float by its name, which JSON can hold.

    The names are ``NaN``, ``Infinity`` and ``-Infinity``. Any different value is returned
    unchanged.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def listed(names: Sequence[str], most: int) -> str:
    """Join names to a text such as ``a, b and 3 more``.

    The text has the first ``most`` names, and the number of the remaining names.
    """
    shown = ", ".join(names[:most])
    if len(names) > most:
        return Phrase("{} and {} more", shown, len(names) - most)
    return shown


def counted(number: int, noun: str) -> str:
    """Join a number and its noun to a text such as ``1 run`` or ``2 runs``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def shortest_float32(value: float) -> float:
    """Return the number with the fewest decimal digits that is the same float32.

    For example, the result is 0.1 for 0.10000000149011612.

    Every float32 that is given out as text, as JSON or in a float64 column passes through this
    function. So a query for 0.1 finds a value that was recorded as 0.1.

    Args:
        value: a number that a float32 holds exactly; NaN and infinities are returned unchanged.
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
    """Replace the passwords and tokens of addresses in a text by ``***``.

    The user, the password and everything after a ``?`` are replaced.
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
