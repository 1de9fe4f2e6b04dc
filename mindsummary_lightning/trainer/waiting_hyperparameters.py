"""``WaitingHyperparameters``: what a user gave a logger between two calls of a Trainer, until its fit begins."""

from __future__ import annotations

import os
import weakref

from mindsummary_lightning.recording.run_recorder import RunRecorder
from mindsummary_lightning.values import UserDefinedInfo


class WaitingHyperparameters:
    """Hyper-parameters of the next fit; if none comes, of the last run, with the end of the logger or the process."""

    def __init__(self) -> None:
        self._values: list[UserDefinedInfo] = []
        self._last_run: list[RunRecorder] = []  # one at most
        finalizer = weakref.finalize(self, _record, self._values, self._last_run, os.getpid())
        self._finalizer: weakref.finalize[..., WaitingHyperparameters] = finalizer

    def add(self, info: UserDefinedInfo) -> None:
        """Keep one set of them."""
        self._values.append(info)

    def hand_to(self, recorder: RunRecorder) -> None:
        """Let a run record them with its first value; they are kept, in case that it records none."""
        for info in self._values:
            recorder.defer_lineage(info)

    def forget(self) -> None:
        """They are recorded."""
        self._values.clear()

    def remember_run(self, recorder: RunRecorder) -> None:
        """A run has ended, and is the last one until another begins."""
        self._last_run[:] = [recorder]

    def __getstate__(self) -> dict[str, object]:
        return {"_values": self._values}

    def __setstate__(self, state: dict[str, list[UserDefinedInfo]]) -> None:
        self.__init__()  # type: ignore[misc]
        self._values += state["_values"]


def _record(values: list[UserDefinedInfo], last_run: list[RunRecorder], process: int) -> None:
    if os.getpid() == process:  # a forked child leaves them to its parent
        for recorder in last_run:
            recorder.write_lineage(*values)
            recorder.release()
