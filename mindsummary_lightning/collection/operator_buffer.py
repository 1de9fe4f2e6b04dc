"""Keeps the values of summary operators in buffers until a step is recorded.

The module also chooses the buffers that a value belongs to.

The operators run deep inside a model and know no run. A value belongs to the training of its
context (``contextvars``: a thread has one of its own, ``asyncio.to_thread`` copies one); on a step
that this training does not collect, and where none runs, to the SummaryRecords of its thread. In a
thread without any of these it belongs to the one thread that records, if it is given in a backward
pass, which a device runs in threads of torch, or if its thread began after the recording; otherwise
nobody knows whose it is: docs/decisions/0042.

While no buffer takes values, an operator reads one flag, ``is_listening``, and returns.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import weakref
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from mindsummary_lightning.conversion.arrays import to_array
from mindsummary_lightning.errors import printable
from mindsummary_lightning.warn_once import WarnOnce

_LOG = logging.getLogger(__name__)

is_open: bool = False
is_listening: bool = True  # also until the first value that nobody takes
_trainings: list[OperatorBuffer] = []
_records: list[OperatorBuffer] = []
_training: ContextVar[OperatorBuffer | None] = ContextVar("training", default=None)


class OperatorBuffer:
    """The values given to summary operators since the last :meth:`take`.

    It keeps the newest value of a kind and name, copied when it came.

    Of one step (``is_of_one_step``), a second value under one name in the same pass is worth a
    warning.

    Attributes:
        thread: the thread whose values the buffer collects; set when the buffer is opened.
        process: the number of that thread's process.
        is_taking: whether the buffer collects values now.
        warnings: what is said once of the values of this buffer's training or record.
    """

    def __init__(self, is_of_one_step: bool = True) -> None:
        self.thread: threading.Thread | None = None
        self.is_taking = False
        # that were alive when it was opened
        self._others: weakref.WeakSet[threading.Thread] | None = None
        self._outer: OperatorBuffer | None = None
        self.process: int | None = None
        self._values: dict[tuple[str, str], Any] = {}
        # whether a name was given in the forward pass
        self._this_pass: dict[tuple[str, str], bool] = {}
        self._is_of_one_step = is_of_one_step
        self.warnings: WarnOnce = WarnOnce(_LOG)

    def settle(self) -> None:
        """Assign this buffer to the current thread, whose values it collects."""
        self.process = os.getpid()
        self.thread = threading.current_thread()
        if self._others is None:
            self._others = weakref.WeakSet(threading.enumerate())

    def can_have_started(self, thread: threading.Thread) -> bool:
        """Tell whether this buffer's thread may have started a given thread."""
        return self._others is not None and thread not in self._others

    def begin_pass(self) -> None:
        """Note that another forward pass of the same step begins (an accumulated batch)."""
        self._this_pass.clear()

    def put(self, plugin: str, name: str, value: Any, in_backward: bool = False) -> None:
        """Store an operator's value in this buffer.

        A second value under its name in the same pass replaces it, with a warning per name.

        In a backward pass, what the forward pass gave is only computed again, for activation
        checkpointing.
        """
        key = (plugin, name)
        was_forward = self._this_pass.get(key)
        if in_backward and was_forward:
            return
        if self._is_of_one_step and was_forward is not None:
            text = (
                "%s %r was recorded twice in one step (by two operators, or because the optimizer "
                "called its closure again). The last value is kept"
            )
            self.warnings.warn(key, text, *key)
        self._this_pass[key] = not in_backward
        try:
            self._values[key] = _copied(value)
        except (MemoryError, RuntimeError) as error:  # a device without memory
            self.warnings.warn(
                ("copy", key),
                "%s %r is not recorded, because its value cannot be copied: %s",
                *key,
                error,
            )

    def take(self) -> list[tuple[str, str, Any]]:
        """Return the stored kinds, names and values, and remove them from the buffer.

        They are in the order in which each name first appeared.
        """
        values, self._values = self._values, {}
        self._this_pass.clear()
        return [(plugin, name, value) for (plugin, name), value in values.items()]


def begin_training(buffer: OperatorBuffer) -> None:
    """Assign a buffer to the training that begins in this thread and context.

    ``buffer`` is opened for its collected steps.
    """
    end_training(buffer)
    buffer.settle()
    buffer._outer = _training.get()
    _trainings.append(buffer)
    _training.set(buffer)


