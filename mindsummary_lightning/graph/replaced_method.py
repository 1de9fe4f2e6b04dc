"""``ReplacedMethod``: a function around a method of one object, for a while."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

# Any, in this module: arguments and results of the user's methods.


class ReplacedMethod:
    """Calls ``around(original, args, kwargs)`` in place of an object's own method, from ``arm`` to ``disarm``."""

    def __init__(self, owner: Any, name: str, around: Callable[[Callable[..., Any], Any, dict[str, Any]], Any]) -> None:
        self._owner = owner
        self._name = name
        self._around = around
        self._own: dict[str, Any] = {}  # what the instance itself has in that place
        self._armed: Callable[..., Any] | None = None

    def arm(self) -> None:
        """Put it in place; one that is there already stays."""
        if self._armed is not None:
            return
        original = getattr(self._owner, self._name)

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._armed is not call:  # someone has kept it
                return original(*args, **kwargs)
            return self._around(original, args, kwargs)

        # Lightning reads the signature of training_step one wrapper deep.
        call.__wrapped__ = getattr(original, "__wrapped__", original)
        attributes = vars(self._owner)
        self._own = {self._name: original} if self._name in attributes else {}
        self._armed = attributes[self._name] = call

    def disarm(self) -> None:
        """Give the object its own method back, unless someone has replaced it since."""
        attributes = vars(self._owner)
        if self._armed is not None and attributes.get(self._name) is self._armed:
            del attributes[self._name]
            attributes.update(self._own)
        self._armed = None
