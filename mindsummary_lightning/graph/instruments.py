"""``Instruments``: sees every call of a module or torch function on one thread, and changes none of them.

A ``TorchFunctionMode`` sees the functions, a replaced ``nn.Module.__call__`` the modules. Around a compiled region both
are removed, so that it is compiled, and later found, as without us (docs/decisions/0017 says why so).
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack, _pop_mode, _push_mode

from mindsummary_lightning.errors import GraphCaptureError
from mindsummary_lightning.graph.observation import Observation

# Any, in this module: arguments and results of whatever the user calls.
_HAVE_FUSED_KERNELS = (nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerEncoder)
_SET_CALLBACK = "_maybe_set_eval_frame"
_COMPILED_CALLS = ("compile_wrapper", "_fn")  # names in recent and in older releases of torch


class Instruments(TorchFunctionMode):
    """Reports what happens inside a call to an observation, which ``begin`` makes.

    ``error`` is the first exception that the observation raised; what follows it is not observed.
    """

    def __init__(self, begin: Callable[[], Observation]) -> None:
        super().__init__()
        self.error: Exception | None = None
        self.observation: Observation = self.attempt(begin)
        self._thread = threading.get_ident()
        self._is_in_function = False  # then torch has taken this mode off its stack; a backward pass may call modules
        self._compiled_call: FrameType | None = None
        self._module_call: Callable[..., Any] = nn.Module.__call__

    def call(self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Call a function of the user's and observe it; afterwards everything is as before, also if it raised."""
        with self._watching(), _room_for_frames():
            return function(*args, **kwargs)

    @contextmanager
    def _watching(self) -> Iterator[None]:
        compiler: Any = sys.modules.get("torch._dynamo.eval_frame")
        set_callback = getattr(compiler, _SET_CALLBACK, None)
        if compiler is not None and set_callback is None:
            self.error = GraphCaptureError("this PyTorch enters compiled regions in a way that is unknown here")
        self.attempt(self._install)
        try:
            if set_callback is not None:
                # torch 2.5 still compiles what it calls when it leaves a region.
                torch.compiler.disable(Instruments._set_callback, recursive=False)  # type: ignore[no-untyped-call]
                setattr(compiler, _SET_CALLBACK, functools.partial(self._set_callback, set_callback))
            yield
        finally:
            if set_callback is not None:
                setattr(compiler, _SET_CALLBACK, set_callback)
            self._remove()

    def attempt(self, action: Callable[..., Any], *arguments: Any) -> Any:
        """Call something of ours, unless an earlier one has failed; whatever it raises, the user's code continues."""
        if self.error is None:
            try:
                with torch._C.DisableTorchFunction():
                    return action(*arguments)
            except Exception as error:
                self.error = error
        return None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self._is_in_function = True
        try:
            output = func(*args, **kwargs)
        finally:
            self._is_in_function = False
        self.attempt(self.observation.add_operation, func, args, kwargs, output)
        return output

    def _call_module(self, module: nn.Module, args: Any, kwargs: Any) -> Any:
        if self._is_in_function or threading.get_ident() != self._thread:
            return self._module_call(module, *args, **kwargs)
        self.attempt(self.observation.enter_module, module)
        output, is_whole = None, self.attempt(_is_one_node, module)
        if is_whole:
            self._remove()
        try:
            output = self._module_call(module, *args, **kwargs)
        finally:
            if is_whole:
                self.attempt(self._install)
            self.attempt(self.observation.leave_module, is_whole, (args, kwargs), output)
        return output

    def _set_callback(self, set_callback: Callable[[Any], Any], callback: Any) -> Any:
        """The compiler is about to run a compiled region (then it sets a callback) or has run one."""
        caller = sys._getframe(1)
        if caller is self._compiled_call:
            self._compiled_call = None
            prior = set_callback(callback)
            self.attempt(self._install)
            self.attempt(self._add_compiled_call, caller.f_locals)
            return prior
        is_entering = callable(callback) and caller.f_code.co_name in _COMPILED_CALLS
        if is_entering and nn.Module.__call__ is not self._module_call and threading.get_ident() == self._thread:
            self._compiled_call = caller
            self._remove()
        return set_callback(callback)

    def _add_compiled_call(self, local: dict[str, Any]) -> None:
        if "result" in local and not self._is_in_function:
            name, owner = getattr(local["fn"], "__name__", "compiled"), getattr(local["fn"], "__self__", None)
            self.observation.add_whole(name, owner, (local["args"], local["kwargs"]), local["result"])

    def _install(self) -> None:
        def call(module: nn.Module, /, *args: Any, **kwargs: Any) -> Any:
            return self._call_module(module, args, kwargs)

        nn.Module.__call__ = call  # type: ignore[method-assign]
        if not self._is_in_function:
            _push_mode(self)  # type: ignore[no-untyped-call]

    def _remove(self) -> None:
        nn.Module.__call__ = self._module_call  # type: ignore[method-assign]
        if self not in _get_current_function_mode_stack():  # type: ignore[no-untyped-call]
            return
        above: list[Any] = []  # modes that the user entered since and has not left
        while (mode := _pop_mode()) is not self:  # type: ignore[no-untyped-call]
            above.append(mode)
        for mode in reversed(above):
            _push_mode(mode)  # type: ignore[no-untyped-call]


@contextmanager
def _room_for_frames() -> Iterator[None]:
    """A context in which the recursion limit leaves the user as many frames as without ours, two of them a module."""
    limit = sys.getrecursionlimit()
    raised = 2 * limit
    sys.setrecursionlimit(raised)
    try:
        yield
    finally:
        if sys.getrecursionlimit() == raised:  # the user has not set another
            sys.setrecursionlimit(limit)


def _is_one_node(module: nn.Module) -> bool:
    """Whether a module is shown as one node: it is compiled, scripted, or about to use a fused kernel."""
    is_compiled = type(module).__name__ == "OptimizedModule" or module.__dict__.get("_compiled_call_impl") is not None
    if is_compiled or isinstance(module, torch.jit.ScriptModule):
        return True
    needs_gradient = torch.is_grad_enabled() and any(weight.requires_grad for weight in module.parameters())
    return isinstance(module, _HAVE_FUSED_KERNELS) and not module.training and not needs_gradient
