"""Where the values of summary operators wait until somebody records the step.

The operators run deep inside a model and know no run; whoever records opens an :class:`OperatorBuffer` for the steps it
records. While none is open, ``is_open`` is False and an operator does nothing else than look at it.
"""

from __future__ import annotations

import logging
from typing import Any

__all__ = ["OperatorBuffer", "close", "is_open", "open_for", "put"]

_LOG = logging.getLogger(__name__)

is_open = False
_current: OperatorBuffer | None = None


class OperatorBuffer:
    """Values of the operators of one step: the newest of each kind and name, copied when it came."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], Any] = {}
        self._this_pass: set[tuple[str, str]] = set()
        self._reported: set[tuple[str, str]] = set()

    def begin_pass(self) -> None:
        """Say that another forward pass of the same step begins (an accumulated batch)."""
        self._this_pass.clear()

    def put(self, plugin: str, name: str, value: Any) -> None:
        """Keep a value; a second one under its name in the same pass replaces it, and that is said once."""
        key = (plugin, name)
        if key in self._this_pass and key not in self._reported:
            self._reported.add(key)
            _LOG.warning("%s %r was given by two summary operators in one step; the newest is recorded", plugin, name)
        self._this_pass.add(key)
        self._values[key] = value.detach().clone() if hasattr(value, "detach") else value

    def take(self) -> list[tuple[str, str, Any]]:
        """The kinds, names and values that wait, in the order they came first; none wait any more."""
        values, self._values = self._values, {}
        self._this_pass.clear()
        return [(plugin, name, value) for (plugin, name), value in values.items()]


def open_for(waiting: OperatorBuffer) -> None:
    """Let operators put their values there from now on."""
    global is_open, _current
    is_open, _current = True, waiting


def close(waiting: OperatorBuffer) -> None:
    """Stop taking values, unless somebody else has opened since."""
    global is_open, _current
    if _current is waiting:
        is_open, _current = False, None


def put(plugin: str, name: str, value: Any) -> None:
    """Hand a value to whoever waits for it."""
    if _current is not None:
        _current.put(plugin, name, value)