def end_training(buffer: OperatorBuffer) -> None:
    """Close a training's buffer for good; does nothing if this was done before."""
    close(buffer)
    with contextlib.suppress(ValueError):
        _trainings.remove(buffer)
    if _training.get() is buffer:
        _training.set(buffer._outer)


def open_for(buffer: OperatorBuffer, is_record: bool = False) -> None:
    """Let operators put their values into a buffer from now on.

    A SummaryRecord's buffer (``is_record``) gets no values while a step of its thread's training is
    collected.
    """
    close(buffer)
    if is_record:
        buffer.settle()
        _records.append(buffer)
    elif buffer not in _trainings:
        begin_training(buffer)
    buffer.is_taking = True
    _set_open()


def close(buffer: OperatorBuffer) -> None:
    """Stop collecting values into a buffer; does nothing if it is not open."""
    buffer.is_taking = False
    with contextlib.suppress(ValueError):
        _records.remove(buffer)
    _set_open()


def open_buffers() -> list[OperatorBuffer]:
    """List the buffers of trainings and SummaryRecords that have not ended."""
    return [*_trainings, *_records]


def put(plugin: str, name: str, value: Any, in_backward: bool = False) -> None:
    """Store a value in the buffers of the training or record that it belongs to.

    If they are unknown, the value is not recorded, which is logged once.
    """
    for buffer in _owners(plugin, name, in_backward) if is_open else _nobody(plugin, name):
        if buffer.process == os.getpid():
            buffer.put(plugin, name, value, in_backward)
        else:
            text = (
                "%s %r is not recorded: it was given in a process that was forked from the "
                "recording process"
            )
            buffer.warnings.warn("forked", text, plugin, name, level=logging.DEBUG)


def _owners(plugin: str, name: str, in_backward: bool) -> Sequence[OperatorBuffer]:
    training, thread = _training.get(), threading.current_thread()
    # at once: other threads come and go meanwhile
    if training is not None and training in _trainings:
        if training.is_taking:
            return [training]
        return [record for record in _records if record.thread is training.thread]
    own = [record for record in _records if record.thread is thread]
    if own:
        return own
    buffers = _buffers_of_only_thread()
    if buffers and (in_backward or all(buffer.can_have_started(thread) for buffer in buffers)):
        return buffers
    for buffer in open_buffers()[:1]:  # any of them: the value may be of each
        buffer.warnings.warn(
            "unknown",
            "%s %r is not recorded, because the thread %r called the summary operator, and it is "
            "unknown to which training this thread belongs. Call summary operators in the thread "
            "that trains, or in its context: contextvars.copy_context().run",
            *(plugin, name, thread.name),
        )
    return ()


def _buffers_of_only_thread() -> Sequence[OperatorBuffer]:
    """Return the open buffers if they belong to one thread, otherwise an empty list."""
    if len({id(buffer.thread) for buffer in open_buffers()}) != 1:
        return ()
    return [training for training in _trainings if training.is_taking][-1:] or _records


def _nobody(plugin: str, name: str) -> Sequence[OperatorBuffer]:
    global is_listening
    is_listening = False
    _LOG.debug(
        "%s %r is not recorded: no SummaryCollector collects this step, "
        "and no SummaryRecord is open in mode 'train'",
        *(plugin, printable(name)),
    )
    return ()


def _copied(value: Any) -> Any:
    """Copy a value, so that later changes in place do not affect the record.

    An object that cannot be recorded stays as it is, for the error message.
    """
    if hasattr(value, "detach"):
        return value.detach().clone()
    if isinstance(value, (int, float)):
        return value
    try:
        return np.array(to_array(value))
    except (TypeError, ValueError, RuntimeError):
        return value


def _wants_values() -> bool:
    return bool(_records) or any(buffer.is_taking for buffer in tuple(_trainings))


def _set_open() -> None:
    global is_open, is_listening
    was_open = is_open
    is_wanted = _wants_values()
    while is_open != is_wanted:
        is_open = is_wanted
        is_wanted = _wants_values()  # another thread may have changed its mind
    if is_open or was_open:
        is_listening = is_open
