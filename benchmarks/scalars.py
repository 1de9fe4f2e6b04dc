"""Scalars from the caller to the file, beside every writer that people use instead.

``python benchmarks/scalars.py [--count N] [--rounds N]``. "Caller" is what the training loop waits
for; "end to end" includes closing, when everything is in the file. With ``MINDSPORE_PYTHON`` set,
MindSpore's SummaryRecord takes part.

``--against DIRECTORY`` compares this checkout with another one instead, in CPU seconds of the
caller. Each is imported by processes of its own, which take turns. The least seconds of all rounds
say most on a machine that others share.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, os.path.dirname(__file__))

import paired

Loop = Callable[[str, int, int], tuple[float, float]]

clock: Callable[[], float] = time.perf_counter


def timed(
    write: Callable[[int, dict[str, float]], object],
    close: Callable[[], object],
    count: int,
    per_step: int,
):
    values = {f"tag{index}": 0.5 + index for index in range(per_step)}
    start = clock()
    for step in range(count // per_step):
        for tag in values:
            values[tag] += 0.25
        write(step, values)
    caller = clock() - start
    close()
    return caller, clock() - start


def ours(directory: str, count: int, per_step: int):
    from mindsummary_lightning import SummaryRecord
    from mindsummary_lightning.recording.summary_record import recorder_of

    record = SummaryRecord(directory)
    write = recorder_of(record).write_values
    return timed(lambda step, values: write(step, values.items()), record.close, count, per_step)


def our_logger(directory: str, count: int, per_step: int):
    from mindsummary_lightning import MindInsightLogger

    logger = MindInsightLogger(directory)

    def write(step: int, values: dict[str, float]) -> None:
        logger.log_metrics(values, step)
        logger.save()

    return timed(write, lambda: logger.finalize("success"), count, per_step)


def our_values(directory: str, count: int, per_step: int):
    from mindsummary_lightning import SummaryRecord

    record = SummaryRecord(directory)

    def write(step: int, values: dict[str, float]) -> None:
        for tag, value in values.items():
            record.add_value("scalar", tag, value)
        record.record(step)

    return timed(write, record.close, count, per_step)


def our_scalars(directory: str, count: int, per_step: int):
    from mindsummary_lightning import SummaryRecord

    record = SummaryRecord(directory)

    def write(step: int, values: dict[str, float]) -> None:
        for tag, value in values.items():
            record.add_scalar(tag, value, step)

    return timed(write, record.close, count, per_step)


def summary_writer(directory: str, count: int, per_step: int):
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(directory)

    def write(step: int, values: dict[str, float]) -> None:
        for tag, value in values.items():
            writer.add_scalar(tag, value, step)

    return timed(write, writer.close, count, per_step)


def tensorboard_x(directory: str, count: int, per_step: int):
    from tensorboardX import SummaryWriter

    writer = SummaryWriter(directory)

    def write(step: int, values: dict[str, float]) -> None:
        for tag, value in values.items():
            writer.add_scalar(tag, value, step)

    return timed(write, writer.close, count, per_step)


def csv_logger(directory: str, count: int, per_step: int):
    from lightning.pytorch.loggers import CSVLogger

    logger = CSVLogger(directory)

    def write(step: int, values: dict[str, float]) -> None:
        logger.log_metrics(values, step)
        logger.save()

    return timed(write, lambda: logger.finalize("success"), count, per_step)


def tensorboard_logger(directory: str, count: int, per_step: int):
    from lightning.pytorch.loggers import TensorBoardLogger

    logger = TensorBoardLogger(directory)

    def write(step: int, values: dict[str, float]) -> None:
        logger.log_metrics(values, step)
        logger.save()

    return timed(write, lambda: logger.finalize("success"), count, per_step)


MINDSPORE = """
import sys, time
import mindspore as ms
directory, count, per_step = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
if __name__ == "__main__":
    record = ms.SummaryRecord(directory)
    tensors = [ms.Tensor(0.5 + index, ms.float32) for index in range(per_step)]
    start = time.perf_counter()
    for step in range(count // per_step):
        for index, tensor in enumerate(tensors):
            record.add_value("scalar", f"tag{index}", tensor)
        record.record(step)
    caller = time.perf_counter() - start
    record.close()
    print("taken", caller, time.perf_counter() - start)
"""


def mindspore(directory: str, count: int, per_step: int):
    script = os.path.join(directory, "loop.py")
    with open(script, "w", encoding="utf-8") as file:
        file.write(MINDSPORE)
    command = [
        os.environ["MINDSPORE_PYTHON"],
        script,
        os.path.join(directory, "run"),
        str(count),
        str(per_step),
    ]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    caller, whole = next(line for line in output.splitlines() if line.startswith("taken")).split()[
        1:
    ]
    return float(caller), float(whole)


def seconds_a_scalar(loop: Loop, count: int, per_step: int) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as directory:
        caller, whole = loop(directory, count, per_step)
    return caller / count, whole / count


_OURS: dict[str, Loop] = {
    "logger + save()": our_logger,
    "add_value + record": our_values,
    "add_scalar": our_scalars,
}
_IN_TURNS = """
import sys, time
import torch._dynamo  # as in a training, whose optimizer imports it
sys.path.insert(0, sys.argv[1])
import scalars
scalars.clock = time.process_time
for line in sys.stdin:
    way, count = line.rstrip().split("|")
    print("taken", scalars.seconds_a_scalar(scalars._OURS[way], int(count), 1)[0], flush=True)
"""
_PROCESSES = 2  # of each checkout: where a process lies in memory makes a few percent


class _Checkout:
    """A process that has imported the package from a directory."""

    def __init__(self, directory: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _IN_TURNS, os.path.dirname(__file__)],
            env={**os.environ, "PYTHONPATH": str(directory), "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def seconds(self, way: str, count: int) -> float:
        """CPU seconds of a scalar, with a run of so many."""
        pipes: Any = self._process
        print(f"{way}|{count}", file=pipes.stdin, flush=True)
        answer = next(line for line in pipes.stdout if line.startswith("taken"))
        return float(answer.split()[1])

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


def against(directory: Path, count: int, rounds: int) -> None:
    """Print the cost of a scalar here and in another checkout."""
    checkouts = {"here": Path(__file__).parents[1], "there": directory}
    results: dict[str, dict[str, list[float]]] = {}
    with contextlib.ExitStack() as opened:
        processes = {
            (name, number): opened.enter_context(contextlib.closing(_Checkout(path)))
            for number in range(_PROCESSES)
            for name, path in checkouts.items()
        }
        for way in _OURS:
            turns = {
                key: partial(process.seconds, way, count) for key, process in processes.items()
            }
            taken = paired.rounds_of(turns, rounds)
            results[way] = {name: [] for name in checkouts}
            for (name, _), seconds in taken.items():
                results[way][name] += seconds
            results[f"{way}, least"] = {
                name: [min(seconds)] for name, seconds in results[way].items()
            }
    paired.report("scalars against", "Scalars, CPU", "us a scalar", 1e6, results, "here")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--count", type=int, default=25_000, help="scalars of each fast way (slow ones write fewer)"
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--against", type=Path, help="the root of another checkout")
    arguments = parser.parse_args()
    if arguments.against is not None:
        against(arguments.against, arguments.count, arguments.rounds)
        return
    loops: dict[str, tuple[Loop, int]] = {
        "mindsummary_lightning SummaryRecord": (ours, 1),
        "mindsummary_lightning logger + save()": (our_logger, 1),
        "torch SummaryWriter": (summary_writer, 5),
        "tensorboardX": (tensorboard_x, 5),
        "Lightning CSVLogger + save()": (csv_logger, 1),
        "Lightning TensorBoardLogger + save()": (tensorboard_logger, 10),
    }
    if os.environ.get("MINDSPORE_PYTHON"):
        loops["MindSpore SummaryRecord"] = (mindspore, 25)
    results: dict[str, dict[str, list[float]]] = {}
    for per_step in (1, 5, 10):
        ways = {
            name: partial(seconds_a_scalar, loop, max(per_step, arguments.count // fewer), per_step)
            for name, (loop, fewer) in loops.items()
        }
        taken = paired.rounds_of(ways, arguments.rounds)
        for index, side in enumerate(("caller", "end to end")):
            results[f"{per_step} a step, {side}"] = {
                name: [pair[index] for pair in pairs] for name, pairs in taken.items()
            }
    paired.report("scalars", "Scalars", "us a scalar", 1e6, results)


if __name__ == "__main__":
    main()
