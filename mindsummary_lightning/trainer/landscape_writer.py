"""``LandscapeSaver``: saves the checkpoints that a loss landscape needs."""

from __future__ import annotations

import logging
from typing import Any

from torch import nn

from mindsummary_lightning.collection.options import CollectOptions
from mindsummary_lightning.collection.sharding import is_flattened
from mindsummary_lightning.landscape.checkpoints import LandscapeCheckpointWriter
from mindsummary_lightning.recording.run_recorder import RunRecorder
from mindsummary_lightning.trainer.hook_guard import HookGuard
from mindsummary_lightning.trainer.trainer_state import steps_in_first_epoch
from mindsummary_lightning.values.text import counted

_LOG = logging.getLogger(__name__)
_WHAT = "the parameters for a landscape"


class LandscapeSaver:
    """Saves the parameters after the steps or epochs that a loss landscape needs.

    It starts in :meth:`begin` if a landscape is wanted.
    """

    def __init__(self, guard: HookGuard) -> None:
        self._writer: LandscapeCheckpointWriter | None = None
        self._guard = guard

    def begin(
        self,
        record: RunRecorder,
        specified: CollectOptions,
        max_bytes: int,
        trainer: Any,
        module: nn.Module,
    ) -> None:
        """Begin a fit, and save the parameters before training if they are needed.

        Parameters are not saved if no landscape is wanted, or if they cannot be saved.
        """
        settings, is_asked_for = specified.landscape, "collect_landscape" in specified.named
        if settings is None:
            return
        # Its state_dict gathers the parameters from all ranks, and would wait for them here for
        # ever.
        if any(is_flattened(parameter) for parameter in module.parameters()):
            level = logging.WARNING if is_asked_for else logging.DEBUG
            _LOG.log(
                level, "loss landscape: the parameters of FSDP1 (strategy='fsdp') are not saved"
            )
            return
        self._writer = LandscapeCheckpointWriter(
            *(
                record.directory,
                type(module).__name__,
                settings,
                max_bytes,
                steps_in_first_epoch(trainer),
            ),
            record.options.mode,
            all_or_nothing=not is_asked_for,
            policy=record.policy,
        )
        with self._guard(_WHAT):
            self._writer.begin(module.state_dict())

    @property
    def note(self) -> str:
        """Return a note for the log about the checkpoints that will be saved.

        It is ``""`` if no checkpoint is going to be saved.
        """
        planned = None if self._writer is None else self._writer.planned()
        if planned is None or not planned[0]:
            return ""
        count, size = planned
        off = "collect_specified_data={'collect_landscape': None}"
        return (
            f", with {counted(count, 'landscape checkpoint')} of {size / 1e6:.1f} MB in all "
            f"({off} saves none)"
        )

    def end_step(self, step: int, module: nn.Module) -> None:
        """Save the parameters after a step if the landscape needs this step."""
        writer = self._writer
        if writer is not None and writer.unit == "step" and writer.wants(step):
            with self._guard(_WHAT):
                writer.save(step, module.state_dict())

    def end_epoch(self, step: int, epoch: int, module: nn.Module) -> None:
        """Save the parameters after an epoch if the landscape needs this epoch.

        ``epoch`` counts from 1; ``step`` is the count of steps so far.
        """
        writer = self._writer
        if writer is not None:
            with self._guard(_WHAT):
                if step:
                    writer.end_epoch(max(1, round(step / epoch)))
                if writer.unit == "epoch" and writer.wants(epoch):
                    writer.save(epoch, module.state_dict())

    def end(self, step: int, epoch: int, module: nn.Module) -> None:
        """Save the final parameters of a fit after its last step and whole epoch.

        Later calls do nothing.
        """
        writer, self._writer = self._writer, None
        if writer is not None:
            with self._guard(_WHAT):
                writer.end(step if writer.unit == "step" else max(1, epoch), module.state_dict())
