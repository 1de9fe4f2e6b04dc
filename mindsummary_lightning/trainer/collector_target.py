"""The run that a SummaryCollector records into: the logger's, or one in a directory of its own."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

from mindsummary_lightning.collection.options import hyper_config
from mindsummary_lightning.conversion.arguments import check_export_options
from mindsummary_lightning.recording.event_files import FileOptions
from mindsummary_lightning.recording.run_recorder import RunRecorder
from mindsummary_lightning.recording.summary_record import recorder_of
from mindsummary_lightning.trainer.lineage_recorder import LineageRecorder
from mindsummary_lightning.trainer.logger import MindInsightLogger
from mindsummary_lightning.trainer.trainer_state import starts_a_run
from mindsummary_lightning.values import RunInfo
from mindsummary_lightning.values.lineage_info import CustomValue

_LOG = logging.getLogger(__name__)


class CollectorTarget:
    """Record and lineage of the current run; both ``None`` until :meth:`open`, and on ranks above zero.

    Args:
        summary_dir: the directory of its own; ``None``: the logger's.
        file_options: ``max_file_size`` and ``export_options`` of the user's.
        custom: custom lineage data of the user's; it overrides everything found.

    Attributes:
        holds_fit: an earlier fit is recorded in the directory of its own.
    """

    def __init__(
        self, summary_dir: str | None, file_options: Mapping[str, Any], custom: Mapping[str, CustomValue]
    ) -> None:
        self.record: RunRecorder | None = None
        self.lineage: LineageRecorder | None = None
        self._summary_dir = summary_dir
        self._file_options = file_options
        self._custom = custom
        self.holds_fit = False
        self._logger_dirs: list[str] = []

    @property
    def directories(self) -> list[str]:
        """Absolute paths of where the run is recorded: here, then by the logger; empty on ranks above zero."""
        return [] if self.record is None else [*dict.fromkeys([self.record.directory, *self._logger_dirs])]

    def open(self, trainer: Any, logger: MindInsightLogger | None, stage: str) -> bool:
        """Find the record, in any stage; all ranks must call, for they learn the logger's version here.

        Returns whether it is another one than before.
        """
        if logger is not None:
            if stage == "fit":
                logger.begin_fit(trainer)
            logger.adopt_version(trainer.strategy.broadcast(logger.version))
            self._logger_dirs = [os.path.abspath(logger.log_dir)]
        if not trainer.is_global_zero:
            return False
        record = self.record
        if self._summary_dir is None and logger is not None:
            record = recorder_of(logger.experiment)
        elif record is None and self._summary_dir is not None:
            options = FileOptions(max_file_size=self._file_options["max_file_size"])
            exports_tensors = check_export_options(self._file_options["export_options"])
            record = RunRecorder(self._summary_dir, options, exports_tensors=exports_tensors)
        elif record is not None and stage == "fit" and self.holds_fit and starts_a_run(trainer):
            record.begin_file()
            _LOG.warning(
                "%s holds the steps of an earlier fit; from its first step on MindInsight shows this one in its "
                "place. To keep both, give each fit a SummaryCollector with a summary_dir of its own",
                record.directory,
            )
        if record is None or record is self.record:
            return False
        self.record, self.lineage = record, LineageRecorder(record, {**hyper_config(), **self._custom})
        return True

    def end(self, status: str, has_trained: bool) -> None:
        """Write the lineage that waits; in a directory of its own also how the run ended, and close its files."""
        if self.record is None or self.lineage is None:
            return
        self.lineage.flush()
        if self._summary_dir is None:
            return
        self.holds_fit |= has_trained and self.record.has_recorded
        if self.record.has_recorded:
            self.record.write_lineage(RunInfo({"status": status}))
        self.record.release()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "record": None, "lineage": None}
