"""``CurrentRun``: the run behind a logger, or behind a collector with a directory of its own.

It asks `run_ownership` where a call is recorded, and goes there. It is not known when a Trainer's
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
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from mindsummary_lightning.conversion.flattening import value_or_default
from mindsummary_lightning.reading.run_status import STARTED
from mindsummary_lightning.recording.run_recorder import RunRecorder
from mindsummary_lightning.recording.summary_record import SummaryRecord, recorder_of
from mindsummary_lightning.trainer.checkpoint_callbacks import CheckpointCallbacks
from mindsummary_lightning.trainer.end_status import REQUEUED, recorded_status
from mindsummary_lightning.trainer.namespaces import rank_zero_info
from mindsummary_lightning.trainer.run_ownership import (
    HAS_STATUS_OF_EVALUATION,
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


@dataclass
class _Begun:
    """A call of a Trainer that has begun."""

    is_trainer: Callable[[Any], bool]  # whether another Trainer is the one that called
    call: TrainerCall
    held: Holds  # by the directory when it began
    to_enter: list[RecordPlace]  # where it is recorded, until this process has gone there
    # calls of Trainers that ran in this thread when it began, with this one
    depth: int = sys.maxsize

    def is_of(self, trainer: Any, call: TrainerCall) -> bool:
        return self.call is call and self.is_trainer(trainer)


def _is_referent(reference: weakref.ref[Any], trainer: Any) -> bool:
    return reference() is trainer


def _is_of_launched_copy(_: Any) -> bool:
    """Take the Trainer of a copy for the one that launched it: they came together."""
    return True


def _is_none(_: Any) -> bool:
    return False


_NO_CALL = _Begun(_is_none, TrainerCall.TUNING, Holds.OTHERS, [])


@dataclass(frozen=True)
class _Outer:
    """What goes on when a call that a hook has made is over."""

    begun: _Begun
    version: RunVersion
    record: SummaryRecord | None
    last_step: int


class CurrentRun:
    """Where a Trainer's calls are recorded: the version, its directory, and what records into it.

    A relative ``root_dir`` lies below the present working directory, whatever that is when a fit
    begins. ``options`` are keyword arguments of :class:`SummaryRecord`; ``version`` is ``None`` for
    a new number for each run.

    Attributes:
        version: the version of the run.
        open_recorder: what records, once something has asked for it.
        values_recorder: the same while values come, so that each costs nothing more; ``None``
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

    def is_at(self, directory: str) -> bool:
        """Whether a directory is that of the present run or of the one before it."""
        return os.path.realpath(directory) in (
            os.path.realpath(self.directory),
            self._earlier_directory,
        )

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
            self._waiting.hand_again(self.open_recorder)
        return self._record

    def recorder(self) -> RunRecorder:
        """What :meth:`record` is built on."""
        return recorder_of(self.record())

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
            if value in (None, own):
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

    def add_hyperparameters(self, info: UserDefinedInfo, is_trainers: bool) -> None:
        """Record those of a Trainer's call with its first value; a user's between two calls are the next fit's.

        Those that a Trainer gives of the module that it evaluates in a fit's run may not be those
        of the fit.
        """
        is_evaluation = self._begun.call is TrainerCall.EVALUATION
        if is_trainers and is_evaluation and self._begun.held not in HAS_STATUS_OF_EVALUATION:
            return
        if is_within_trainer():
            recorder = self.recorder()
            recorder.defer_lineage(info)
            if self._is_fitting and recorder.has_recorded:
                recorder.write_deferred_lineage()
            return
        self._waiting.add(info)
        if not self._has_met_trainer:  # a loop of the user's own
            self._waiting.hand_to(self.recorder())
            if self.has_recorded:
                self.recorder().write_deferred_lineage()

    # ---- a Trainer's call

    def begin(self, trainer: Any) -> None:
        """A Trainer begins a call; all its ranks come here, for they learn the version from rank zero."""
        if trainer.is_global_zero:
            self.launch(trainer)
            enter = {
                RecordPlace.NEWEST_FILE: self._continue_file,
                RecordPlace.NEW_FILE: self._begin_file,
            }
            enter[RecordPlace.INSTEAD] = self._begin_instead
            places, self._begun.to_enter = self._begun.to_enter, []
            for place in places:
                enter.get(place, self.recorder)()
            if places and self._is_fitting and self._notes_start:
                # With the first value; a run that has no end after it was killed.
                self.recorder().defer_lineage(RunInfo({"status": STARTED}))
        self.version.adopt(trainer.strategy.broadcast(self.version.value))
        self._checkpoints.place(trainer, self.version.value)

    def launch(self, trainer: Any) -> None:
        """Decide where a call is recorded, also for the processes that a Trainer starts, each with a copy of this."""
        path, depth = resume_path(trainer), calls_of_trainers()
        # of a call that has not said that it is over
        while self._outer and self._begun.depth > depth:
            self._go_on_with_outer()
        call = kind_of_call(trainer, self.directory, path is not None, is_called_by_tuner())
        if self._begun.is_of(trainer, call):
            self._take_over_launch(trainer)
            return
        held = contents(self.directory, self.has_recorded)
        is_nested = depth > self._begun.depth
        if is_nested:
            self._outer.append(_Outer(self._begun, self.version, self._record, self.last_step))
            self.values_recorder = None
        else:
            self._leave(held)
        place = place_of(call, held, self.version.is_given)
        if place is RecordPlace.NEXT_VERSION:
            self._begin_next_version()
        self._begun = _Begun(
            partial(_is_referent, weakref.ref(trainer)), call, held, [place], depth
        )
        if self._is_fitting:
            begin_fit(trainer, self.directory)
        if self._is_fitting and not is_nested:
            self._waiting.hand_to(self.recorder())
        self._explain(trainer, path)

    def _take_over_launch(self, trainer: Any) -> None:
        """In a launched process: make the fit one of this process's, so that its end is recorded here."""
        if self._begun.is_trainer is _is_of_launched_copy:
            self._begun = replace(
                self._begun, is_trainer=partial(_is_referent, weakref.ref(trainer))
            )
            if self._is_fitting:
                begin_fit(trainer, self.directory)

    def _leave(self, held: Holds) -> None:
        """Leave the call before, of whose directory it is known now what it holds."""
        self._has_met_trainer, self.values_recorder = True, None
        self._waiting.settle(held is not Holds.NOTHING and newest_fit_has_recorded(self.directory))
        self.recorder().discard_deferred_lineage()
        if held is Holds.NOTHING:  # what was recorded has been removed, the graph too
            self._drop_record()

    def _go_on_with_outer(self) -> None:
        """Go on with the call whose hook has made the present one."""
        outer = self._outer.pop()
        if outer.record is not self._record:
            self._drop_record()
        self._begun, self.version, self.last_step = outer.begun, outer.version, outer.last_step
        self._record, self.values_recorder = outer.record, None
        self.open_recorder = None if outer.record is None else recorder_of(outer.record)

    @property
    def _is_fitting(self) -> bool:
        return self._begun.call not in (TrainerCall.EVALUATION, TrainerCall.TUNING)

    def _begin_file(self) -> None:
        self.recorder().begin_file()

    def _continue_file(self) -> None:
        self.recorder().continue_file()

    def _begin_instead(self) -> None:
        _LOG.warning(
            "%s already contains an earlier fit. MindInsight will show the new fit instead of the old one, from "
            "the first step of the new fit on. To keep both, give each fit a new logger with version=None, or a "
            "summary_dir of its own",
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
            f"{_shortest(earlier)} holds an earlier fit; this one is recorded in {self._short_directory}"
        )

    def _explain(self, trainer: Any, resumed: Any) -> None:
        """Say before a fit what may surprise in its checkpoints or its curve."""
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
                "this fit resumes from %s and is recorded in %s, which is a new run: MindInsight draws one curve only "
                "for the files of one directory. To continue the curve, pass version=... of that run to the logger",
                *(resumed, self._short_directory),
            )

    def end(self, status: str, trainer: Any = None, records_status: bool = True) -> None:
        """A call is over: say how, and close the files; where nothing was recorded, leave nothing.

        ``trainer`` is whose call it is, ``None`` for a user's.
        """
        is_over = status != REQUEUED
        status = recorded_status(status, sys.exc_info()[1])
        if self.has_recorded:
            if records_status and self._reports_status(trainer):
                self.recorder().write_lineage(RunInfo({"status": status}))
            self._say_once("end", "MindInsight files of this run: {}\nto view them: {}")
        if not is_over:
            return
        self.values_recorder = None
        if self.has_recorded:
            self.recorder().release()
            self._waiting.remember_run(self.recorder())
        elif all(outer.record is not self._record for outer in self._outer):
            self._drop_record()
            self.version.release_unused()
        if trainer is not None:
            self._begun = _NO_CALL
            if self._outer:
                self._go_on_with_outer()

    def _reports_status(self, trainer: Any) -> bool:
        if trainer is None:
            return not holds_fit(self.directory)
        return reports_status(trainer, self._begun.call, self.directory, self._begun.held)

    # ---- where the files are

    def announce(self, note: str = "") -> None:
        """Say where the files of the run are going to be, ``note`` of them, and how to look at them meanwhile."""
        escaped = note.replace("{", "{{").replace("}", "}}")
        self._say_once("begin", f"MindInsight files go to {{}}{escaped}; while it trains: {{}}")

    def _say_once(self, when: str, text: str) -> None:
        """Say something of the run's directory and of how to look at it, once."""
        if self._said.get(when) != self.directory:
            self._said[when] = self.directory
            rank_zero_info(text.format(self._short_directory, self._view_command()))

    def _view_command(self) -> str:
        """``mindsummary view``, as this environment has it."""
        own = shutil.which("mindsummary", path=os.path.dirname(sys.executable))
        default = shutil.which("mindsummary")
        if own is None:
            command = (
                f"{shlex.quote(_shortest(sys.executable or 'python'))} -m mindsummary_lightning"
            )
        elif os.path.realpath(own) == os.path.realpath(str(default)):
            command = "mindsummary"
        else:
            command = shlex.quote(_shortest(own))
        return f"{command} view {shlex.quote(_shortest(self._view_dir))}"

    # ---- copies

    def __getstate__(self) -> dict[str, Any]:
        # A spawned process never hands its decision back, so the run is chosen before it starts.
        trainer, begun = launching_trainer(), _NO_CALL
        if trainer is not None:
            self.launch(trainer)
            begun = replace(self._begun, is_trainer=_is_of_launched_copy, depth=0)
        self.version.claim()
        return {**self.__dict__, "_begun": begun, "_outer": [], "values_recorder": None}


def _shortest(path: str) -> str:
    """The path from here, if it is below; there may be no way from here, or no here any more."""
    relative = value_or_default(path, os.path.relpath, path)
    return path if relative.startswith(os.pardir) else relative
