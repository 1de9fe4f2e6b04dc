"""Buffers that hold the values of summary operators until a step is recorded.

The operators run deep inside a model and know no run. A collector opens an :class:`OperatorBuffer` for each step that
it collects, and gets all values while it is open; otherwise every open SummaryRecord gets them. While no buffer is
open, ``is_open`` is False and an operator reads that flag and returns.
"""

from __future__ import annotations

import logging
from typing import Any

from mindsummary_lightning.warn_once import WarnOnce

_LOG = logging.getLogger(__name__)

is_open = False
_collectors: list[OperatorBuffer] = []
_records: list[OperatorBuffer] = []


class OperatorBuffer:
    """Values of the operators since the last :meth:`take`: the newest of each kind and name, copied when it came.

    Args:
        is_of_one_step: whether a second value under one name in the same pass is worth a warning.
    """

    def __init__(self, is_of_one_step: bool = True) -> None:
        self._values: dict[tuple[str, str], Any] = {}
        self._this_pass: set[tuple[str, str]] = set()
        self._is_of_one_step = is_of_one_step
        self._warnings = WarnOnce(_LOG)

    def begin_pass(self) -> None:
        """Note that another forward pass of the same step begins (an accumulated batch)."""
        self._this_pass.clear()

    def put(self, plugin: str, name: str, value: Any) -> None:
        """Keep a value; a second one under its name in the same pass replaces it, with one warning per name."""
        key = (plugin, name)
        if self._is_of_one_step and key in self._this_pass:
            text = "%s %r was given twice in one step, by two operators or a closure run again; the newest is recorded"
            self._warnings.warn(key, text, *key)
        self._this_pass.add(key)
        self._values[key] = value.detach().clone() if hasattr(value, "detach") else value

    def take(self) -> list[tuple[str, str, Any]]:
        """Remove and return the kinds, names and values, in the order in which the names came first."""
        values, self._values = self._values, {}
        self._this_pass.clear()
        return [(plugin, name, value) for (plugin, name), value in values.items()]


def open_for(buffer: OperatorBuffer, is_record: bool = False) -> None:
    """Let operators put their values into a buffer from now on.

    That of a SummaryRecord (``is_record``) gets nothing while a collector's buffer is open.
    """
    close(buffer)
    (_records if is_record else _collectors).append(buffer)
    _set_open()


def close(buffer: OperatorBuffer) -> None:
    """Put no more values into a buffer; does nothing if it is not open."""
    for opened in (_collectors, _records):
        opened[:] = [other for other in opened if other is not buffer]
    _set_open()


def put(plugin: str, name: str, value: Any) -> None:
    """Put a value into the newest open buffer of a collector, or else into those of all SummaryRecords."""
    for buffer in _collectors[-1:] or _records:
        buffer.put(plugin, name, value)


def _set_open() -> None:
    global is_open
    is_open = bool(_collectors or _records)
