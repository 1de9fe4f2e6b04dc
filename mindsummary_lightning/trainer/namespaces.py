"""Defines base classes that work with every installed Lightning package.

Importing a namespace sets levels and makes it the one in whose name both log; what was set before
stands again.

``lightning.pytorch`` and ``pytorch_lightning`` have different ``Logger`` and ``Callback`` classes.
Their Trainers take either kind, their ``LightningCLI`` takes only its own, so ours derive from both
where both are installed.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["CallbackBase", "LoggerBase", "rank_zero_experiment", "rank_zero_info", "rank_zero_only"]


_NAMES = ("lightning.pytorch", "pytorch_lightning")
_LOGGERS = (*_NAMES, "lightning", "lightning.fabric", "lightning_fabric")


def _installed() -> list[ModuleType]:
    found = []
    for name in _NAMES:
        try:
            with _logging_as_before():
                found.append(importlib.import_module(name))
        except ModuleNotFoundError as error:
            if error.name not in (name, name.partition(".")[0]):
                raise
    if not found:
        raise ModuleNotFoundError(
            "the logger and the callbacks need lightning or pytorch_lightning, which are not "
            "installed. Run: pip install lightning"
        )
    return found


@contextlib.contextmanager
def _logging_as_before() -> Iterator[None]:
    """Return a context that restores the log levels of Lightning at its end.

    Lightning's messages go to the same logger after it.
    """
    known = {
        logging.getLogger(name) for name in _LOGGERS if name in logging.root.manager.loggerDict
    }
    levels = {logger: logger.level for logger in known if logger.level}
    try:
        rank_zero: Any = importlib.import_module("lightning_utilities.core.rank_zero")
    except ModuleNotFoundError:  # nor is there a namespace
        yield
        return
    speaker = rank_zero.log
    yield
    for logger, level in levels.items():
        logger.setLevel(level)
    if speaker.name != rank_zero.__name__:  # it was another namespace's
        rank_zero.log = speaker


_NAMESPACES = _installed()

if TYPE_CHECKING:
    from lightning.pytorch.callbacks import Callback as CallbackBase
    from lightning.pytorch.loggers import Logger as LoggerBase
    from lightning_utilities.core.rank_zero import rank_zero_info, rank_zero_only

    _F = TypeVar("_F", bound=Callable[..., object])

    def rank_zero_experiment(get_experiment: _F) -> _F:
        """Apply Lightning's decorator of the same name, with type annotations."""
else:
    LoggerBase = type("LoggerBase", tuple(space.loggers.Logger for space in _NAMESPACES), {})
    CallbackBase = type(
        "CallbackBase", tuple(space.callbacks.Callback for space in _NAMESPACES), {}
    )
    _FIRST = _NAMESPACES[0].__name__
    rank_zero_experiment = importlib.import_module(f"{_FIRST}.loggers.logger").rank_zero_experiment
    # one for both namespaces
    from lightning_utilities.core.rank_zero import rank_zero_info, rank_zero_only
