"""Record while a timer interrupts every few hundred microseconds; its handler raises. Print what
was recorded.
"""

from __future__ import annotations

import json
import random
import signal
import sys
from types import FrameType

import numpy as np

from mindsummary_lightning import SummaryRecord
from mindsummary_lightning.recording.summary_record import recorder_of


class InterruptedError_(Exception):
    pass


def interrupt(number: int, frame: FrameType | None) -> None:
    raise InterruptedError_


def main(directory: str, trials: str) -> None:
    draw = random.Random(0)
    large = np.ones(30_000, np.float32)
    record = SummaryRecord(directory, free_space_factor=0)
    record.add_scalar("a", 0.0, 0)
    returned, interrupted = [0], 0
    signal.signal(signal.SIGALRM, interrupt)
    for step in range(1, int(trials)):
        try:
            signal.setitimer(signal.ITIMER_REAL, draw.uniform(1e-6, 3e-4))
            recorder_of(record).write_values(step, [("a", float(step))])
            record.add_tensor("t", large, step)
            returned.append(step)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except InterruptedError_:
            interrupted += 1
    print(json.dumps({"returned": returned, "interrupted": interrupted}))


if __name__ == "__main__":
    main(*sys.argv[1:])
