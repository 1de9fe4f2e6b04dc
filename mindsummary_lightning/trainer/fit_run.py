"""``FitRun``: the run behind a logger, or behind a collector with a directory of its own.

It is not known when a Trainer asks for the experiment whether it is going to fit or to evaluate, so hyper-parameters,
which come next, wait in the record until something else is recorded.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shlex
import shutil
import sys
import weakref
from collections.abc import Mapping
from typing import Any

from mindsummary_lightning.conversion.flattening import value_or_default
from mindsummary_lightning.recording.run_recorder import RunRecorder
from mindsummary_lightning.recording.summary_record import SummaryRecord, recorder_of
from mindsummary_lightning.trainer import run_identity
from mindsummary_lightning.trainer.namespaces import rank_zero_info
from mindsummary_lightning.trainer.trainer_state import ends_with_tuning
from mindsummary_lightning.values import RunInfo, UserDefinedInfo

_LOG = logging.getLogger(__name__)

_VERSION_DIR = re.compile(r"version_(\d+)")


class FitRun:
    """Where fits are recorded, one after the other: the version, its directory, and what records into it.

    A relative ``root_dir`` lies below the present working directory, whatever that is when a fit begins. ``options``
    are keyword arguments of :class:`SummaryRecord`; ``version`` is ``None`` for a new number for each run.
    """

    def __init__(self, root_dir: str, version: int | str | None, sub_dir: str, options: Mapping[str, Any]) -> None:
        self._working_dir = os.getcwd()
        self._directory: str | None = None  # where a subclass of the logger says
        self._root_dir = os.path.abspath(root_dir)
        self.version: RunVersion = RunVersion(self._root_dir, version)
        self.open_recorder: RunRecorder | None = None  # once something has asked for it
        self.is_in_trainer: bool = False  # whether a Trainer has asked for the experiment since the last `end`
        self.last_step: int = -1  # the last one logged
        self._is_fitting = False
        self._announced = self._shown = ""  # directories
        self._view_dir = self._root_dir
        self._sub_dir = sub_dir
        self._options = dict(options)
        self._record: SummaryRecord | None = None
        self._dropped: RunRecorder | None = None  # its deferred lineage is the next one's

    @classmethod
    def in_directory(cls, directory: str, options: Mapping[str, Any]) -> FitRun:
        """The runs of a collector with a directory of its own."""
        run = cls(*os.path.split(directory), "", options)
        run._view_dir = directory
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

    def record(self) -> SummaryRecord:
        """The run's record; made, and its version claimed, by the first call."""
        if self._record is None:
            self.version.claim()
            self._record = SummaryRecord(self.directory, **self._options)
            self._record.set_mode("eval")  # values of summary operators are the collector's
            self.open_recorder = recorder_of(self._record)
            self.open_recorder.is_reopened = True  # users of a SummaryWriter close it in hooks
            if self._dropped is not None:
                self.open_recorder.take_deferred_lineage(self._dropped)
        return self._record

    def recorder(self) -> RunRecorder:
        """What :meth:`record` is built on."""
        return self.open_recorder or recorder_of(self.record())

    def add_hyperparameters(self, info: UserDefinedInfo) -> None:
        """Record hyper-parameters with the first value, then at once, or as soon as it is clear whose they are."""
        recorder = self.recorder()
        recorder.defer_lineage(info)
        if recorder.has_recorded and (self._is_fitting or not self.is_in_trainer):
            recorder.write_deferred_lineage()

    def enter(self, trainer: Any) -> None:
        """A Trainer begins a call; all its ranks come here, for they learn the version from rank zero."""
        if trainer.is_global_zero:
            self._is_fitting = trainer.state.fn == "fit" and not ends_with_tuning(trainer)
            if self._is_fitting:
                self._begin_fit(trainer)
        self.version.adopt(trainer.strategy.broadcast(self.version.value))

    def announce(self) -> None:
        """Say where the files of the run are going to be, and how to look at them meanwhile."""
        if self._announced != self.directory:
            self._announced = self.directory
            rank_zero_info(f"MindInsight files go to {self._short_directory}; while it trains: {self._view_command()}")

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

    def _begin_fit(self, trainer: Any) -> None:
        holds_values = run_identity.holds_values(self.directory)
        if self.has_recorded and not holds_values:  # what was recorded has been removed, the graph too
            self._drop_record()
        has_fit = holds_values and run_identity.has_fit(self.directory)
        # Nobody else takes a number that was claimed, so these are of a process that got a copy of this object.
        is_after_copy = holds_values and not (self.has_recorded or self.version.is_given)
        is_resumed = run_identity.resume_path(trainer) is not None
        if is_resumed or run_identity.is_newest(trainer, self.directory):
            if is_resumed and has_fit:
                self.recorder().begin_file()
        elif has_fit and not self.version.is_given:
            self._begin_next_version()
        elif has_fit or is_after_copy:
            self._drop_record()
            self.recorder().begin_file(is_new_run=True)
            _LOG.warning(
                "%s already contains an earlier fit. MindInsight will show the new fit instead of the old one, from "
                "the first step of the new fit on. To keep both, give each fit a new logger with version=None, or a "
                "summary_dir of its own",
                self._short_directory,
            )
        run_identity.begin(trainer, self.directory)

    def _begin_next_version(self) -> None:
        earlier = self.directory
        self._drop_record()
        self.version.begin_next()
        self.version.claim()
        self.last_step = -1
        rank_zero_info(f"{_shortest(earlier)} holds an earlier fit; this one is recorded in {self._short_directory}")

    def end(self, status: str, records_status: bool = True) -> None:
        """A call of the Trainer is over: say how, and close the files; where nothing was recorded, leave nothing.

        For Lightning every exception is ``"failed"``; a trial that a study has pruned is done, and its values count.
        """
        if type(sys.exc_info()[1]).__name__ == "TrialPruned":
            status = "pruned"
        is_of_fit = self._is_fitting or not run_identity.has_fit(self.directory)  # and of no evaluation after it
        if self.has_recorded and records_status and is_of_fit:
            self.recorder().write_lineage(RunInfo({"status": status}))
        if self.has_recorded and self._shown != self.directory:
            self._shown = self.directory
            rank_zero_info(
                f"MindInsight files of this run: {self._short_directory}\nto view them: {self._view_command()}"
            )
        if status == "finished":  # a SLURM requeue: training continues until the job is killed
            return
        self.is_in_trainer = self._is_fitting = False
        if self.has_recorded:
            self.recorder().release()
        else:
            self._drop_record()
            self.version.release_unused()

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
        """Close the record; hyper-parameters that were not recorded wait for the next one."""
        if self.open_recorder is not None:
            self.open_recorder.release()
            self._dropped, self.open_recorder, self._record = self.open_recorder, None, None


