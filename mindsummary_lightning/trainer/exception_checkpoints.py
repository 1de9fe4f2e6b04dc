"""``ExceptionCheckpoints``: finds the checkpoint that is saved on an exception.

Lightning calls ``on_exception`` of checkpoint callbacks after our callbacks, and no public hook
after theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from mindsummary_lightning.graph.replaced_method import ReplacedMethod
from mindsummary_lightning.trainer.hook_guard import HookGuard
from mindsummary_lightning.trainer.lineage_recorder import LineageRecorder


class ExceptionCheckpoints:
    """Watches the ``on_exception`` hooks of a Trainer's checkpoint callbacks."""

    def __init__(self) -> None:
        self._methods: list[ReplacedMethod] = []  # of callbacks whose hook has not been called yet

    def follow(
        self, trainer: Any, module: Any, lineage: LineageRecorder, guard: HookGuard, releases: bool
    ) -> None:
        """From now on, record in the lineage the first checkpoint that is saved.

        If ``releases``, close the files then.
        """

        def told(path: str) -> None:
            with guard("the train lineage"):
                lineage.exception_checkpoint_saved(trainer, module, path)
            if releases:
                lineage.record.release()

        self.end()
        for callback in trainer.checkpoint_callbacks:
            if callable(getattr(callback, "on_exception", None)):
                self._methods.append(
                    ReplacedMethod(callback, "on_exception", partial(self._call, trainer, told))
                )
        for method in self._methods:
            method.arm()

    def end(self) -> None:
        """Restore the original methods of the callbacks."""
        while self._methods:
            self._methods.pop().disarm()

    def _call(
        self,
        trainer: Any,
        told: Callable[[str], None],
        original: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
    ) -> None:
        paths: list[str] = []

        def note(
            save: Callable[..., Any], save_args: Sequence[Any], save_kwargs: dict[str, Any]
        ) -> Any:
            result = save(*save_args, **save_kwargs)
            paths.append(str(save_args[0] if save_args else save_kwargs.get("filepath")))
            return result

        self._methods.pop(0).disarm()  # Lightning calls them in their order
        saving = ReplacedMethod(trainer, "save_checkpoint", note)
        saving.arm()
        try:
            original(*args, **kwargs)
        except BaseException:
            self.end()  # the hooks that follow are not called
            raise
        finally:
            saving.disarm()
        if paths:
            self.end()
            told(paths[0])

    def __getstate__(self) -> dict[str, Any]:
        return {"_methods": []}
