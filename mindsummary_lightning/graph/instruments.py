"""Observe all calls of modules and torch functions on a thread.

The calls are not changed.

A ``TorchFunctionMode`` observes the functions, and :class:`ModuleCalls` reports the calls of
modules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn, overrides
from torch.overrides import TorchFunctionMode

from mindsummary_lightning.graph.module_calls import ModuleCalls, Watcher
from mindsummary_lightning.graph.observation import Observation

# Any, in this module: arguments and results of whatever the user calls.


class _ModeStack:
    """Access to the stack of torch function modes of the current thread.

    The names of its functions are private in torch 2.5 to 2.15.

    Raises:
        AttributeError: this version of PyTorch lacks one of the names.
    """

    def __init__(self) -> None:
        self.push: Callable[[Any], None] = overrides._push_mode
        self.pop: Callable[[], Any] = overrides._pop_mode
        self.modes: Callable[[], Sequence[Any]] = overrides._get_current_function_mode_stack


class Instruments(TorchFunctionMode, Watcher):
    """A torch function mode that passes all calls to the ``Observation`` of a graph.

    ``begin`` creates the observation.

    ``error`` is the first exception that the observation raised; calls after it are not observed.
    """

    def __init__(self, begin: Callable[[], Observation]) -> None:
        super().__init__()
        self.error: Exception | None = None
        self._stack: _ModeStack = self.attempt(_ModeStack)
        self.observation: Observation = self.attempt(begin)
        # then torch has taken this mode off its stack; a backward pass may call modules
        self._is_in_function = False

    def call(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Any:
        """Call a user's function, and observe the calls inside it.

        Afterwards all hooks are removed, even if the function raised an error.
        """
        if self.error is not None:
            return function(*args, **kwargs)
        with ModuleCalls.told_to(self):
            return function(*args, **kwargs)

    def attempt(self, action: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function of this package; keep its error, so that user code continues.

        If an earlier call has failed, nothing is called and the result is ``None``.
        """
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

    # ---- what ModuleCalls tells

    def wants_calls(self) -> bool:
        """Tell whether module calls are reported; they are not inside a torch function."""
        return not self._is_in_function

    def enter_module(self, module: nn.Module, is_whole: bool, arguments: Any) -> None:
        """Report to the observation that a module is about to be called."""
        self.attempt(self.observation.enter_module, module)

    def leave_module(self, is_whole: bool, arguments: Any, output: Any) -> None:
        """Report to the observation that the innermost module has returned or raised."""
        self.attempt(self.observation.leave_module, is_whole, arguments, output)

    def add_compiled(self, name: str, owner: Any, arguments: Any, output: Any) -> None:
        """Report to the observation that a compiled function has returned."""
        self.attempt(self.observation.add_whole, name, owner, arguments, output)

    def fail(self, error: Exception) -> None:
        """Keep the error because of which the graph would be incomplete."""
        self.error = self.error or error

    def resume(self) -> None:
        """Observe torch functions again, after :meth:`pause`."""
        if not self._is_in_function:
            self._stack.push(self)

    def pause(self) -> None:
        """Stop observing torch functions until :meth:`resume`."""
        if self not in self._stack.modes():
            return
        above: list[Any] = []  # modes that the user entered since and has not left
        while True:
            mode = self._stack.pop()
            if mode is self:
                break
            above.append(mode)
        for mode in reversed(above):
            self._stack.push(mode)
