"""Record while a timer interrupts every few hundred microseconds; its handler records too, with
records of its own.

Prints what returned True and what was queued, by kind and number.
"""

from __future__ import annotations

import json
import random
import signal
import sys
from types import FrameType

from mindsummary_lightning import SummaryRecord
from mindsummary_lightning.recording.summary_record import recorder_of
from mindsummary_lightning.values import UserDefinedInfo


def main(directory: str, trials: str) -> None:
    draw = random.Random(0)
    told: dict[str, list[int]] = {
        "written": [],
        "queued": [],
        "lineage written": [],
        "lineage queued": [],
    }
    record = SummaryRecord(directory)
    number = 0

    def note(kind: str, written: bool, value: int) -> None:
        told[f"{kind}{'written' if written else 'queued'}"].append(value)

    def interrupt(signal_number: int, frame: FrameType | None) -> None:
        nonlocal number
        number += 1
        mine = number
        # Half of them through a record that is made here, while the interrupted call may be making
        # a writer.
        handlers = record if mine % 2 else SummaryRecord(directory)
        note("", recorder_of(handlers).write_values(mine, [("a", float(mine))]), mine)
        if mine % 20 == 0:
            note(
                "lineage ",
                recorder_of(handlers).write_lineage(UserDefinedInfo({f"n{mine}": mine})),
                mine,
            )
        if handlers is not record:
            handlers.close()

    signal.signal(signal.SIGALRM, interrupt)
    for trial in range(int(trials)):
        signal.setitimer(signal.ITIMER_REAL, draw.uniform(1e-6, 1.5e-3))
        number += 1
        mine = number
        note("", recorder_of(record).write_values(mine, [("a", float(mine))]), mine)
        if trial % 10 == 0:
            number += 1
            mine = number
            note(
                "lineage ",
                recorder_of(record).write_lineage(UserDefinedInfo({f"n{mine}": mine})),
                mine,
            )
        if trial % 7 == 0:
            recorder_of(record).release()  # the next call makes or opens the writer again
        if trial % 100 == 0:
            # a handler may come while its writer is being made
            other = SummaryRecord(f"{directory}-{trial}")
            recorder_of(other).write_values(trial, [("a", 1.0)])
            other.close()
    signal.setitimer(signal.ITIMER_REAL, 0)
    record.close()
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
