"""``CurrentRun``: the run behind a logger, or behind a collector with a directory of its own.

It asks `run_ownership` where a call is recorded, and goes there. It is not known when a Trainer's call begins whether
it records anything, so hyper-parameters, which come first, wait in the record until something else is recorded.
"""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import sys
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from mindsummary_lightning.conversion.flattening import value_or_default
from mindsummary_lightning.reading.run_status import STARTED
from mindsummary_lightning.recording.run_recorder import RunRecorder
from mindsummary_lightning.recording.summary_record import SummaryRecord, recorder_of
from mindsummary_lightning.trainer.checkpoint_callbacks import CheckpointCallbacks
from mindsummary_lightning.trainer.namespaces import rank_zero_info
from mindsummary_lightning.trainer.run_ownership import (
    PLACES,
    Call,
    Holds,
    Place,
    begin_fit,
    contents,
    event_files,
    kind_of_call,
    reports_status,
)
from mindsummary_lightning.trainer.run_version import RunVersion, run_directory
from mindsummary_lightning.trainer.trainer_frames import (
    is_called_by_tuner,
    is_within_trainer,
    launching_trainer,
    resume_path,
)
from mindsummary_lightning.trainer.waiting_hyperparameters import WaitingHyperparameters
from mindsummary_lightning.values import RunInfo, UserDefinedInfo

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Begun:
    """A call of a Trainer that has begun, and where it is recorded."""

    trainer: weakref.ref[Any] | None  # ``None`` in a copy that a Trainer launches with itself
    call: Call
    held: Holds
    place: Place
    process: int

    def is_of(self, trainer: Any, call: Call) -> bool:
        return self.call is call and (self.trainer is None or self.trainer() is trainer)


