"""``CurrentRun``: the run that a logger or collector records at present.

`run_ownership` decides where a call is recorded. It is not known when a Trainer's
call begins whether it records anything, so hyper-parameters, which come first, wait in the record
until something else is recorded.
"""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import sys
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

from mindsummary_lightning.conversion.flattening import value_or_default
from mindsummary_lightning.reading.run_status import STARTED
from mindsummary_lightning.recording.run_recorder import RunRecorder
from mindsummary_lightning.recording.summary_record import SummaryRecord, recorder_of
from mindsummary_lightning.trainer.checkpoint_callbacks import CheckpointCallbacks
from mindsummary_lightning.trainer.end_status import REQUEUED, recorded_status
from mindsummary_lightning.trainer.namespaces import rank_zero_info
from mindsummary_lightning.trainer.run_ownership import (
    FITS,
    Holds,
    RecordPlace,
    TrainerCall,
    begin_fit,
    contents,
    holds_fit,
    kind_of_call,
    newest_fit_has_recorded,
    place_of,
    reports_status,
    speaks_for_run,
)
from mindsummary_lightning.trainer.run_version import RunVersion, run_directory
from mindsummary_lightning.trainer.trainer_frames import (
    calls_of_trainers,
    is_called_by_tuner,
    is_within_trainer,
    launching_trainer,
    resume_path,
)
from mindsummary_lightning.trainer.waiting_hyperparameters import WaitingHyperparameters
from mindsummary_lightning.values import RunInfo, UserDefinedInfo

_LOG = logging.getLogger(__name__)


def _no_trainer() -> None:
    """Return ``None``, in place of a weak reference to a Trainer."""


@dataclass(frozen=True)
class _Begun:
    """A call of a Trainer that has begun.

    Attributes:
        trainer: a weak reference to the Trainer.
        call: the kind of call.
        held: the contents of the directory when the call began.
        to_enter: the place where the call is recorded, until this process has entered it.
        depth: how many calls of Trainers ran in this thread when it began, including this call.
        is_launched: whether it began in the process that launched this one, with a copy of its
            Trainer that has not called here yet.
    """

    trainer: Callable[[], Any]
    call: TrainerCall
    held: Holds
    to_enter: list[RecordPlace] = field(default_factory=list)
    depth: int = -1  # of no call
    is_launched: bool = False


_NO_CALL = _Begun(_no_trainer, TrainerCall.TUNING, Holds.OTHERS)


@dataclass(frozen=True)
class _Outer:
    """A Trainer's call that waits while a second call, made by its hook, runs."""

    begun: _Begun
    version: RunVersion
    record: SummaryRecord | None
    recorder: RunRecorder | None
    last_step: int


