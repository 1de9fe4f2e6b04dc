"""Decides with a table into which run a Trainer's call is recorded.

Rows are calls that begin, columns what their directory holds then. What it holds is read from the
directory and from the fits that this process has begun there, through whatever objects: a
notebook's cell makes new ones each time.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, TypeVar

from mindsummary_lightning.fileformat.file_names import is_summary_name, timestamp_of

_T = TypeVar("_T")


class TrainerCall(Enum):
    """The kinds of calls of a Trainer's methods (the rows of the table)."""

    EVALUATION = auto()  # validate, test or predict
    TUNING = auto()  # a fit of a Tuner, which ends before it trains
    NEW_FIT = auto()
    CONTINUED_FIT = auto()  # the Trainer of the newest fit of this directory fits again
    RESUMED_FIT = auto()  # with a checkpoint


class Holds(Enum):
    """The contents of a run's directory when a call begins (the table's columns)."""

    NOTHING = 0
    VALUES = 1  # of evaluations, or that the user logged, in this process
    FIT = 2  # of this process
    OTHERS = 3  # files of another process


class RecordPlace(Enum):
    """The place into which a call is recorded (the cells of the table)."""

    HERE = auto()
    # appended to the newest summary file that is here, which may be another process's
    NEWEST_FILE = auto()
    NEW_FILE = auto()  # here, in a later file, whose steps replace those after its first one
    INSTEAD = auto()  # here, in new files that replace all there is
    NEXT_VERSION = auto()


_HERE, _NEWEST, _FILE, _INSTEAD, _NEXT = RecordPlace

PLACES: dict[TrainerCall, tuple[RecordPlace, ...]] = {
    # a call that begins   NOTHING  VALUES   FIT      OTHERS
    TrainerCall.EVALUATION:      (_HERE,  _NEWEST, _NEWEST, _NEWEST),
    TrainerCall.TUNING:          (_HERE,  _HERE,   _HERE,   _HERE),
    TrainerCall.NEW_FIT:         (_HERE,  _HERE,   _NEXT,   _NEXT),
    TrainerCall.CONTINUED_FIT:   (_HERE,  _HERE,   _HERE,   _HERE),
    TrainerCall.RESUMED_FIT:     (_HERE,  _HERE,   _FILE,   _HERE),
}  # fmt: skip

# The same where the user fixed the directory: a version of a logger, or a collector's summary_dir.
PLACES_IN_FIXED: dict[TrainerCall, tuple[RecordPlace, ...]] = {
    **PLACES,
    TrainerCall.NEW_FIT: (_HERE, _HERE, _INSTEAD, _HERE),
}

_TABLES = {False: PLACES, True: PLACES_IN_FIXED}

FITS = frozenset({TrainerCall.NEW_FIT, TrainerCall.CONTINUED_FIT, TrainerCall.RESUMED_FIT})

# What the directory holds where other calls than fits speak for the run: its module's
# hyper-parameters and how it ended are the run's.
_SPEAKS_FOR_RUN: dict[TrainerCall, frozenset[Holds]] = {
    # only in a run that holds no fit, and that this process began
    TrainerCall.EVALUATION: frozenset({Holds.NOTHING, Holds.VALUES}),
    TrainerCall.TUNING: frozenset(),
}


@dataclass(frozen=True)
class _Fit:
    """A fit that this process has begun in a directory."""

    trainer: Callable[[], Any]  # a weak reference
    files: Mapping[str, int]  # that the directory held when it began


_NO_FIT = _Fit(lambda: None, {})

# The newest fit of each directory by its real path, and before it the newest that has recorded a
# value.
_FITS: dict[str, tuple[_Fit, _Fit]] = {}


def event_files(directory: str) -> dict[str, int]:
    """Return the names and sizes of the summary and lineage files in a directory.

    The result is empty if the directory is unreachable.
    """
    found: dict[str, int] = {}
    with contextlib.suppress(OSError):
        for entry in os.scandir(directory):
            if timestamp_of(entry.name) is not None:
                found[entry.name] = entry.stat().st_size
    return found


def _summaries(files: Mapping[str, int]) -> dict[str, int]:
    return dict(filter(lambda file: is_summary_name(file[0]), files.items()))


def _fits(directory: str) -> tuple[_Fit, _Fit]:
    return _FITS.get(os.path.realpath(directory), (_NO_FIT, _NO_FIT))


def _recorded_fit(directory: str) -> _Fit:
    """Return this process's newest fit that has recorded a value in a directory.

    ``_NO_FIT`` if there is none.
    """
    now = _summaries(event_files(directory)).items()
    return next((fit for fit in _fits(directory) if now - fit.files.items()), _NO_FIT)


def begin_fit(trainer: Any, directory: str) -> None:
    """Note that a Trainer begins a fit that is recorded in a directory."""
    newest = _Fit(weakref.ref(trainer), event_files(directory))
    _FITS[os.path.realpath(directory)] = (newest, _recorded_fit(directory))


def contents(directory: str, has_own_values: bool) -> Holds:
    """Return the kind of content of a directory, as a column of the table.

    ``has_own_values``: the caller has recorded there.
    """
    columns = (
        (not _summaries(event_files(directory)), Holds.NOTHING),
        (holds_fit(directory), Holds.FIT),
        (has_own_values, Holds.VALUES),
        (True, Holds.OTHERS),
    )
    return _first(columns)


def kind_of_call(trainer: Any, directory: str, resumes: bool, is_tuning: bool) -> TrainerCall:
    """Return the kind of a Trainer's call that begins, as a row of the table."""
    # A Trainer whose fit ran in other processes has done no step.
    goes_on = _recorded_fit(directory).trainer() is trainer and trainer.global_step > 0
    rows = (
        (trainer.state.fn != "fit", TrainerCall.EVALUATION),
        (is_tuning, TrainerCall.TUNING),
        (resumes, TrainerCall.RESUMED_FIT),
        (goes_on, TrainerCall.CONTINUED_FIT),
        (True, TrainerCall.NEW_FIT),
    )
    return _first(rows)


def _first(candidates: Iterable[tuple[bool, _T]]) -> _T:
    return next(candidate for applies, candidate in candidates if applies)


def place_of(call: TrainerCall, holds: Holds, is_fixed: bool) -> RecordPlace:
    """Look up where to record a call; ``is_fixed``: the user chose the directory."""
    return _TABLES[is_fixed][call][holds.value]


def holds_fit(directory: str) -> bool:
    """Tell whether a fit in this process has recorded values in a directory."""
    return _recorded_fit(directory) is not _NO_FIT


def newest_fit_has_recorded(directory: str) -> bool:
    """Tell whether a record was added since the newest fit in a directory began."""
    newest, _ = _fits(directory)
    return bool(event_files(directory).items() - newest.files.items())


def speaks_for_run(call: TrainerCall, held: Holds) -> bool:
    """Tell whether a call's hyper-parameters and end status count as the run's."""
    return held in _SPEAKS_FOR_RUN.get(call, Holds)


def reports_status(trainer: Any, call: TrainerCall, directory: str, held: Holds) -> bool:
    """Tell whether the end of a Trainer's call ends the run in a directory.

    ``held`` is what the directory held when the call began. A fit that recorded nothing leaves what
    is said of the one before.
    """
    if call not in FITS:
        return speaks_for_run(call, held)
    newest, _ = _fits(directory)
    return newest.trainer() is trainer and newest_fit_has_recorded(directory)
