"""Plans by which a place fails in the middle of a run, and the four kinds of files that are
recorded meanwhile.

A run logs 40 values, one each half second of a clock that the test moves; the place fails at the
tenth and works again, where it does, at the sixteenth.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mindsummary_lightning.fileformat.file_names import is_lineage_name, is_summary_name
from mindsummary_lightning.fileformat.framing import frame
from mindsummary_lightning.fileformat.lineage_codec import encode_lineage_event
from mindsummary_lightning.fileformat.summary_codec import VERSION
from mindsummary_lightning.landscape.checkpoints import (
    LandscapeCheckpointError,
    LandscapeCheckpoints,
    LandscapeCheckpointWriter,
    mapped,
)
from mindsummary_lightning.recording.run_recorder import RunRecorder
from mindsummary_lightning.values import Event, LineageEvent, Tensor, TrainInfo, UserDefinedInfo
from mindsummary_lightning.values.landscape_settings import LandscapeSettings
from tests.faults.faulty_place import FaultyPlace
from tests.support import Clock, read_lineage, read_scalars, record_bytes, summary_paths

VALUES = 40
BEGINS, ENDS = 10, 16
SECONDS_A_VALUE = 0.5
RESUMES_WITHIN_S = 5.0  # docs/reliability.md

Change = Callable[[FaultyPlace, Path], None]


class Recording:
    """Something that records values into a run, one after the other, and what of them is in the
    files.
    """

    def __init__(self, run: Path, clock: Clock) -> None:
        self.run = run
        is_npy = isinstance(self, NpyRecording)
        self.recorder = RunRecorder(str(run), exports_tensors=is_npy, timer=clock)

    def log(self, number: int) -> None:
        """Record one value."""
        raise NotImplementedError

    def close(self) -> None:
        """The run is over."""
        self.recorder.close()

    def recorded(self) -> set[int]:
        """The numbers of the values that are in the files."""
        raise NotImplementedError

    @property
    def lost(self) -> int:
        """How many values were counted as lost."""
        return self.recorder.policy.lost


class SummaryRecording(Recording):
    def log(self, number: int) -> None:
        self.recorder.write_values(number, [("a", float(number))])

    def recorded(self) -> set[int]:
        return {step for step, _ in read_scalars(self.run, "a")}


class LineageRecording(Recording):
    def log(self, number: int) -> None:
        self.recorder.write_lineage(UserDefinedInfo({f"key {number}": number}))

    def recorded(self) -> set[int]:
        infos = [event.what for event in read_lineage(self.run)]
        own = [info.values for info in infos if isinstance(info, UserDefinedInfo)]
        return {int(number) for values in own for number in values.values()}  # type: ignore[arg-type]


class LandscapeRecording(Recording):
    def __init__(self, run: Path, clock: Clock) -> None:
        super().__init__(run, clock)
        settings = LandscapeSettings(unit="epoch", intervals=(tuple(range(1, VALUES + 1)),))
        self._writer = LandscapeCheckpointWriter(run, "Net", settings, policy=self.recorder.policy)

    def log(self, number: int) -> None:
        self._writer.save(number + 1, {"weight": torch.full((3,), float(number))})

    def close(self) -> None:
        self._writer.end(VALUES, {})
        super().close()

    def recorded(self) -> set[int]:
        try:
            files = LandscapeCheckpoints.open(self.run).files
        except (FileNotFoundError, LandscapeCheckpointError):
            return set()
        return {int(mapped(path)["weight"][0]) for path in files.values()}


class NpyRecording(Recording):
    def log(self, number: int) -> None:
        export: Any = self.recorder._export
        export.save_all(number, [("t", Tensor(np.full(3, float(number))))])

    def recorded(self) -> set[int]:
        return {int(np.load(path)[0]) for path in self.run.glob("export_*/tensor/*.npy")}


KINDS = {
    "summary": SummaryRecording,
    "lineage": LineageRecording,
    "landscape": LandscapeRecording,
    "npy": NpyRecording,
}


def _down(error: int, time_out_s: float = 0.0) -> Change:
    def change(place: FaultyPlace, run: Path) -> None:
        place.forget_handles(error)
        place.down, place.time_out_s = error, time_out_s

    return change


def _up(place: FaultyPlace, run: Path) -> None:
    place.down, place.room, place.is_read_only, place.write_s = None, None, False, 0.0
    place.failing.clear()


def _handles_die(place: FaultyPlace, run: Path) -> None:
    place.forget_handles(errno.EIO)


def _remove(place: FaultyPlace, run: Path) -> None:
    run.rename(run.with_name("removed by the server"))  # the handle goes on to work, with a name


def _replace(place: FaultyPlace, run: Path) -> None:
    shutil.copytree(run, run.with_name("before"))
    _remove(place, run)
    run.mkdir()
    for path in run.with_name("before").iterdir():
        if is_lineage_name(path.name):
            other = frame([encode_lineage_event(LineageEvent(1.0, TrainInfo(epoch=99)))])
            (run / path.name).write_bytes(b"".join(other))
        elif is_summary_name(path.name):
            events = [Event(1.0, 0, VERSION), Event(1.0, 0, (("somebody's", 1.0),))]
            (run / path.name).write_bytes(record_bytes(events))


def _take_back(place: FaultyPlace, run: Path) -> None:
    """What was accepted does not come to the server: said by close and fsync, and of an open file
    by nothing.
    """
    place.failing |= {"fsync": errno.EIO, "close": errno.EIO}
    for path in summary_paths(run):
        os.truncate(path, path.stat().st_size - 100)


def _full(error: int) -> Change:
    def change(place: FaultyPlace, run: Path) -> None:
        place.room = 30, error

    return change


def _read_only(place: FaultyPlace, run: Path) -> None:
    place.is_read_only = True


def _fails(name: str) -> Change:
    def change(place: FaultyPlace, run: Path) -> None:
        place.failing[name] = errno.EIO

    return change


def _slow(place: FaultyPlace, run: Path) -> None:
    place.write_s = 2.0


@dataclass(frozen=True)
class Plan:
    """What happens to the place.

    Attributes:
        begin: at the tenth value.
        end: at the sixteenth.
        is_for_ever: whether it does not end.
    """

    begin: Change
    end: Change = _up
    is_for_ever: bool = False


PLANS = {
    "dies for ever": Plan(_down(errno.EIO), is_for_ever=True),
    "dies for three seconds": Plan(_down(errno.ENOTCONN)),
    "times out for three values": Plan(_down(errno.ETIMEDOUT, time_out_s=12.0)),
    "forgets its handles at once": Plan(_handles_die),
    "path replaced": Plan(_replace),
    "path removed": Plan(_remove),
    "takes back": Plan(_take_back),
    "ENOSPC, then room": Plan(_full(errno.ENOSPC)),
    "EDQUOT, then room": Plan(_full(errno.EDQUOT)),
    "read-only in the middle": Plan(_read_only),
    "EIO on fsync": Plan(_fails("fsync")),
    "EIO on close": Plan(_fails("close")),
    "EIO on close to the end": Plan(_fails("close"), is_for_ever=True),
    "slow, 2 s a write": Plan(_slow),
}


@dataclass(frozen=True)
class Outcome:
    """What a run under a plan came to.

    Attributes:
        recorded: numbers of the values that are in the files.
        lost: how many were counted as lost.
        waited_s: seconds that the place took, by the clock, for each value.
    """

    recorded: set[int]
    lost: int
    waited_s: list[float]


def run_plan(plan: Plan, kind: type[Recording], run: Path) -> Outcome:
    """Record 40 values while a plan is carried out."""
    clock = Clock(0.0)

    def sleep(seconds: float) -> None:
        clock.now += seconds

    waited = []
    with FaultyPlace(run.parent, sleep) as place:
        recording = kind(run, clock)
        for number in range(VALUES):
            if number == BEGINS:
                plan.begin(place, run)
            if number == ENDS and not plan.is_for_ever:
                plan.end(place, run)
            before = clock.now
            recording.log(number)
            waited.append(clock.now - before)
            clock.now += SECONDS_A_VALUE
        recording.close()
    return Outcome(recording.recorded(), recording.lost, waited)
