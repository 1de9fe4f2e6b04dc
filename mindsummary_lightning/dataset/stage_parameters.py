"""Convert Python values to parameters on MindInsight's data pages.

No error is raised for a property that raises, or for a value that has no plain form.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch

from mindsummary_lightning.conversion.flattening import value_or_default
from mindsummary_lightning.conversion.hyperparameters import plain_value
from mindsummary_lightning.values.lineage_info import INT32_MAX, INT32_MIN, ParameterValue
from mindsummary_lightning.values.text import utf8_text

MAX_TEXT_CHARACTERS = 1000
_MAX_ELEMENTS = 32
_MAX_NESTING = 4

# The pages keep their own values under these keys of a node.
_KEYS_OF_THE_PAGE = frozenset({"key", "id", "children", "operations", "sampler"})


# Any: fields of any user's object
def safe_getattr(owner: Any, name: str, default: Any = None) -> Any:
    """Return an attribute, or the default if reading the attribute fails."""
    return value_or_default(default, getattr, owner, name, default)


def display_name(text: str) -> str:
    """Remove characters that break MindInsight's drawings from the name of a type.

    ``<lambda>`` becomes ``lambda``.
    """
    drawable = "".join("_" if c in '<>"{}|\\/' or not c.isprintable() else c for c in text).strip(
        "_ "
    )
    return drawable[:100] or "unnamed"


def dataset_class_name(value: Any) -> str:
    """Return the module and class of an object as a text such as ``package.Class``."""
    return f"{type(value).__module__}.{type(value).__qualname__}"


def public_fields(owner: Any) -> dict[str, Any]:
    """Return the attributes of an object whose names do not start with ``_``."""
    fields = safe_getattr(owner, "__dict__", {})
    return {
        name: value
        for name, value in dict(fields).items()
        if isinstance(name, str) and not name.startswith("_")
    }


def parameters_of(
    fields: Mapping[str, Any] | Iterable[tuple[str, Any]],
) -> dict[str, ParameterValue]:
    """Convert fields to the parameters of a pipeline stage, as MindSpore writes them.

    List elements and mappings become JSON, None becomes the text ``None``, and empty lists are left
    out.

    An int beyond 32 bits and a float that is not finite become text, because of the limits of the
    lineage file and of MindInsight.
    """
    parameters: dict[str, ParameterValue] = {}
    for name, value in dict(fields).items():
        key = f"{name}_" if name in _KEYS_OF_THE_PAGE else utf8_text(str(name))
        parameter = _parameter(_plain(value, _MAX_NESTING))
        if parameter != ():
            parameters[key] = parameter
    return parameters


def json_text(fields: Mapping[str, Any]) -> str:
    """Convert fields to the text of a JSON object of at most 1,000 characters.

    Values that would make the text longer are replaced by ``...``.
    """
    plain = {str(name): _plain(value, _MAX_NESTING) for name, value in fields.items()}
    for longest in sorted(plain, key=lambda name: -len(json.dumps(plain[name]))):
        if len(json.dumps(plain)) <= MAX_TEXT_CHARACTERS:
            break
        plain[longest] = "..."
    text = json.dumps(plain)
    if len(text) <= MAX_TEXT_CHARACTERS:
        return text
    return json.dumps({"parameters": len(plain)})


def _parameter(plain: Any) -> ParameterValue:
    if isinstance(plain, int) and not INT32_MIN <= plain <= INT32_MAX:
        return str(plain)
    if isinstance(plain, (bool, int, float)):
        return plain
    if isinstance(plain, list):
        return tuple("" if element is None else json.dumps(element) for element in plain)
    if isinstance(plain, dict):
        return json.dumps(plain)[:MAX_TEXT_CHARACTERS]
    return str(plain)


def _plain(value: Any, nesting: int) -> Any:
    """Convert an object to a value that JSON can hold.

    Short vectors, lists and mappings keep their structure.
    """
    if value is None or isinstance(value, bool):
        return value
    if _is_short_vector(value):
        value = value.tolist()
    if nesting and isinstance(value, (list, tuple, set, frozenset)):
        if len(value) > _MAX_ELEMENTS:
            return f"{type(value).__name__} of {len(value)} elements"
        return [_plain(element, nesting - 1) for element in value]
    if nesting and isinstance(value, dict):
        pairs = itertools.islice(value.items(), _MAX_ELEMENTS)
        return {utf8_text(str(key)): _plain(element, nesting - 1) for key, element in pairs}
    plain = plain_value(value)
    if isinstance(plain, str):
        return plain[:MAX_TEXT_CHARACTERS]
    return plain


def _is_short_vector(value: Any) -> bool:
    """Tell whether a value is a short array or tensor of one dimension on the CPU."""
    if not isinstance(value, (torch.Tensor, np.ndarray)) or value.ndim != 1:
        return False
    return str(getattr(value, "device", "cpu")) == "cpu" and len(value) <= _MAX_ELEMENTS
