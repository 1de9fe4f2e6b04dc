"""Report all calls of modules on a thread to watchers.

The calls are not changed.

Meanwhile ``nn.Module.__call__`` is replaced. Around a compiled region the original is restored, so
that the region is compiled, and found in the cache later, as without recording (docs/decisions/0017
gives the reason).
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, ClassVar

import torch
from torch import nn

from mindsummary_lightning.errors import GraphCaptureError
from mindsummary_lightning.graph.module_names import is_compiled

# Any, in this module: arguments and results of whatever the user calls.
_HAVE_FUSED_KERNELS = (nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerEncoder)
_COMPILER = "torch._dynamo.eval_frame"
_SET_CALLBACK = "_maybe_set_eval_frame"
_COMPILED_CALLS = ("compile_wrapper", "_fn")  # names in recent and in older releases of torch


class Watcher:
    """A base class for objects to which module calls are reported."""

    def wants_calls(self) -> bool:
        """Tell whether the next call of a module is to be reported to this watcher."""
        return True

    def enter_module(self, module: nn.Module, is_whole: bool, arguments: Any) -> None:
        """Handle the start of a module call; ``arguments`` is ``(args, kwargs)``.

        With ``is_whole``, calls inside the module are not reported.
        """

    def leave_module(self, is_whole: bool, arguments: Any, output: Any) -> None:
        """Handle the end of the innermost module call.

        ``output`` is the result of the call, or ``None`` if it raised an error.
        """

    def add_compiled(self, name: str, owner: Any, arguments: Any, output: Any) -> None:
        """Handle the end of a call of a compiled function.

        ``owner`` is the object whose method the function is, or ``None``.
        """

    def pause(self) -> None:
        """Remove the watcher's hooks, because a region runs that must not see them."""

    def resume(self) -> None:
        """Install the watcher's hooks again, after :meth:`pause`."""

    def fail(self, error: Exception) -> None:
        """Handle an error because of which some calls cannot be reported."""


class _Replaced:
    """An attribute of torch or Python that threads replace for a while.

    All threads share the attribute. They may begin and end in any order: the original returns after
    the last thread has ended, unless other code has replaced the attribute since.
    """

    def __init__(self, read: Callable[[], Any], write: Callable[[Any], None]) -> None:
        self.own = read()
        self._read = read
        self._write = write
        self.replacement: Any = None  # the newest
        self._wanted_by: set[int] = set()
        self._lock = threading.RLock()

    def __contains__(self, thread: int) -> bool:
        return thread in self._wanted_by

    def replace(self, thread: int, replacement: Callable[[Any], Any]) -> None:
        """Replace the original for a thread, if no thread has replaced it yet.

        ``replacement(original)`` returns the new value.
        """
        with self._lock:
            is_first = not self._wanted_by
            # before the rest: an interrupt may come between any two lines
            self._wanted_by.add(thread)
            if is_first:
                self.own = self._read()
                self.replacement = replacement(self.own)
                self._write(self.replacement)

    def give_back(self, thread: int) -> None:
        """Restore the original value if no other thread wants the replacement."""
        with self._lock:
            if thread not in self._wanted_by:
                return
            if self._wanted_by == {thread} and self._read() == self.replacement:
                self._write(self.own)
            self._wanted_by.remove(thread)

    def give_back_after_fork(self) -> None:
        """Restore the original in a forked child process, where no thread wants it."""
        self._lock = threading.RLock()
        if self._wanted_by and self._read() == self.replacement:
            self._write(self.own)
        self._wanted_by.clear()


