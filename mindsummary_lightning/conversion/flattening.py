"""Flatten nested containers to a sequence of ``outer/inner`` keys and values.

Metrics, hyper-parameters and batches are flattened in the same way.

MindInsight shows, filters and sorts by flat keys only. If a user's object raises an error when it
is read, the error is caught (except KeyboardInterrupt), and the traversal always ends.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar

from mindsummary_lightning.values.text import utf8_text

_T = TypeVar("_T")
_Default = TypeVar("_Default")
Items: TypeAlias = list[tuple[str, Any]]

_MAX_DEPTH = 16
_MAX_NODES = 100_000  # containers that share parts could otherwise unfold without end
# their objects hold no part of a batch
_OPAQUE_PACKAGES = ("torch", "lightning", "pytorch_lightning", "builtins")


def value_or_default(default: _Default, read: Callable[..., _T], *arguments: Any) -> _T | _Default:
    """Call a function; return a default value if the function raises.

    SystemExit is caught too, KeyboardInterrupt is not.
    """
    try:
        return read(*arguments)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return default


def mapping_items(value: Any) -> Items | None:
    """Return the keys, as text, and values of a mapping; ``None`` if it is no mapping."""
    if not isinstance(value, Mapping):
        return None
    return [(_key_text(key), _item(value, key)) for key in value]


def items_of(values: Any) -> list[tuple[Any, Any]]:
    """Return the names and values of a mapping, or of a sequence of pairs.

    Raises:
        TypeError: ``values`` is neither.
    """
    try:
        return list(dict(values).items())
    except (TypeError, ValueError):
        raise TypeError(
            f"the values must be a dict from names to numbers, got {type(values).__name__}"
        ) from None


def field_items(value: Any) -> Items | None:
    """Return a dataclass's field names and values; ``None`` if it is no dataclass."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return None
    return [(field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value)]


def batch_items(value: Any) -> Items | None:
    """Return the keys and elements of a container inside a batch.

    Containers are mappings, tuples, lists, dataclasses, and objects with attributes.

    The result is ``None`` for a leaf, such as a tensor or a module. Attributes are only read; no
    property is computed.
    """
    if isinstance(value, (tuple, list)):
        return list(zip(getattr(value, "_fields", map(str, range(len(value)))), value, strict=True))
    kind = type(value)
    items = mapping_items(value)
    if items is not None or isinstance(value, type):
        return items
    if str(kind.__module__).partition(".")[0] in _OPAQUE_PACKAGES:
        return None
    if hasattr(kind, "__torch_function__") or hasattr(kind, "named_parameters"):
        return None
    items = field_items(value)
    if items is None:
        return list(vars(value).items())
    return items


def leaves(
    root: Any, parts_of: Callable[[Any], Items | None] = mapping_items, empty: Any = None
) -> Iterator[tuple[str, Any]]:
    """Yield the key and value of every leaf of nested containers, in order.

    Keys have the form ``outer/inner``.

    ``parts_of`` returns the keys and values of a container, and ``None`` for a leaf. A container
    counts as a leaf if its items cannot be read, if it contains itself, or if it is more than 16
    levels deep. For an empty container ``empty`` is yielded; with ``None`` it is skipped.
    """
    todo: list[tuple[str, Any, tuple[Any, ...]]] = [("", root, ())]
    for _ in range(_MAX_NODES):
        if not todo:
            return
        key, value, outer = todo.pop()
        items = _items_within(outer, value, parts_of)
        if items:
            prefix = f"{key}/" if key else ""
            inner = (*outer, value)
            todo += [(prefix + name, child, inner) for name, child in reversed(items)]
        elif key and items is None:
            yield key, value
        elif key and empty is not None:
            yield key, empty


def _items_within(
    outer: tuple[Any, ...], value: Any, parts_of: Callable[[Any], Items | None]
) -> Items | None:
    """Return the keys and values of a nested container; ``None`` for a leaf."""
    if len(outer) > _MAX_DEPTH or any(value is container for container in outer):
        return None
    return value_or_default(None, parts_of, value)


def _key_text(key: Any) -> str:
    return value_or_default(type(key).__name__, lambda: utf8_text(str(key)))


def _item(mapping: Mapping[Any, Any], key: Any) -> Any:
    try:
        return mapping[key]
    except KeyboardInterrupt:
        raise
    except (
        BaseException
    ) as error:  # OmegaConf: a missing value or an interpolation that leads nowhere
        return f"<{type(error).__name__}>"
