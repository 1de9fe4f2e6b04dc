"""Record much, and print what it cost: resident memory, descriptors, threads and, when idle,
processor time.
"""

from __future__ import annotations

import json
import os
import resource
import select
import sys
import threading
import time

import numpy as np

from mindsummary_lightning import SummaryRecord


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="utf-8") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def wait(seconds: float) -> tuple[float, int]:
    """The share of a core that the process takes while nothing is logged, and how often any thread
    of it wakes up.
    """
    spent, waits = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
    select.select([], [], [], seconds)
    waits = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - waits - 1  # without this one
    return (time.process_time() - spent) / seconds, waits


def main(directory: str, scalars: str, histograms: str, tags: str, idle_s: str) -> None:
    descriptors = len(os.listdir("/proc/self/fd"))
    array = np.random.default_rng(0).normal(size=10_000).astype(np.float32)
    record = SummaryRecord(directory)
    for step in range(2000):
        record.add_scalar("warm", 1.0, step)
        if step < 50:
            record.add_histogram("warm", array, step)
    for number in range(int(tags)):
        record.add_scalar(f"tag {number}", 1.0, 0)
    before = resident_bytes()
    for step in range(int(scalars)):
        record.add_scalar("loss", float(step), step)
    for step in range(int(histograms)):
        record.add_histogram("weights", array, step)
    after = resident_bytes()
    opened = len(os.listdir("/proc/self/fd")) - descriptors
    threads = threading.active_count() - 1
    idle, wakes = wait(float(idle_s))
    cost = {
        "growth": after / before,
        "opened": opened,
        "threads": threads,
        "idle": idle,
        "wakes": wakes,
    }
    print(json.dumps(cost))


if __name__ == "__main__":
    main(*sys.argv[1:])