class CurrentRun:
    """Where a Trainer's calls are recorded: the version, its directory, and what records into it.

    A relative ``root_dir`` lies below the present working directory, whatever that is when a fit begins. ``options``
    are keyword arguments of :class:`SummaryRecord`; ``version`` is ``None`` for a new number for each run.

    Attributes:
        version: the version of the run.
        open_recorder: what records, once something has asked for it.
        values_recorder: the same while values come, so that each costs nothing more; ``None`` before the first one.
        last_step: the last step logged.
        earlier_directory: where the run before was recorded; "" if there was none.
        has_explained_resume: whether the user was told that the present fit resumes in a run of its own.
    """

    def __init__(self, root_dir: str, version: int | str | None, sub_dir: str, options: Mapping[str, Any]) -> None:
        self._working_dir = os.getcwd()
        self._directory: str | None = None  # where a subclass of the logger says
        self._root_dir = os.path.abspath(root_dir)
        self.version: RunVersion = RunVersion(self._root_dir, version)
        self.open_recorder: RunRecorder | None = None
        self.values_recorder: RunRecorder | None = None
        self.last_step: int = -1
        self.earlier_directory = ""
        self.has_explained_resume = False
        self._begun: _Begun | None = None
        self._has_met_trainer = False
        self._notes_start = True  # a collector that records for itself does so if it is asked to
        self._announced = self._shown = ""  # directories
        self._view_dir = self._root_dir
        self._sub_dir = sub_dir
        self._options = dict(options)
        self._record: SummaryRecord | None = None
        self._waiting = WaitingHyperparameters()
        self._handed: dict[str, int] | None = None  # the files when those were handed to the run, if they were
        self._checkpoints = CheckpointCallbacks()

    @classmethod
    def in_directory(cls, directory: str, options: Mapping[str, Any]) -> CurrentRun:
        """The runs of a collector with a directory of its own."""
        run = cls(*os.path.split(directory), "", options)
        run._view_dir = directory
        run._notes_start = False
        return run

    @property
    def directory(self) -> str:
        """The directory of the run's files, absolute."""
        return self._directory or run_directory(self._root_dir, self.version.value, self._sub_dir)

    def move(self, root_dir: str, directory: str | None = None) -> None:
        """Record below another root directory from the next run on, and where given, in just this directory."""
        self._root_dir = self._view_dir = self.version.root_dir = os.path.abspath(
            os.path.join(self._working_dir, root_dir)
        )
        if directory is not None:
            self._directory = os.path.abspath(os.path.join(self._working_dir, directory))

    @property
    def _short_directory(self) -> str:
        return _shortest(self.directory)

    @property
    def has_recorded(self) -> bool:
        """Whether anything has been recorded through the record that is open."""
        return self.open_recorder is not None and self.open_recorder.has_recorded

    # ---- what records

    def record(self) -> SummaryRecord:
        """The run's record; made, and its version claimed, by the first call."""
        if self._record is None:
            self.version.claim()
            self._record = SummaryRecord(self.directory, **self._options)
            self._record.set_mode("eval")  # values of summary operators are the collector's
            self.open_recorder = recorder_of(self._record)
            self.open_recorder.is_reopened = True  # users of a SummaryWriter close it in hooks
            if self._handed is not None:
                self._waiting.hand_to(self.open_recorder)
        return self._record

    def recorder(self) -> RunRecorder:
        """What :meth:`record` is built on."""
        return self.open_recorder or recorder_of(self.record())

    def begin_values(self) -> RunRecorder:
        """What values are recorded with; the first ones of a fit announce where they go."""
        if self._is_fitting:
            self.announce()
        self.values_recorder = self.recorder()
        return self.values_recorder

    def take_options(self, options: Mapping[str, Any]) -> None:
        """Take a collector's options of the record that the logger was not given.

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
        if self.open_recorder is not None:
            self.open_recorder.release()
            self.values_recorder = self.open_recorder = self._record = None

    # ---- hyper-parameters

    def add_hyperparameters(self, info: UserDefinedInfo) -> None:
        """Record those of a Trainer's call with its first value; a user's between two calls are the next fit's."""
        if is_within_trainer():
            recorder = self.recorder()
            recorder.defer_lineage(info)
            if self._is_fitting and recorder.has_recorded:
                recorder.write_deferred_lineage()
            return
        self._waiting.add(info)
        if not self._has_met_trainer:  # a loop of the user's own
            self._hand_over()
            if self.has_recorded:
                self.recorder().write_deferred_lineage()
                self._waiting.forget()

    def _hand_over(self) -> None:
        if self._handed is None:
            self._handed = event_files(self.directory)
        recorder = self.recorder()
        recorder.discard_deferred_lineage()
        self._waiting.hand_to(recorder)

    def _settle_hyperparameters(self) -> None:
        """Forget those that are recorded, and a Trainer's for a call that recorded nothing."""
        if self._handed is not None and self._handed != event_files(self.directory):
            self._waiting.forget()
        self._handed = None
        if self.open_recorder is not None:
            self.open_recorder.discard_deferred_lineage()

    # ---- a Trainer's call

    def begin(self, trainer: Any) -> None:
        """A Trainer begins a call; all its ranks come here, for they learn the version from rank zero."""
        if trainer.is_global_zero:
            self._begin_at_rank_zero(trainer)
        self.version.adopt(trainer.strategy.broadcast(self.version.value))
        self._checkpoints.place(trainer, self.version.value)

    def _begin_at_rank_zero(self, trainer: Any) -> None:
        begun = self._decided(trainer)
        if begun is self._begun and begun.process == os.getpid():
            return
        self._begun = replace(begun, trainer=weakref.ref(trainer), process=os.getpid())
        self._begin_call(trainer)
        effects = {Place.NEWEST_FILE: self._continue_file, Place.NEW_FILE: self._begin_file}
        effects[Place.INSTEAD] = self._begin_instead
        effects.get(begun.place, lambda: None)()
        if self._is_fitting:
            self._hand_over()
            if self._notes_start:  # with the first value; a run that has no end after it was killed
                self.recorder().defer_lineage(RunInfo({"status": STARTED}))

    def _decided(self, trainer: Any) -> _Begun:
        """Which call begins and where it is recorded; the present one, if it is that."""
        path = resume_path(trainer)
        call = kind_of_call(trainer, self.directory, path is not None, is_called_by_tuner())
        if self._begun is not None and self._begun.is_of(trainer, call):
            return self._begun
        self._settle_hyperparameters()
        held = contents(self.directory, self.version.is_given, self.has_recorded)
        if held is Holds.NOTHING and self.has_recorded:  # what was recorded has been removed, the graph too
            self._drop_record()
        begun = _Begun(weakref.ref(trainer), call, held, PLACES[call][held.value], os.getpid())
        if begun.place is Place.NEXT_VERSION:
            self._begin_next_version()
        self._tell(begun, trainer, path)
        return replace(begun)

    def launch(self, trainer: Any) -> None:
        """A Trainer is about to start processes, each with a copy of this run, which go where it says now."""
        begun = self._decided(trainer)
        if begun is not self._begun:
            self._begun = begun
            self._begin_call(trainer)
            self._handed = event_files(self.directory)

    def _begin_call(self, trainer: Any) -> None:
        self._has_met_trainer, self.values_recorder = True, None
        if self._is_fitting:
            begin_fit(trainer, self.directory)

    @property
    def _is_fitting(self) -> bool:
        return self._begun is not None and self._begun.call not in (Call.EVALUATION, Call.TUNING)

    def _begin_file(self) -> None:
        self.recorder().begin_file()

    def _continue_file(self) -> None:
        self.recorder().continue_file()

    def _begin_instead(self) -> None:
        self._drop_record()
        self.recorder().begin_file(is_new_run=True)

    def _begin_next_version(self) -> None:
        self.earlier_directory = self.directory
        self._drop_record()
        self.version.claim_next()
        self.last_step = -1

    def _tell(self, begun: _Begun, trainer: Any, resumed: Any) -> None:
        """Say where a call is recorded, if that may surprise."""
        if begun.place is Place.NEXT_VERSION:
            earlier = _shortest(self.earlier_directory)
            rank_zero_info(f"{earlier} holds an earlier fit; this one is recorded in {self._short_directory}")
        if begun.place is Place.INSTEAD:
            _LOG.warning(
                "%s already contains an earlier fit. MindInsight will show the new fit instead of the old one, from "
                "the first step of the new fit on. To keep both, give each fit a new logger with version=None, or a "
                "summary_dir of its own",
                self._short_directory,
            )
        if begun.call is Call.NEW_FIT:
            self._checkpoints.warn_of_earlier_fit(trainer)
        is_apart = begun.call is Call.RESUMED_FIT and begun.held is Holds.NOTHING
        self.has_explained_resume = is_apart and not self.version.is_given
        if self.has_explained_resume:
            run = os.path.dirname(os.path.dirname(str(resumed)))
            _LOG.warning(
                "this fit resumes from %s and is recorded in %s, which is a new run: MindInsight draws one curve only "
                "for the files of one directory. To continue the curve, pass version=%s to the logger",
                *(resumed, self._short_directory, repr(os.path.basename(run)) if event_files(run) else "..."),
            )

    def end(self, status: str, trainer: Any = None, records_status: bool = True) -> None:
        """A call is over: say how, and close the files; where nothing was recorded, leave nothing.

        For Lightning every exception is ``"failed"``; a trial that a study has pruned is done, and its values count.
        ``trainer`` is whose call it is, ``None`` for a user's.
        """
        if type(sys.exc_info()[1]).__name__ == "TrialPruned":
            status = "pruned"
        held = Holds.OTHERS if self._begun is None else self._begun.held
        if self.has_recorded and records_status and reports_status(trainer, self.directory, held):
            self.recorder().write_lineage(RunInfo({"status": status}))
        if self.has_recorded and self._shown != self.directory:
            self._shown = self.directory
            rank_zero_info(
                f"MindInsight files of this run: {self._short_directory}\nto view them: {self._view_command()}"
            )
        if status == "finished":  # a SLURM requeue: training continues until the job is killed
            return
        self._settle_hyperparameters()
        self._begun = self.values_recorder = None
        if self.has_recorded:
            self.recorder().release()
            self._waiting.remember_run(self.recorder())
        else:
            self._drop_record()
            self.version.release_unused()

    # ---- where the files are

    def announce(self, note: str = "") -> None:
        """Say where the files of the run are going to be, ``note`` of them, and how to look at them meanwhile."""
        if self._announced != self.directory:
            self._announced = self.directory
            where = f"MindInsight files go to {self._short_directory}{note}"
            rank_zero_info(f"{where}; while it trains: {self._view_command()}")

    def _view_command(self) -> str:
        """``mindsummary view``, as this environment has it."""
        own = shutil.which("mindsummary", path=os.path.dirname(sys.executable))
        default = shutil.which("mindsummary")
        if own is None:
            command = f"{shlex.quote(_shortest(sys.executable or 'python'))} -m mindsummary_lightning"
        elif default is not None and os.path.samefile(own, default):
            command = "mindsummary"
        else:
            command = shlex.quote(_shortest(own))
        return f"{command} view {shlex.quote(_shortest(self._view_dir))}"

    # ---- copies

    def __getstate__(self) -> dict[str, Any]:
        # A spawned process never hands its decision back, so the run is chosen before it starts.
        trainer = launching_trainer()
        if trainer is not None:
            self.launch(trainer)
        self.version.claim()
        begun = None if trainer is None or self._begun is None else replace(self._begun, trainer=None)
        return {**self.__dict__, "_begun": begun, "values_recorder": None}


def _shortest(path: str) -> str:
    """The path from here, if it is below; there may be no way from here, or no here any more."""
    relative = value_or_default(path, os.path.relpath, path)
    return path if relative.startswith(os.pardir) else relative
