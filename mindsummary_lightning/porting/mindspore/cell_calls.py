"""``CellCalls``: reports cell calls to observers, which may replace tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import mindspore

# Any, in this module: MindSpore's cells, and what the user's cells take and return.


class CellObserver(Protocol):
    """Protocol of an observer, which is told about every call of a cell.

    Its methods must not raise.
    """

    def enter(
        self, cell: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Receive a beginning call; return the arguments with which the cell runs."""

    def leave(self, cell: Any, output: Any) -> Any:
        """Receive a finished call; return the output that the caller gets."""

    def abandon(self, cell: Any) -> None:
        """Receive a call that ended with an error."""


class CellCalls:
    """Reports every call of a cell to observers, in PyNative mode.

    No cell gets a hook, because code that ``mindspore.jit`` compiles would hold it.
    ``Cell.__call__`` is replaced as long as there is an observer, and compiled code does not enter
    it.
    """

    _observers: ClassVar[list[CellObserver]] = []
    _own_call: ClassVar[Callable[..., Any]] = mindspore.nn.Cell.__call__

    @classmethod
    def add(cls, observer: CellObserver) -> None:
        """Report cell calls to an observer until :meth:`remove`."""
        if not cls._observers:
            cls._own_call, mindspore.nn.Cell.__call__ = mindspore.nn.Cell.__call__, _call
        cls._observers.append(observer)

    @classmethod
    def remove(cls, observer: CellObserver) -> None:
        """Stop reporting cell calls to an observer."""
        if observer in cls._observers:
            cls._observers.remove(observer)
            if not cls._observers and mindspore.nn.Cell.__call__ is _call:
                mindspore.nn.Cell.__call__ = cls._own_call

    @classmethod
    def run_unseen(cls, cell: Any, *args: Any) -> Any:
        """Call a cell without reporting the call to the observers."""
        return cls._own_call(cell, *args)


def _call(cell: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Replace ``Cell.__call__``: call the cell and report it to the observers."""
    observers = [*CellCalls._observers]
    for observer in observers:
        args, kwargs = observer.enter(cell, args, kwargs)
    try:
        output = CellCalls._own_call(cell, *args, **kwargs)
    except BaseException:
        for observer in observers:
            observer.abandon(cell)
        raise
    for observer in reversed(observers):
        output = observer.leave(cell, output)
    return output