class CurrentRun:
    """The run into which a Trainer's calls are recorded: its version and recorder.

    A relative ``root_dir`` lies below the present working directory, whatever that is when a fit
    begins. ``options`` are keyword arguments of :class:`SummaryRecord`; ``version`` is ``None`` for
    a new number for each run.

    Attributes:
        version: the version of the run.
        open_recorder: the open recorder, once it was requested.
        values_recorder: the open recorder while values arrive, for fast access; ``None``
            before the first one.
        last_step: the last step logged.
        has_explained_resume: whether the user was told that the present fit resumes in a run of its
            own.
    """

    def __init__(
        self, root_dir: str, version: int | str | None, sub_dir: str, options: Mapping[str, Any]
    ) -> None:
        self._working_dir = os.getcwd()
        self._directory: str | None = None  # where a subclass of the logger says
        self._root_dir = os.path.abspath(root_dir)
        self.version: RunVersion = RunVersion(self._root_dir, version)
        self.open_recorder: RunRecorder | None = None
        self.values_recorder: RunRecorder | None = None
        self.last_step: int = -1
        self._earlier_directory = ""  # of the run before, its real path
        self.has_explained_resume: bool = False
        self._begun = _NO_CALL
        self._outer: list[_Outer] = []  # of a call that a hook of another has made, outermost first
        self._has_met_trainer = False
        self._notes_start = True  # a collector that records for itself does so if it is asked to
        self._said: dict[str, str] = {}  # of which directory, when
        self._view_dir = self._root_dir
        self._sub_dir = sub_dir
        self._options = dict(options)
        self._record: SummaryRecord | None = None
        self._waiting = WaitingHyperparameters()
        self._checkpoints = CheckpointCallbacks()

    @classmethod
    def in_directory(cls, directory: str, options: Mapping[str, Any]) -> CurrentRun:
        """Make the run of a collector that has its own ``summary_dir``."""
        run = cls(*os.path.split(directory), "", options)
        run._view_dir = directory
        run._notes_start = False
        return run

    @property
    def directory(self) -> str:
        """Return the absolute path of the directory with the run's files."""
        return self._directory or run_directory(self._root_dir, self.version.value, self._sub_dir)

    def move_root(self, root_dir: str) -> None:
        """Set the root directory for the runs after the present run."""
        path = os.path.abspath(os.path.join(self._working_dir, root_dir))
        self._root_dir = self._view_dir = self.version.root_dir = path

    def fix_directory(self, directory: str) -> None:
        """Record into a given directory, regardless of root directory and version."""
        self._directory = os.path.abspath(os.path.join(self._working_dir, directory))

    @property
    def _short_directory(self) -> str:
        return _shortest(self.directory)

    def is_at(self, directory: str) -> bool:
        """Tell whether a path is the directory of this run or of the previous run."""
        return os.path.realpath(directory) in (
            os.path.realpath(self.directory),
            self._earlier_directory,
        )

    @property
    def has_recorded(self) -> bool:
        """Tell whether the open recorder has recorded a value."""
        return self.open_recorder is not None and self.open_recorder.has_recorded

    # ---- what records

    def record(self) -> SummaryRecord:
        """Return the run's record; the first call creates it and claims a version."""
        if self._record is None:
            self.version.claim()
            self._record = SummaryRecord(self.directory, **self._options)
            self._record.set_mode("eval")  # values of summary operators are the collector's
            self.open_recorder = recorder_of(self._record)
            self.open_recorder.is_reopened = True  # users of a SummaryWriter close it in hooks
            self._waiting.hand_again(self.open_recorder)
        return self._record

    def recorder(self) -> RunRecorder:
        """Return the recorder that :meth:`record` is built on."""
        return recorder_of(self.record())

    def begin_values(self) -> RunRecorder:
        """Return the recorder, and keep it for fast access while values arrive.

        The first values of a fit announce the directory.
        """
        if self._is_fitting:
            self.announce()
        self.values_recorder = self.recorder()
        return self.values_recorder

    def take_options(self, options: Mapping[str, Any]) -> None:
        """Take those record options of a collector that the logger was not given.

        Raises:
            ValueError: the logger was given a different value.
        """
        for name, value in options.items():
            own = self._options[name]
            if value in (None, own):
                continue
            if own is not None:
                raise ValueError(
                    f"{name} must be equal in MindInsightLogger and SummaryCollector, which "
                    f"record into the same files, got {own!r} and {value!r}. Give it to one of "
                    "them, or give the collector a summary_dir"
                )
            self._options[name] = value
            self._drop_record()

    def _drop_record(self) -> None:
        if self.open_recorder is not None:
            self.open_recorder.release()
            self.values_recorder = self.open_recorder = self._record = None

    # ---- hyper-parameters

    def add_hyperparameters(self, info: UserDefinedInfo, is_trainers: bool) -> None:
        """Record a Trainer's hyper-parameters, or keep the user's for the next fit.

        A Trainer's hyper-parameters are recorded with the first value of its call.

        Those that a Trainer gives of the module that it evaluates in a fit's run may not be those
        of the fit.
        """
        if is_trainers and not speaks_for_run(self._begun.call, self._begun.held):
            return
        if is_within_trainer():
            self.recorder().defer_lineage(info)
            self.recorder().write_ready_lineage()
            return
        self._waiting.add(info)
        if not self._has_met_trainer:  # a loop of the user's own
            self._waiting.hand_to(self.recorder())
            self.recorder().write_ready_lineage()

    # ---- a Trainer's call

    def begin(self, trainer: Any) -> None:
        """Switch to the run into which a Trainer's call is recorded.

        All ranks call this method, because rank zero tells them the version.
        """
        if trainer.is_global_zero:
            self.launch(trainer)
            places, self._begun = self._begun.to_enter, replace(self._begun, to_enter=[])
            for place in places:
                _ENTER[place](self)
                if self._is_fitting and self._notes_start:
                    # With the first value; a run that has no end after it was killed.
                    self.recorder().defer_lineage(RunInfo({"status": STARTED}))
        self.version.adopt(trainer.strategy.broadcast(self.version.value))
        self._checkpoints.place(trainer, self.version.value)

    def launch(self, trainer: Any) -> None:
        """Decide into which run a Trainer's call is recorded.

        The decision also holds for the processes that the Trainer starts, which copy this object.
        """
        if self._begun.is_launched:
            # Now the call is one of this process's, so that its end is recorded here.
            self._set_begun(trainer, replace(self._begun, is_launched=False))
            return
        path, depth = resume_path(trainer), calls_of_trainers()
        while self._begun.depth > depth:  # of a call that has not said that it is over
            self._leave_call()
        call = kind_of_call(trainer, self.directory, path is not None, is_called_by_tuner())
        if (self._begun.trainer(), self._begun.call) == (trainer, call):
            return
        held = contents(self.directory, self.has_recorded)
        if 0 <= self._begun.depth < depth:
            self._suspend()
        else:
            self._leave(held)
        place = place_of(call, held, self.version.is_given)
        if place is RecordPlace.NEXT_VERSION:
            self._begin_next_version()
        self._set_begun(trainer, _Begun(_no_trainer, call, held, [place], depth))
        self._explain(trainer, path)

    def _set_begun(self, trainer: Any, begun: _Begun) -> None:
        self._begun = replace(begun, trainer=weakref.ref(trainer))
        if self._is_fitting:
            begin_fit(trainer, self.directory)
            self._waiting.hand_to(self.recorder())

    def _leave(self, held: Holds) -> None:
        """Leave the previous call, given the present contents of its directory."""
        self._has_met_trainer, self.values_recorder = True, None
        self._waiting.settle(newest_fit_has_recorded(self.directory))
        self.recorder().discard_deferred_lineage()
        if held is Holds.NOTHING:  # what was recorded has been removed, the graph too
            self._drop_record()

    def _suspend(self) -> None:
        """Suspend the present call while another call, made in its hook, runs."""
        outer = _Outer(self._begun, self.version, self._record, self.open_recorder, self.last_step)
        self._outer.append(outer)
        self.values_recorder = None

    def _leave_call(self) -> None:
        """Leave the present call, and resume the call whose hook has made it, if any."""
        self._begun = _NO_CALL
        if self._outer:
            outer = self._outer.pop()
            if outer.record is not self._record:
                self._drop_record()
            self._begun, self.version, self.last_step = outer.begun, outer.version, outer.last_step
            self._record, self.open_recorder = outer.record, outer.recorder
            self.values_recorder = None

    @property
    def _is_fitting(self) -> bool:
        return self._begun.call in FITS

    def _stay(self) -> None:
        self.recorder()

    def _begin_file(self) -> None:
        self.recorder().begin_file()

    def _continue_file(self) -> None:
        self.recorder().continue_file()

    def _begin_instead(self) -> None:
        _LOG.warning(
            "%s already contains an earlier fit. MindInsight will show the new fit instead of "
            "the old one, from the first step of the new fit on. To keep both, give each fit a "
            "new logger with version=None, or a summary_dir of its own",
            self._short_directory,
        )
        self._drop_record()
        self.recorder().begin_file(is_new_run=True)

    def _begin_next_version(self) -> None:
        earlier = self.directory
        self._earlier_directory = os.path.realpath(earlier)
        self._drop_record()
        self.version = RunVersion(self._root_dir, None)
        self.version.claim()
        self.last_step = -1
        rank_zero_info(
            f"{_shortest(earlier)} holds an earlier fit. The new fit is recorded in "
            f"{self._short_directory}"
        )

    def _explain(self, trainer: Any, resumed: Any) -> None:
        """Warn before a fit if checkpoints may be lost or a curve is split in two."""
        if self._begun.call is TrainerCall.NEW_FIT:
            self._checkpoints.warn_of_earlier_fit(trainer)
        new_run = (TrainerCall.RESUMED_FIT, Holds.NOTHING, False)
        self.has_explained_resume = (
            self._begun.call,
            self._begun.held,
            self.version.is_given,
        ) == new_run
        if self.has_explained_resume:
            _LOG.warning(
                "this fit resumes from %s, but records into the new run %s, so MindInsight draws "
                "two separate curves. To continue the old curve, pass the version of the old run "
                "to the logger: version=...",
                *(resumed, self._short_directory),
            )

    def end(self, status: str, trainer: Any = None, records_status: bool = True) -> None:
        """Record how a call ended, and close the files.

        A run without records leaves no directory. A fit that fails in launched processes ends in
        the process that launched them, which has recorded no value itself.

        ``trainer`` is the Trainer that ends; ``None`` if the user ends the run.
        """
        if self.has_recorded or newest_fit_has_recorded(self.directory):
            if records_status and self._reports_status(trainer):
                info = RunInfo({"status": recorded_status(status, sys.exc_info()[1])})
                self.recorder().write_lineage(info)
            self._say_once("end", "MindInsight files of this run: {}\nto view them: {}")
        if status == REQUEUED:
            return
        self._close_files()
        if trainer is not None:
            self._leave_call()

    def _close_files(self) -> None:
        """Close the files of the run.

        A run without files releases its version if no outer call continues in it.
        """
        self.values_recorder = None
        if self.has_recorded:
            self.recorder().release()
            self._waiting.remember_run(self.recorder())
        elif not self._outer:
            self._drop_record()
            self.version.release_unused()

    def _reports_status(self, trainer: Any) -> bool:
        if trainer is None:
            return not holds_fit(self.directory)
        return reports_status(trainer, self._begun.call, self.directory, self._begun.held)

    # ---- where the files are

    def announce(self, note: str = "") -> None:
        """Log the directory of the run's files, and the command to view them.

        ``note`` says more about the files.
        """
        escaped = note.replace("{", "{{").replace("}", "}}")
        self._say_once("begin", f"MindInsight files go to {{}}{escaped}; while it trains: {{}}")

    def _say_once(self, when: str, text: str) -> None:
        """Log once the run's directory and the command to view it."""
        if self._said.get(when) != self.directory:
            self._said[when] = self.directory
            rank_zero_info(text.format(self._short_directory, view_command(self._view_dir)))

    # ---- copies

    def __getstate__(self) -> dict[str, Any]:
        # A spawned process never hands its decision back, so the run is chosen before it starts.
        trainer, begun = launching_trainer(), _NO_CALL
        if trainer is not None:
            self.launch(trainer)
            # In the copy, Trainer.fit is not among the calls that run.
            begun = replace(self._begun, trainer=_no_trainer, depth=0, is_launched=True)
        self.version.claim()
        return {**self.__dict__, "_begun": begun, "_outer": [], "values_recorder": None}


_ENTER: dict[RecordPlace, Callable[[CurrentRun], None]] = {
    RecordPlace.HERE: CurrentRun._stay,
    RecordPlace.NEWEST_FILE: CurrentRun._continue_file,
    RecordPlace.NEW_FILE: CurrentRun._begin_file,
    RecordPlace.INSTEAD: CurrentRun._begin_instead,
    RecordPlace.NEXT_VERSION: CurrentRun._stay,
}


def view_command(directory: str) -> str:
    """Return the shell command that shows the runs in a directory."""
    found = str(shutil.which("mindsummary"))
    is_own = os.path.dirname(found) == os.path.dirname(sys.executable)
    module = f"{shlex.quote(_shortest(sys.executable))} -m mindsummary_lightning"
    return f"{'mindsummary' if is_own else module} view {shlex.quote(_shortest(directory))}"


def _shortest(path: str) -> str:
    """Return a path relative to the working directory if the path is inside it."""
    return value_or_default(path, _path_from_here, path)


def _path_from_here(path: str) -> str:
    """Return a path relative to the working directory.

    Raises ValueError for a path outside it, OSError if the working directory was removed.
    """
    return str(PurePath(path).relative_to(os.getcwd()))
