"""The run behind a logger: its version, its record, and which fit it holds.

A run is one fit. It is not known when a Trainer asks for the experiment whether it is going to fit or to evaluate, so
hyper-parameters, which come next, wait in the record until something else is recorded.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from typing import Any

from mindsummary_lightning.recording.run_recorder import RunRecorder
from mindsummary_lightning.recording.summary_record import SummaryRecord, recorder_of
from mindsummary_lightning.trainer.checkpoint_state import continues_run
from mindsummary_lightning.trainer.namespaces import rank_zero_info
from mindsummary_lightning.trainer.trainer_state import resume_path
from mindsummary_lightning.trainer.version_numbers import RunVersion
from mindsummary_lightning.values import UserDefinedInfo

_LOG = logging.getLogger(__name__)


class LoggerRun:
    """The current run of a logger.

    Args:
        root_dir: the directory of all versions.
        version: the user's number or name, or ``None``.
        sub_dir: directory below the version directory; ``""`` for none.
        options: keyword arguments of its :class:`SummaryRecord`.

    Attributes:
        version: the run's version.
        open_recorder: what records it, once something has asked for it.
        is_set_up: a Trainer has asked for the experiment since the last :meth:`end`.
    """

    def __init__(self, root_dir: str, version: int | str | None, sub_dir: str, options: Mapping[str, Any]) -> None:
        self.version = RunVersion(root_dir, version)
        self.open_recorder: RunRecorder | None = None
        self._record: SummaryRecord | None = None
        self._dropped: RunRecorder | None = None  # its deferred lineage is the next one's
        self.is_set_up = False
        self._root_dir = root_dir
        self._sub_dir = sub_dir
        self._options = dict(options)
        self._is_fitting = False
        self._holds_fit = False
        self._checkpoints: set[str] = set()

    @property
    def directory(self) -> str:
        """The directory of the run's files."""
        value = self.version.value
        version = f"version_{value}" if isinstance(value, int) else value
        return os.path.join(self._root_dir, version, self._sub_dir).rstrip(os.sep)

    @property
    def has_recorded(self) -> bool:
        """Whether anything has been recorded through the record that is open."""
        return self.open_recorder is not None and self.open_recorder.has_recorded

    def record(self) -> SummaryRecord:
        """The run's record; made, and its version claimed, by the first call."""
        if self._record is None:
            self.version.claim()
            self._record = SummaryRecord(self.directory, **self._options)
            self._record.set_mode("eval")  # values of summary operators are the collector's
            self.open_recorder = recorder_of(self._record)
            if self._dropped is not None:
                self.open_recorder.take_deferred_lineage(self._dropped)
                self._dropped = None
        return self._record

    def recorder(self) -> RunRecorder:
        """What :meth:`record` is built on."""
        return self.open_recorder or recorder_of(self.record())

    def add_hyperparameters(self, info: UserDefinedInfo) -> None:
        """Record hyper-parameters together with the first value; immediately if it is clear whose they are."""
        recorder = self.recorder()
        recorder.defer_lineage(info)
        if recorder.has_recorded and (self._is_fitting or not self.is_set_up):
            recorder.write_deferred_lineage()

    def begin_fit(self, trainer: Any) -> bool:
        """A fit begins; returns whether it got a new version.

        A run that holds the steps of an earlier fit takes those of one that continues it. For another one a new
        version begins, or, in a version that the user gave, a new file, whose steps replace the old ones.
        """
        if self._is_fitting:
            return False
        self._is_fitting = True
        if not self._holds_fit:
            return False
        if continues_run(trainer, self.directory, self._checkpoints):
            if resume_path(trainer) is not None:
                self.recorder().begin_file()
            return False
        if self.version.is_given:
            self.recorder().begin_file()
            _LOG.warning(
                "%s holds the steps of an earlier fit through this logger; from its first step on MindInsight shows "
                "this one in its place. To keep both, give each fit a logger of its own or leave version=None",
                self.directory,
            )
            return False
        earlier = self.directory
        self._drop_record()
        self.version.begin_next()
        self.version.claim()
        self._holds_fit = False
        self._checkpoints.clear()
        rank_zero_info(f"{earlier} holds an earlier fit; this one is recorded in {self.directory}")
        return True

    def add_checkpoints(self, paths: Iterable[str]) -> None:
        """Remember checkpoints of this run."""
        self._checkpoints.update(map(os.path.realpath, filter(None, paths)))

    def end(self) -> None:
        """The Trainer is done: close the files; where nothing was recorded, leave nothing on the disk."""
        self._holds_fit |= self._is_fitting and self.has_recorded
        self.is_set_up = self._is_fitting = False
        if self.has_recorded:
            self.recorder().release()
        else:
            self._drop_record()
            self.version.release_unused()

    def take_options(self, options: Mapping[str, Any]) -> None:
        """Take options of the record that the logger was not given.

        Raises:
            ValueError: the logger was given another value.
        """
        for name, value in options.items():
            own = self._options[name]
            if value is None or value == own:
                continue
            if own is not None:
                raise ValueError(
                    f"{name} is {own!r} in MindInsightLogger and {value!r} in SummaryCollector, which record into the "
                    "same files: give it to one of them, or give the collector a summary_dir"
                )
            self._options[name] = value
            self._drop_record()

    def _drop_record(self) -> None:
        """Close the record; hyper-parameters that were not recorded wait for the next one."""
        if self.open_recorder is not None:
            self.open_recorder.release()
            self._dropped, self.open_recorder, self._record = self.open_recorder, None, None
