"""`WarnOnce`: a message that is logged once per reason.

The reason may occur any number of times.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable

from mindsummary_lightning.errors import error_text, printable


class WarnOnce:
    """Logs a message the first time its key is given, and then never again.

    An instance belongs to what warns (a writer, a logger, a callback), so that a second run in the
    same process warns again. Two threads that give a new key at the same moment may both log;
    nothing else can go wrong.
    """

    __slots__ = ("_keys", "_logger")

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._keys: set[Hashable] = set()

    def warn(
        self, key: Hashable, message: str, *args: object, level: int = logging.WARNING
    ) -> None:
        """Log ``message % args`` unless this key, the reason, has been given before.

        Texts and errors may hold names that somebody else chose: of them control characters are
        logged as escapes.
        """
        if key not in self._keys:
            self._keys.add(key)
            shown = (error_text(each) if isinstance(each, Exception) else each for each in args)
            self._logger.log(
                level,
                message,
                *(printable(each) if isinstance(each, str) else each for each in shown),
            )
