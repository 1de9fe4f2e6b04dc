"""Catches errors in the hooks of callbacks, so that no error stops the training.

`guarded_hooks` wraps the hooks that a class defines; parts of a hook that should not cost each
other get a guard of their own. `KeyboardInterrupt` and `SystemExit` pass.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from mindsummary_lightning.errors import error_text
from mindsummary_lightning.warn_once import WarnOnce

C = TypeVar("C", bound=type)


class HookGuard:
    """Catches errors in hooks, logs the first error of every kind, and counts all.

    The total is logged at the end. With ``raise_exception`` it raises instead.

    ``logger`` is that of the module with the hooks, ``owner`` the callback's class name, for
    messages.
    """

    def __init__(self, logger: logging.Logger, owner: str, raise_exception: bool = False) -> None:
        self.raise_exception = raise_exception
        self._logger = logger
        self._owner = owner
        self._warn_once = WarnOnce(logger)
        self._failures = 0

    @contextmanager
    def __call__(self, what: str) -> Iterator[None]:
        """Run the body of a ``with`` statement; ``what`` names it in messages."""
        try:
            yield
        except Exception as error:  # whatever a model, a batch or a disk does: training continues
            self.handle(what, error)

    def handle(self, what: str, error: Exception) -> None:
        """Log and count an error, or raise it if this guard was told to raise."""
        if self.raise_exception:
            raise error
        self._failures += 1
        self._warn_once.warn(
            (what, type(error)),
            "%s could not record %s: %s: %s. Training continues. Later failures of this kind "
            "are only counted, and the total is logged at the end",
            *(self._owner, what, type(error).__name__, error_text(error)),
            level=logging.ERROR,
        )

    def log_total(self) -> None:
        """Log how many errors were counted since the last call, if there are several."""
        if self._failures > 1:
            self._logger.error("%s failed to record %d times in total", self._owner, self._failures)
        self._failures = 0


def guarded_hooks(callback_class: C) -> C:
    """Make every ``on_...`` hook and ``teardown`` of a class run in ``self._guard``.

    A class decorator; hooks that the class inherits stay as they are.

    ``setup`` is not guarded: there a callback refuses what the user must change before training
    begins. Hooks of a user's subclass are not touched, so their own errors are theirs.
    """
    for name, hook in list(vars(callback_class).items()):
        if name.startswith("on_") or name in ("setup", "teardown"):
            setattr(callback_class, name, _checked(callback_class, name, hook))
    return callback_class


def _checked(callback_class: type, name: str, hook: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(hook)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not issubclass(type(self), callback_class):  # Lightning has called the hook of a class
            kind = callback_class.__name__
            raise TypeError(f"a callback must be an object, got the class {kind}. Give {kind}(...)")
        try:
            return hook(self, *args, **kwargs)
        except Exception as error:
            if name == "setup":
                raise
            self._guard.handle(f"in {name}", error)

    return run
