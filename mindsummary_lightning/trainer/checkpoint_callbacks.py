"""``CheckpointCallbacks``: moves checkpoint callbacks to the next run's directory."""

from __future__ import annotations

import logging
import os
import weakref
from typing import Any

from mindsummary_lightning.warn_once import WarnOnce

_LOG = logging.getLogger(__name__)
_WARN_ONCE = WarnOnce(_LOG)


class CheckpointCallbacks:
    """The checkpoint callbacks whose directory was set by Lightning, not by the user."""

    def __init__(self) -> None:
        self._placed: weakref.WeakKeyDictionary[Any, int | str] = weakref.WeakKeyDictionary()

    def place(self, trainer: Any, version: int | str) -> None:
        """Let Lightning choose the directory again of callbacks from another version.

        Callbacks that have saved a checkpoint keep their directory.

        Lightning places a callback only at the first call of a Trainer; an evaluation may come
        before the fit.
        """
        for callback in trainer.checkpoint_callbacks:
            if self._placed.get(callback, version) != version and not _saved_path(callback):
                callback.dirpath = None
            if getattr(callback, "dirpath", "") is None:
                self._placed[callback] = version

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return CheckpointCallbacks, ()  # a copy's Trainer has callbacks of its own

    @staticmethod
    def warn_of_earlier_fit(trainer: Any) -> None:
        """Warn if a callback has already saved a checkpoint in another Trainer's fit.

        The callback may remove that fit's checkpoints.
        """
        for callback in trainer.checkpoint_callbacks:
            path = _saved_path(callback)
            if path:
                _WARN_ONCE.warn(
                    path,
                    "this %s has already saved %s in an earlier fit. It continues to save into "
                    "that directory, and may delete checkpoints of the earlier fit. Create new "
                    "callbacks for each Trainer",
                    *(type(callback).__name__, os.path.relpath(path)),
                )


def _saved_path(callback: Any) -> str:
    return str(getattr(callback, "best_model_path", "") or getattr(callback, "last_model_path", ""))
