"""Reading many scalars back, beside MindInsight's own loader and TensorBoard's.

``python benchmarks/reading.py [--count 1000000]``. Every reader gets the same points in its own
format, one event a step, five tags in turn, and gives them back as steps and values. With
``MINDINSIGHT_PYTHON`` set, MindInsight's loader takes part (on a tenth of the points, because it
takes minutes; the figure is a point's).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

sys.path.insert(0, os.path.dirname(__file__))

import paired

TAGS = [f"tag{index}" for index in range(5)]

MINDINSIGHT = """
import sys, time
from mindinsight.datavisual.data_transform.data_loader import DataLoader
if __name__ == "__main__":
    start = time.perf_counter()
    loader = DataLoader(sys.argv[1])
    loader.load()
    print("taken", time.perf_counter() - start)
"""


def write_ours(directory: str, count: int) -> None:
    from mindsummary_lightning import SummaryRecord
    from mindsummary_lightning.recording.summary_record import recorder_of

    with SummaryRecord(directory) as record:
        for step in range(count):
            recorder_of(record).write_values(step, [(TAGS[step % len(TAGS)], step * 0.5)])


def write_tensorboard(directory: str, count: int) -> None:
    from tensorboardX import SummaryWriter

    with SummaryWriter(directory) as writer:
        for step in range(count):
            writer.add_scalar(TAGS[step % len(TAGS)], step * 0.5, step)


def read_ours(directory: str, count: int) -> float:
    from mindsummary_lightning import SummaryReader

    start = time.perf_counter()
    points = sum(len(series.steps) for series in SummaryReader(directory).all_scalars().values())
    taken = time.perf_counter() - start
    assert points == count, points
    return taken


def read_event_accumulator(directory: str, count: int) -> float:
    from tensorboard.backend.event_processing.event_accumulator import SCALARS, EventAccumulator

    start = time.perf_counter()
    accumulator = EventAccumulator(directory, size_guidance={SCALARS: 0}).Reload()
    points = sum(len(accumulator.Scalars(tag)) for tag in TAGS)
    taken = time.perf_counter() - start
    assert points == count, points
    return taken


def read_mindinsight(directory: str) -> float:
    with tempfile.TemporaryDirectory() as scratch:
        script = os.path.join(scratch, "load.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(MINDINSIGHT)
        environment = {**os.environ, "MINDINSIGHT_WORKSPACE": scratch}
        command = [os.environ["MINDINSIGHT_PYTHON"], script, directory]
        output = subprocess.run(
            command, capture_output=True, text=True, check=True, env=environment
        ).stdout
    return float(next(line for line in output.splitlines() if line.startswith("taken")).split()[1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    count, few = arguments.count, arguments.count // 10
    with tempfile.TemporaryDirectory() as base:
        ours, fewer, theirs = (
            os.path.join(base, name) for name in ("ours", "fewer", "tensorboard")
        )
        write_ours(ours, count)
        write_ours(fewer, few)
        write_tensorboard(theirs, few)
        ways: dict[str, Callable[[], float]] = {
            "mindsummary_lightning SummaryReader": lambda: read_ours(ours, count) / count,
            "TensorBoard EventAccumulator": lambda: read_event_accumulator(theirs, few) / few,
        }
        if os.environ.get("MINDINSIGHT_PYTHON"):
            ways["MindInsight DataLoader"] = lambda: read_mindinsight(fewer) / few
        rows = {f"{count} scalars": paired.rounds_of(ways, arguments.rounds)}
    paired.report("reading", "Reading scalars back", "us a scalar", 1e6, rows)


if __name__ == "__main__":
    main()
