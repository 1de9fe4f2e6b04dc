"""Finds in the call stack the Trainer that makes the present call."""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from mindsummary_lightning.warn_once import WarnOnce

_LOG = logging.getLogger(__name__)
_WARN_ONCE = WarnOnce(_LOG)

_NAMESPACES = ("lightning.pytorch.", "pytorch_lightning.")
_CALLS = {
    (f"{namespace}trainer.trainer", name)
    for namespace in _NAMESPACES
    for name in ("fit", "validate", "test", "predict")
}
# of a logger's methods
_WRAPPERS = ("lightning_utilities.", "mindsummary_lightning.recording.untraced")


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield a frame and its callers, innermost first."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__"))


def _self(frame: FrameType) -> Any | None:
    """Return the value of ``self`` in a frame, or ``None`` without this variable.

    The variables of other frames are not read: before Python 3.13, a frame keeps what was read of
    it until it is over, also what its function has deleted meanwhile, such as a Trainer.
    """
    code = frame.f_code
    return frame.f_locals.get("self") if "self" in code.co_varnames + code.co_freevars else None


def _frame_of_lightning(frame: FrameType | None, logger: Any) -> FrameType | None:
    """Return Lightning's innermost frame if this frame calls a logger's method.

    All frames between it and ``frame`` are the logger's own methods.
    """
    while frame is not None:
        module = _module(frame)
        if module.startswith(_NAMESPACES):  # and not Fabric
            return frame
        is_own = module.startswith(_WRAPPERS) or _self(frame) is logger
        frame = frame.f_back if is_own else None
    return None


def is_called_by_trainer(logger: Any) -> bool:
    """Tell whether the logger's running method was called by a Trainer.

    Methods of a user's subclass in between do not count.
    """
    return _frame_of_lightning(sys._getframe(2), logger) is not None


def calling_trainer(logger: Any) -> Any | None:
    """Return the Trainer that has a logger and calls its method, or ``None``.

    ``None`` if another caller does.
    """
    values = getattr(_frame_of_lightning(sys._getframe(1), logger), "f_locals", {})
    owner = values.get("trainer", values.get("self"))
    trainer = getattr(owner, "trainer", owner)  # a connector's
    is_its_own = any(known is logger for known in getattr(trainer, "loggers", ()))
    return trainer if is_its_own else None


def is_within_trainer() -> bool:
    """Tell whether a method of a Trainer is running in this thread."""
    inside = tuple(f"{namespace}trainer." for namespace in _NAMESPACES)
    return any(_module(frame).startswith(inside) for frame in _frames(inspect.currentframe()))


def calls_of_trainers() -> int:
    """Count the methods of Trainers that are running in this thread.

    There are two if a hook of one call has made the second call.
    """
    frames = _frames(inspect.currentframe())
    return sum((_module(frame), frame.f_code.co_name) in _CALLS for frame in frames)


def launching_trainer() -> Any | None:
    """Return the Trainer that is starting processes, which get a copy of it."""
    for frame in _frames(inspect.currentframe()):
        if _module(frame).endswith(".strategies.launchers.multiprocessing"):
            return frame.f_locals.get("trainer")
    return None


def is_called_by_tuner() -> bool:
    """Tell whether the fit is run by a ``Tuner``, and ends before any training."""
    return any(
        _module(frame).endswith(".tuner.tuning") for frame in _frames(inspect.currentframe())
    )


def resume_path(trainer: Any) -> Any | None:
    """Return the checkpoint that a Trainer's running call resumes from, or ``None``.

    Until the checkpoint is loaded, which is after ``setup``, ``trainer.ckpt_path`` is that of the
    call before. So the argument ``ckpt_path`` is read, of the innermost method of the Trainer that
    has one; ``Trainer.fit`` itself does.
    """
    for frame in _frames(inspect.currentframe()):
        code = frame.f_code
        arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if "ckpt_path" in arguments and frame.f_locals.get("self") is trainer:
            return frame.f_locals["ckpt_path"]
    _WARN_ONCE.warn(
        "ckpt_path",
        "this version of Lightning is unknown: cannot find ckpt_path. A resumed fit may be "
        "recorded as a new run. To continue the old run, pass version=... to the logger",
        level=logging.ERROR,
    )
    return getattr(trainer, "ckpt_path", None)
