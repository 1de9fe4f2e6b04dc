"""Keep recording out of the traces of ``torch.compile``, without importing torch.

``torch.compiler.disable`` does the same. It would import the compiler, and makes each call slower.
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
_MODULES = sys.modules

# Of the compiler, once it is known: what it calls for the frames of this thread, ``None`` outside
# of compiled code; and the function that sets it and returns the one before.
_get_callback: Callable[[], Any] | None = None
_set_callback: Any = None


def untraced(method: Callable[_P, _R]) -> Callable[_P, _R]:
    """Wrap a method so that ``torch.compile`` traces neither it nor its callees."""

    @functools.wraps(method)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if _get_callback is None:
            if _COMPILER in _MODULES:
                return _first_call(method, *args, **kwargs)
        elif _get_callback() is not None:
            return _call_without_compiler(method, *args, **kwargs)
        return method(*args, **kwargs)

    # as torch.compiler.disable does
    call._torchdynamo_disable = True  # type: ignore[attr-defined]
    return call


def refused_in_compiled_code(method: Callable[_P, _R]) -> Callable[_P, _R]:
    """Wrap a method so that a call from compiled code raises RuntimeError."""

    @functools.wraps(method)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if _is_in_compiled_code():
            raise RuntimeError(
                f"{method.__qualname__} must be called outside of compiled code, got a call in a "
                "function under torch.compile. Call it around the compiled function"
            )
        return method(*args, **kwargs)

    call._torchdynamo_disable = True  # type: ignore[attr-defined]  # as above
    return call


def _is_in_compiled_code() -> bool:
    leave_calls_alone()
    if _get_callback in (None, _unknown_callback):
        return False
    return _get_callback() is not None


def _call_without_compiler(method: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
    callback = _set_callback(None)
    try:
        return method(*args, **kwargs)
    finally:
        _set_callback(callback)


def leave_calls_alone() -> None:
    """Tell ``torch.compile`` to skip this module's wrappers, if torch is loaded.

    A record and a logger call this function when they are made. At the first call of a wrapper it
    would be too late, because the compiler would already trace that call.
    """
    global _get_callback, _set_callback
    if _get_callback is not None or _COMPILER not in sys.modules:
        return
    torch: Any = sys.modules["torch"]
    # a later PyTorch: each call is then disabled by itself, which is slower
    with contextlib.suppress(AttributeError):
        for function in (
            _stand_in,
            _refusing_stand_in,
            _is_in_compiled_code,
            _call_without_compiler,
        ):
            torch._dynamo.eval_frame.skip_code(function.__code__)
        functions = torch._C._dynamo.eval_frame
        _set_callback = functions.set_eval_frame
        _get_callback = getattr(functions, "get_eval_frame_callback", _unknown_callback)


@untraced
def _stand_in() -> None:
    """Represent all wrappers of :func:`untraced`, which share one code object."""


@refused_in_compiled_code
def _refusing_stand_in() -> None:
    """Represent all wrappers of :func:`refused_in_compiled_code`."""


def _unknown_callback() -> object:
    """Represent the callback that PyTorch before 2.6 does not report."""
    return _unknown_callback


def _first_call(method: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
    leave_calls_alone()
    compiled: Any = sys.modules["torch"].compiler
    result: _R = compiled.disable(method)(*args, **kwargs)
    return result
