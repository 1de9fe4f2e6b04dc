"""``Instruments``: sees every call of a module or torch function on one thread, and changes none of them.

Three places are instrumented, and only while something is observed (docs/decisions/0017):

- a ``TorchFunctionMode`` sees the torch functions;
- ``nn.Module.__call__`` is replaced, as ``torch.fx`` does for a trace. Hooks would disable the fused kernels of
  TransformerEncoder, and ``torch.compile`` warns about global hooks and traces those of modules;
- the function with which ``torch.compile`` enters and leaves a compiled region. Inside, nothing of ours is installed,
  so that the region is compiled, and later found, as without us.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch._C import _len_torch_function_stack
from torch.overrides import TorchFunctionMode, _pop_mode, _push_mode

from mindsummary_lightning.graph.module_names import module_class_name, unwrapped
from mindsummary_lightning.graph.observation import Observation

__all__ = ["Instruments"]

# Any, in this module: arguments and results of whatever the user calls.
_HAVE_FUSED_KERNELS = (nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerEncoder)
_BACKWARD_PASSES = (torch.Tensor.backward, torch.autograd.grad)
_COMPILED_CALLS = ("compile_wrapper", "_fn")  # since torch 2.8, before


class Instruments(TorchFunctionMode):
    """Reports what happens inside ``watching`` to an observation.

    Args:
        observation: receives the calls.

    Attributes:
        error: the first exception that the observation raised. The rest of the run is then not observed.
    """

    def __init__(self, observation: Observation) -> None:
        super().__init__()
        self.error: Exception | None = None
        self.observation = observation
        self._thread = threading.get_ident()
        self._is_in_function = False
        self._compiled_call: FrameType | None = None
        self._module_call: Callable[..., Any] = nn.Module.__call__

    @contextmanager
    def watching(self) -> Iterator[None]:
        """A context whose calls are observed; afterwards everything is as before, also if it raised."""
        compiler = sys.modules.get("torch._dynamo.eval_frame")
        set_callback = getattr(compiler, "_maybe_set_eval_frame", None)
        self._attempt(self._install)
        try:
            if set_callback is not None:
                compiler._maybe_set_eval_frame = self._watched(set_callback)  # type: ignore[union-attr]
            yield
        finally:
            if set_callback is not None:
                compiler._maybe_set_eval_frame = set_callback  # type: ignore[union-attr]
            self._remove()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self._is_in_function = True  # torch has taken this mode off its stack until we return
        try:
            if func in _BACKWARD_PASSES:
                with self._suspended():  # recomputes checkpointed activations
                    output = func(*args, **kwargs)
            else:
                output = func(*args, **kwargs)
        finally:
            self._is_in_function = False
        self._attempt(self.observation.add_operation, func, args, kwargs, output)
        return output

    def _call_module(self, module: nn.Module, args: Any, kwargs: Any) -> Any:
        if self._is_in_function or threading.get_ident() != self._thread:
            return self._module_call(module, *args, **kwargs)
        self._attempt(self.observation.enter_module, module)
        output = None
        try:
            if not self._attempt(_is_opaque, module):
                output = self._module_call(module, *args, **kwargs)
            else:
                with self._suspended():
                    output = self._module_call(module, *args, **kwargs)
                name, owner = module_class_name(module), unwrapped(module)
                self._attempt(self.observation.add_opaque, name, owner, (args, kwargs), output)
        finally:
            self._attempt(self.observation.leave_module, (args, kwargs), output)
        return output

    def _watched(self, set_callback: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """The compiler's function that is called when a compiled region begins (with a callback) and when it ends."""

        def set_callback_and_tell(callback: Any) -> Any:
            caller = sys._getframe(1)
            if caller is self._compiled_call:
                self._compiled_call = None
                prior = set_callback(callback)
                self._attempt(self._install)
                self._attempt(self._add_compiled_call, caller)
                return prior
            begins = callable(callback) and caller.f_code.co_name in _COMPILED_CALLS
            if begins and nn.Module.__call__ is not self._module_call and threading.get_ident() == self._thread:
                self._compiled_call = caller
                self._remove()
            return set_callback(callback)

        return set_callback_and_tell

    def _add_compiled_call(self, caller: FrameType) -> None:
        local = caller.f_locals
        if "result" in local:
            function = local["fn"]
            owner = getattr(function, "__self__", None)
            owner = owner if isinstance(owner, nn.Module) else None
            name = str(getattr(function, "__name__", "compiled"))
            self.observation.add_opaque(name, owner, (local["args"], local["kwargs"]), local["result"])

    @contextmanager
    def _suspended(self) -> Iterator[None]:
        self._remove()
        try:
            yield
        finally:
            self._attempt(self._install)

    def _install(self) -> None:
        def call(module: nn.Module, /, *args: Any, **kwargs: Any) -> Any:
            return self._call_module(module, args, kwargs)

        nn.Module.__call__ = call  # type: ignore[method-assign]
        if not self._is_in_function:
            _push_mode(self)  # type: ignore[no-untyped-call]

    def _remove(self) -> None:
        nn.Module.__call__ = self._module_call  # type: ignore[method-assign]
        if self._is_in_function:
            return
        above = []
        while _len_torch_function_stack() and (mode := _pop_mode()) is not self:  # type: ignore[no-untyped-call]
            above.append(mode)
        for mode in reversed(above):  # of a user who entered one and has not left it
            _push_mode(mode)  # type: ignore[no-untyped-call]

    def _attempt(self, action: Callable[..., Any], *arguments: Any) -> Any:
        if self.error is None:
            try:
                with torch._C.DisableTorchFunction():
                    return action(*arguments)
            except Exception as error:  # whatever it is, the user's code continues
                self.error = error
        return None


def _is_opaque(module: nn.Module) -> bool:
    """Whether a module is shown as one node: it is compiled, scripted, or about to use a fused kernel."""
    if isinstance(module, torch.jit.ScriptModule) or type(module).__name__ == "OptimizedModule":
        return True
    if module.__dict__.get("_compiled_call_impl") is not None:
        return True
    is_fused = isinstance(module, _HAVE_FUSED_KERNELS) and not module.training
    return is_fused and not (torch.is_grad_enabled() and any(weight.requires_grad for weight in module.parameters()))
