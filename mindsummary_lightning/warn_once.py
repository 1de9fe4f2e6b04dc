"""Log a warning only the first time that its reason occurs.

The reason may occur any number of times.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable

from mindsummary_lightning.errors import error_text, printable


class WarnOnce:
    """A logger of warnings that logs only the first message for each key.

    Each object that warns (a writer, a logger, a callback) has its own instance, so that a second
    run in the same process warns again. Two threads that pass a new key at the same moment may both
    log.
    """

    __slots__ = ("_keys", "_logger")

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._keys: set[Hashable] = set()

    def warn(
        self, key: Hashable, message: str, *args: object, level: int = logging.WARNING
    ) -> None:
        """Log ``message % args``, unless an earlier call had the same ``key``.

        Control characters in the arguments are logged as escapes, because texts and errors may hold
        names that other people chose.
        """
        if key not in self._keys:
            self._keys.add(key)
            shown = (error_text(each) if isinstance(each, Exception) else each for each in args)
            self._logger.log(
                level,
                message,
                *(printable(each) if isinstance(each, str) else each for each in shown),
            )