class ModuleCalls:
    """The calls of modules on a thread, which are reported to watchers.

    Several watchers may receive the calls at once.
    """

    _active: ClassVar[dict[int, ModuleCalls]] = {}  # by thread
    _module_call: ClassVar = _Replaced(
        lambda: nn.Module.__call__, lambda call: setattr(nn.Module, "__call__", call)
    )
    _set_callback: ClassVar = _Replaced(
        lambda: getattr(sys.modules.get(_COMPILER), _SET_CALLBACK, None),
        lambda function: setattr(sys.modules[_COMPILER], _SET_CALLBACK, function),
    )
    _frames: ClassVar = _Replaced(sys.getrecursionlimit, sys.setrecursionlimit)

    def __init__(self) -> None:
        self._watchers: list[Watcher] = []
        self._thread = threading.get_ident()
        self._compiled_call: FrameType | None = None

    @classmethod
    @contextmanager
    def told_to(cls, watcher: Watcher) -> Iterator[None]:
        """Return a context in which module calls are reported to a watcher.

        Afterwards everything is as before, even if the user's code raised an error.
        """
        calls = cls._active.get(threading.get_ident())
        if calls is not None:
            calls._watchers.append(watcher)
            watcher.resume()
            try:
                yield
            finally:
                watcher.pause()
                calls._watchers.remove(watcher)
            return
        calls = cls()
        calls._watchers.append(watcher)
        try:
            cls._active[calls._thread] = calls
            # As many frames are left to the user as without ours, two of them a module.
            cls._frames.replace(calls._thread, lambda limit: 2 * limit)
            calls._watch()
            yield
        finally:
            calls._remove()
            cls._set_callback.give_back(calls._thread)
            cls._frames.give_back(calls._thread)
            cls._active.pop(calls._thread, None)

    @classmethod
    def end_after_fork(cls) -> None:
        """Stop all reports in a forked child process, such as a DataLoader worker."""
        for calls in cls._active.values():
            if calls._thread == threading.get_ident():
                calls._remove()
        cls._active.clear()
        for replaced in (cls._module_call, cls._set_callback, cls._frames):
            replaced.give_back_after_fork()

    def _watch(self) -> None:
        compiler: Any = sys.modules.get(_COMPILER)
        if compiler is not None and not hasattr(compiler, _SET_CALLBACK):
            self._fail(
                GraphCaptureError(
                    "this version of PyTorch enters compiled regions in an unknown way"
                )
            )
            return
        self._attempt(self._install)
        if compiler is not None:
            # torch 2.5 still compiles what it calls when it leaves a region.
            for ours in (_set_callback, ModuleCalls._move_into_region):
                torch.compiler.disable(ours, recursive=False)  # type: ignore[no-untyped-call]
            self._set_callback.replace(self._thread, lambda _: _set_callback)

    def _call_module(
        self, own: Callable[..., Any], module: nn.Module, args: Any, kwargs: Any
    ) -> Any:
        told: Sequence[Watcher] = ()
        if self._thread in self._module_call:
            told = [watcher for watcher in self._watchers if watcher.wants_calls()]
        if not told:
            return own(module, *args, **kwargs)
        output, is_whole = None, bool(self._attempt(_is_one_node, module))
        for watcher in told:
            watcher.enter_module(module, is_whole, (args, kwargs))
        if is_whole:
            self._remove()
        try:
            output = own(module, *args, **kwargs)
        finally:
            if is_whole:
                self._attempt(self._install)
            for watcher in told:
                watcher.leave_module(is_whole, (args, kwargs), output)
        return output

    def _move_into_region(self, caller: FrameType, callback: Any) -> Any:
        """Restore ``nn.Module.__call__`` while a compiled region runs.

        The compiler calls this function before a region, with a callback, and after it.
        """
        if caller is self._compiled_call:
            self._compiled_call = None
            prior = self._set_callback.own(callback)
            self._attempt(self._install)
            self._attempt(self._add_compiled, caller.f_locals)
            return prior
        is_entering = callable(callback) and caller.f_code.co_name in _COMPILED_CALLS
        if is_entering and self._thread in self._module_call:
            self._compiled_call = caller
            self._remove()
        return self._set_callback.own(callback)

    def _add_compiled(self, local: dict[str, Any]) -> None:
        if "result" not in local:
            return
        name, owner = (
            getattr(local["fn"], "__name__", "compiled"),
            getattr(local["fn"], "__self__", None),
        )
        for watcher in [watcher for watcher in self._watchers if watcher.wants_calls()]:
            watcher.add_compiled(name, owner, (local["args"], local["kwargs"]), local["result"])

    def _attempt(self, action: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function of this package; report its error, so that user code continues."""
        try:
            return action(*arguments)
        except Exception as error:
            self._fail(error)
            return None

    def _fail(self, error: Exception) -> None:
        for watcher in self._watchers:
            watcher.fail(error)

    def _install(self) -> None:
        self._module_call.replace(self._thread, _telling)
        for watcher in self._watchers:
            watcher.resume()

    def _remove(self) -> None:
        self._module_call.give_back(self._thread)
        for watcher in reversed(self._watchers):
            watcher.pause()


def _telling(own: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that replaces ``nn.Module.__call__``.

    A wrapper of another library may keep the function, and call it after it was removed.
    """

    def call_module(module: nn.Module, /, *args: Any, **kwargs: Any) -> Any:
        calls = ModuleCalls._active.get(threading.get_ident())
        if calls is None or ModuleCalls._module_call.replacement is not call_module:
            return own(module, *args, **kwargs)
        return calls._call_module(own, module, args, kwargs)

    return call_module


def _set_callback(callback: Any) -> Any:
    calls = ModuleCalls._active.get(threading.get_ident())
    if calls is None:
        return ModuleCalls._set_callback.own(callback)
    return calls._move_into_region(sys._getframe(1), callback)


def _is_one_node(module: nn.Module) -> bool:
    """Tell whether a module is shown as a single node of the graph.

    It is compiled, scripted, or about to use a fused kernel.
    """
    if is_compiled(module) or isinstance(module, torch.jit.ScriptModule):
        return True
    if module.training or not isinstance(module, _HAVE_FUSED_KERNELS):
        return False
    return not torch.is_grad_enabled() or not any(
        weight.requires_grad for weight in module.parameters()
    )


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=ModuleCalls.end_after_fork)
