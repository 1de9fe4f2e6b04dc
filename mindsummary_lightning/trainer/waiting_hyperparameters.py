"""``WaitingHyperparameters``: keeps a user's hyper-parameters for the next fit."""

from __future__ import annotations

import os
import weakref

from mindsummary_lightning.recording.run_recorder import RunRecorder
from mindsummary_lightning.values import UserDefinedInfo


class WaitingHyperparameters:
    """Hyper-parameters from the user that wait for the next fit.

    If no fit follows, the last run records them when the logger or the process ends.
    """

    def __init__(self) -> None:
        self._values: list[UserDefinedInfo] = []
        self._handed: list[UserDefinedInfo] = []  # to a run, which may record nothing
        self._last_run: list[RunRecorder] = []  # one at most
        weakref.finalize(self, _record, self._values, self._last_run, os.getpid())

    def add(self, info: UserDefinedInfo) -> None:
        """Keep a set of hyper-parameters for the next fit."""
        self._values.append(info)

    def hand_to(self, recorder: RunRecorder) -> None:
        """Give the hyper-parameters to a run, which records them with its first value."""
        for info in self._values:
            recorder.defer_lineage(info)
        self._handed += self._values
        self._values.clear()

    def hand_again(self, recorder: RunRecorder) -> None:
        """Give a run's hyper-parameters to the recorder that replaces its first recorder."""
        for info in self._handed:
            recorder.defer_lineage(info)

    def settle(self, is_recorded: bool) -> None:
        """Keep the hyper-parameters for the next run, unless a run has recorded them."""
        self._values[:0] = self._handed * (not is_recorded)
        self._handed.clear()

    def remember_run(self, recorder: RunRecorder) -> None:
        """Remember the run that has ended last."""
        self._last_run[:] = [recorder]

    def __getstate__(self) -> dict[str, list[UserDefinedInfo]]:
        return {"_values": [], "_handed": self._handed}

    def __setstate__(self, state: dict[str, list[UserDefinedInfo]]) -> None:
        self.__init__()  # type: ignore[misc]
        self._handed += state["_handed"]


def _record(values: list[UserDefinedInfo], last_run: list[RunRecorder], process: int) -> None:
    if os.getpid() == process:  # a forked child leaves them to its parent
        for recorder in last_run:
            recorder.write_lineage(*values)
            recorder.release()
