"""Calls in place of the user's, from frames that look like theirs.

A warning has the file, line and module of a frame: C++ takes the nearest one of Python, ``stacklevel=2`` the one above.
In an observed step these would be ours, and filters for the user's modules would not hold
(docs/decisions/0040-frames-in-an-observed-step.md).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import CodeType, FrameType, FunctionType
from typing import Any

# Any, in this module: arguments and results of whatever the user calls.
_DEPTH = 6  # frames that are replayed; torch's own warnings reach up to five
_PER_FRAME = 4  # a module takes three frames of torch's, and with these three of ours and the replayed ones
_OURS = f"{__package__}."
_FORWARD_CALL: CodeType = (lambda call, args, kwargs: call(*args, **kwargs)).__code__


class ReplayedFrames:
    """Calls functions as if the frames around us had called them, without those of this package among them."""

    def __init__(self) -> None:
        self._codes: dict[tuple[CodeType, int], CodeType] = {}

    def call(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What the function returns or raises; a traceback has no replayed frames in it."""
        call, depth = function, 0
        for frame in _outer_frames(function):
            replayed = FunctionType(self._code(frame), frame.f_globals)
            call, args, kwargs = replayed, (call, args, kwargs), {}
            depth += 1
        try:
            return call(*args, **kwargs)
        except BaseException as error:
            traceback = error.__traceback__
            for _ in range(depth + 1):
                traceback = None if traceback is None else traceback.tb_next
            raise error.with_traceback(traceback)  # noqa: B904 - it is the same one

    def _code(self, frame: FrameType) -> CodeType:
        key = frame.f_code, frame.f_lineno
        if key not in self._codes:
            self._codes[key] = _FORWARD_CALL.replace(
                co_filename=frame.f_code.co_filename, co_name=frame.f_code.co_name, co_firstlineno=frame.f_lineno
            )
        return self._codes[key]


@contextmanager
def room_for_frames() -> Iterator[None]:
    """A context in which the recursion limit leaves the user as many frames as without ours."""
    limit = sys.getrecursionlimit()
    raised = limit * _PER_FRAME
    sys.setrecursionlimit(raised)
    try:
        yield
    finally:
        if sys.getrecursionlimit() == raised:
            sys.setrecursionlimit(limit)


def _outer_frames(function: Callable[..., Any]) -> list[FrameType]:
    """The nearest frames around this package, without the call of a torch function that ended up at its mode."""
    frames: list[FrameType] = []
    frame: FrameType | None = sys._getframe(2)
    has_dispatched = False
    while frame is not None and len(frames) < _DEPTH:
        module = frame.f_globals.get("__name__", "")
        if not frames and module == "torch.overrides":
            has_dispatched = True
        elif has_dispatched and frame.f_code is getattr(function, "__code__", None):
            has_dispatched = False
        elif not module.startswith(_OURS):
            frames.append(frame)
        frame = frame.f_back
    return frames