def run_directory(root_dir: str, version: int | str, sub_dir: str = "") -> str:
    """The directory of a version below a root directory."""
    name = f"version_{version}" if isinstance(version, int) else version
    return os.path.join(root_dir, name, sub_dir).rstrip(os.sep) or os.sep


class RunVersion:
    """The version of one run below a root directory: the user's number or name, or the number after the highest there.

    A number is claimed by making its directory, which is atomic: of many processes that start together each gets one of
    its own. The ranks of one run are told by rank zero.
    """

    def __init__(self, root_dir: str, given: int | str | None) -> None:
        if isinstance(given, bool) or not isinstance(given, (int, str, type(None))):
            raise TypeError(f"version must be an int, a str or None, not {given!r}")
        if isinstance(given, int) and given < 0:
            raise ValueError(f"version must be 0 or more, not {given}")
        self.is_given: bool = given is not None
        self.root_dir = root_dir
        self._value = given
        self._made: list[str] = []  # what `claim` made, outermost first; empty unless this object holds a claim
        self._cleanup: weakref.finalize[..., RunVersion] | None = None

    @property
    def value(self) -> int | str:
        """The version; until it is claimed, the number that is free now."""
        if self._value is None:
            self._value = _next_number(self.root_dir)
        return self._value

    def adopt(self, value: int | str) -> None:
        """Take the version that rank zero decided."""
        self._value = value

    def claim(self) -> None:
        """Make the directory of the number, or of the next one that is free; a given version needs none.

        One that cannot be made is left to the first record, which reports it.
        """
        if self.is_given or self._made:
            return
        root, number = self.root_dir, int(self.value)
        with contextlib.suppress(OSError):
            parents = _missing_parents(root)
            os.makedirs(root, exist_ok=True)
            while not self._made:
                path = os.path.join(root, f"version_{number}")
                try:
                    os.mkdir(path)
                except FileExistsError:
                    number += 1
                else:
                    self._made = [*parents, path]
            self._value = number
            self._cleanup = weakref.finalize(self, _remove_empty, self._made, os.getpid())

    def release_unused(self) -> None:
        """Remove the claimed directory and give the claim back, unless somebody has put files there."""
        if self._cleanup is not None:
            self._cleanup()
        if self._made and not os.path.lexists(self._made[-1]):
            self._made = []

    def begin_next(self) -> None:
        """Forget the number, so that the next claim takes a later one; a directory with records stays."""
        self._made, self._value = [], None


def _shortest(path: str) -> str:
    """The path from here, if it is below; there may be no way from here, or no here any more."""
    relative = value_or_default(path, os.path.relpath, path)
    return path if relative.startswith(os.pardir) else relative


def _next_number(root_dir: str) -> int:
    try:
        names = os.listdir(root_dir)
    except OSError:  # not there yet, or out of reach
        names = []
    return max((int(found.group(1)) for found in map(_VERSION_DIR.fullmatch, names) if found), default=-1) + 1


def _missing_parents(path: str) -> list[str]:
    missing: list[str] = []
    while not os.path.lexists(path):
        missing.insert(0, path)
        path = os.path.dirname(path)
    return missing


def _remove_empty(made: list[str], process: int) -> None:
    if os.getpid() != process:  # a forked child leaves them to its parent
        return
    for path in reversed(made):
        with contextlib.suppress(OSError):  # not empty, or gone
            os.rmdir(path)
