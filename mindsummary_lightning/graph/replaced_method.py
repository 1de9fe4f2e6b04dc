"""Replace a method of an object for a while by a function around it."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

# Any, in this module: arguments and results of the user's methods.


class _Replacement(functools.partial[Any]):
    """The function that is called in place of an object's method.

    If the object is copied or pickled, the copy gets the original method.
    """

    __wrapped__: Callable[..., Any]

    def __reduce__(self) -> Any:
        return copy.copy, self.args


class ReplacedMethod:
    """A method of an object that can be replaced by a function around it.

    From :meth:`arm` to :meth:`disarm`, ``around(original, args, kwargs)`` is called in place of the
    method.
    """

    def __init__(
        self,
        owner: Any,
        name: str,
        around: Callable[[Callable[..., Any], Any, dict[str, Any]], Any],
    ) -> None:
        self._owner = owner
        self._name = name
        self._around = around
        self._own: dict[str, Any] = {}  # what the instance itself has in that place
        self._armed: _Replacement | None = None

    def arm(self) -> None:
        """Replace the method, unless it is replaced already."""
        if self._armed is not None:
            return
        original, attributes = getattr(self._owner, self._name), vars(self._owner)
        self._own = {self._name: original} if self._name in attributes else {}
        self._armed = attributes[self._name] = _Replacement(self._call, original)
        functools.update_wrapper(self._armed, original)
        # Lightning reads the signature of training_step one wrapper deep.
        self._armed.__wrapped__ = getattr(original, "__wrapped__", original)

    def _call(self, original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        if self._armed is None or self._armed.args[0] is not original:  # someone has kept it
            return original(*args, **kwargs)
        return self._around(original, args, kwargs)

    def disarm(self) -> None:
        """Restore the object's own method, unless other code has replaced it since."""
        attributes = vars(self._owner)
        if self._armed is not None and attributes.get(self._name) is self._armed:
            del attributes[self._name]
            attributes.update(self._own)
        self._armed = None
