"""``untraced``: keeps a method that records out of what ``torch.compile`` traces, without importing torch.

It does what ``torch.compiler.disable`` does, which would import the compiler and makes each call
slower.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")

_COMPILER = "torch._dynamo.eval_frame"
# sets what the compiler does with the frames of this thread
_set_callback: Callable[[Any], Any] | None = None


def untraced(method: Callable[_P, _R]) -> Callable[_P, _R]:
    """Make a method of which nothing is compiled, also where compiled code calls it."""

    @functools.wraps(method)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if _set_callback is None:
            return (
                method(*args, **kwargs)
                if _COMPILER not in sys.modules
                else _first_call(method, *args, **kwargs)
            )
        prior = _set_callback(None)
        try:
            return method(*args, **kwargs)
        finally:
            _set_callback(prior)

    call._torchdynamo_disable = True  # type: ignore[attr-defined]  # what torch.compiler.disable sets
    return call


def leave_calls_alone() -> None:
    """Tell torch's compiler, if it is loaded, that the methods' wrappers are not compiled either.

    Whoever records calls this when it is made: told by the first call itself, the compiler would
    look at that one.
    """
    global _set_callback
    if _set_callback is not None or _COMPILER not in sys.modules:
        return
    torch: Any = sys.modules["torch"]
    # a later PyTorch: each call is then disabled by itself, which is slower
    with contextlib.suppress(AttributeError):
        torch._dynamo.eval_frame.skip_code(_stand_in.__code__)
        _set_callback = torch._C._dynamo.eval_frame.set_eval_frame


@untraced
def _stand_in() -> None:
    """Stand for all wrappers, which share their code."""


def _first_call(method: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
    leave_calls_alone()
    compiled: Any = sys.modules["torch"].compiler
    result: _R = compiled.disable(method)(*args, **kwargs)
    return result
