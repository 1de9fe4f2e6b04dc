"""The table that says which run a Trainer's call belongs to, and what is known to look a row and a column up in it.

Rows are calls that begin, columns what their directory holds then. What it holds is read from the directory and from
the fits that this process has begun there, through whatever objects: a notebook's cell makes new ones each time.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from mindsummary_lightning.fileformat.file_names import is_lineage_name, is_summary_name


class Call(Enum):
    """A call of a Trainer's method that begins."""

    EVALUATION = auto()  # validate, test or predict
    TUNING = auto()  # a fit of a Tuner, which ends before it trains
    NEW_FIT = auto()
    CONTINUED_FIT = auto()  # the Trainer of the newest fit of this directory fits again
    RESUMED_FIT = auto()  # with a checkpoint


class Holds(Enum):
    """What the directory of the run holds when a call begins."""

    NOTHING = 0
    VALUES = 1  # of evaluations, or that the user logged, in this process
    FIT = 2  # of this process
    FIT_IN_FIXED = 3  # the same, and the user fixed the directory: a version, or a collector's summary_dir
    OTHERS = 4  # files of another process
    OTHERS_IN_FIXED = 5


class Place(Enum):
    """Where a call is recorded."""

    HERE = auto()
    NEWEST_FILE = auto()  # appended to the newest summary file that is here, which may be another process's
    NEW_FILE = auto()  # here, in a later file, whose steps replace those after its first one
    INSTEAD = auto()  # here, in new files that replace all there is
    NEXT_VERSION = auto()


_HERE, _NEWEST, _FILE, _INSTEAD, _NEXT = Place

PLACES: dict[Call, tuple[Place, ...]] = {
    # a call that begins   NOTHING  VALUES   FIT      FIT_IN_FIXED  OTHERS   OTHERS_IN_FIXED
    Call.EVALUATION:      (_HERE, _NEWEST, _NEWEST,  _NEWEST,      _NEWEST, _NEWEST),
    Call.TUNING:          (_HERE, _HERE,   _HERE,    _HERE,        _HERE,   _HERE),
    Call.NEW_FIT:         (_HERE, _HERE,   _NEXT,    _INSTEAD,     _NEXT,   _HERE),
    Call.CONTINUED_FIT:   (_HERE, _HERE,   _HERE,    _HERE,        _HERE,   _HERE),
    Call.RESUMED_FIT:     (_HERE, _HERE,   _FILE,    _FILE,        _HERE,   _HERE),
}  # fmt: skip

# An evaluation reports how it ended only in a run that holds no fit, and that this process began.
HAS_STATUS_OF_EVALUATION = frozenset({Holds.NOTHING, Holds.VALUES})


@dataclass(frozen=True)
class _Fit:
    """A fit that this process has begun in a directory."""

    trainer: weakref.ref[Any]
    files: Mapping[str, int]  # that the directory held when it began

    def has_values(self, files: Mapping[str, int]) -> bool:
        """Whether a value of it is in the directory, which holds these files now."""
        return summaries(files) != summaries(self.files)


# The newest fit of each directory by its real path, and before it the newest that has recorded a value.
_FITS: dict[str, tuple[_Fit, ...]] = {}


def event_files(directory: str) -> dict[str, int]:
    """The names and sizes of a directory's summary and lineage files; empty if it is out of reach."""
    found: dict[str, int] = {}
    with contextlib.suppress(OSError):
        for entry in os.scandir(directory):
            if is_summary_name(entry.name) or is_lineage_name(entry.name):
                found[entry.name] = entry.stat().st_size
    return found


def summaries(files: Mapping[str, int]) -> dict[str, int]:
    """Those of :func:`event_files` that hold values."""
    return {name: size for name, size in files.items() if is_summary_name(name)}


def _recorded_fit(directory: str, files: Mapping[str, int]) -> _Fit | None:
    """The newest fit that this process began in a directory and that has recorded a value there."""
    fits = _FITS.get(os.path.realpath(directory), ())
    return next((fit for fit in fits if summaries(files) and fit.has_values(files)), None)


def reports_status(trainer: Any, directory: str, held: Holds) -> bool:
    """Whether the end of a call says how the run of a directory ended; ``trainer`` is ``None`` for a user's call.

    ``held`` is what the directory held when the Trainer's newest call began. A fit that recorded nothing leaves what
    is said of the one before.
    """
    if trainer is None:
        return _recorded_fit(directory, event_files(directory)) is None
    if trainer.state.fn != "fit":
        return held in HAS_STATUS_OF_EVALUATION
    newest = next(iter(_FITS.get(os.path.realpath(directory), ())), None)
    return newest is not None and newest.trainer() is trainer and newest.files != event_files(directory)


def begin_fit(trainer: Any, directory: str) -> None:
    """A Trainer begins a fit in a directory."""
    files = event_files(directory)
    before = _recorded_fit(directory, files)
    _FITS[os.path.realpath(directory)] = (_Fit(weakref.ref(trainer), files), *([before] if before else []))


def contents(directory: str, is_fixed: bool, has_own_values: bool) -> Holds:
    """What a directory holds; ``has_own_values``: whoever asks has recorded there."""
    files = event_files(directory)
    if not summaries(files):
        return Holds.NOTHING
    if _recorded_fit(directory, files) is not None:
        return Holds.FIT_IN_FIXED if is_fixed else Holds.FIT
    if has_own_values:
        return Holds.VALUES
    return Holds.OTHERS_IN_FIXED if is_fixed else Holds.OTHERS


def kind_of_call(trainer: Any, directory: str, resumes: bool, is_tuning: bool) -> Call:
    """Which row of the table a Trainer's call is that begins."""
    if trainer.state.fn != "fit":
        return Call.EVALUATION
    if is_tuning:
        return Call.TUNING
    if resumes:
        return Call.RESUMED_FIT
    newest = _recorded_fit(directory, event_files(directory))
    is_same = newest is not None and newest.trainer() is trainer
    goes_on = is_same and trainer.global_step > 0  # a Trainer whose fit ran in other processes has done none
    return Call.CONTINUED_FIT if goes_on else Call.NEW_FIT
