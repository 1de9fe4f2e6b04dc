"""A program that records until it is killed: ``training_there.py DIRECTORY``; it says each step
that is recorded.
"""

from __future__ import annotations

import sys
import time

from mindsummary_lightning import SummaryRecord

with SummaryRecord(sys.argv[1], max_file_size=20_000) as record:
    for step in range(1, 1_000_000):
        record.add_value("scalar", "loss", 1.0 / step)
        record.record(step)
        print(step, flush=True)
        time.sleep(0.001)
