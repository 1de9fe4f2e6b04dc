"""What ``mindsummary compare`` costs for two runs of many histograms, beside a pass that only
checks the same bytes.

``python benchmarks/comparison.py [--tensors N] [--steps N] [--rounds N]``. Each way is a process of
its own, started in turns: seconds by the clock with the start of Python, and the most memory it
held.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, os.path.dirname(__file__))

import numpy as np
import paired

from mindsummary_lightning.conversion.histograms import to_histogram
from mindsummary_lightning.fileformat.framing import frame
from mindsummary_lightning.fileformat.summary_codec import encode_step

_CHECK = """
import sys
from mindsummary_lightning.fileio.scan import RecordScanner
from mindsummary_lightning.reading.run_directory import summary_files
for run in sys.argv[1:]:
    for path in summary_files(run):
        for payload in RecordScanner(path):
            pass
"""


def write_run(run: Path, tensors: int, steps: int) -> None:
    """A loss and as many histograms of 300 elements a step."""
    chance = np.random.default_rng(0)
    histograms = [
        to_histogram(chance.standard_normal(300).astype(np.float32)) for _ in range(tensors)
    ]
    run.mkdir()
    with (run / "events.out.events.summary.1700000000.host_MS").open("wb") as file:
        for step in range(1, steps + 1):
            values = [
                (f"layer{index}.weight/auto", value) for index, value in enumerate(histograms)
            ]
            for payload in encode_step(1.7e9 + step, step, [("loss/auto", 1 / step), *values]):
                file.writelines(frame(payload))


def run_process(words: list[str], memory: list[float]) -> float:
    """Seconds of a process, whose peak of memory in MiB is added to ``memory``."""
    start = time.perf_counter()
    process = os.posix_spawn(
        sys.executable, [sys.executable, *words], os.environ, file_actions=_TO_NOWHERE
    )
    _, status, usage = os.wait4(process, 0)
    if status:
        raise SystemExit(f"{words} ended with {os.waitstatus_to_exitcode(status)}")
    memory.append(usage.ru_maxrss / 1024)
    return time.perf_counter() - start


_TO_NOWHERE = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tensors", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = [str(Path(folder, name)) for name in "ab"]
        write_run(Path(runs[0]), arguments.tensors, arguments.steps)
        shutil.copytree(runs[0], runs[1])
        size = sum(path.stat().st_size for path in Path(runs[0]).iterdir())
        memory: dict[str, list[float]] = {"compare": [], "every byte checked": []}
        words = {
            "compare": ["-m", "mindsummary_lightning", "compare", *runs],
            "every byte checked": ["-c", _CHECK, *runs],
        }
        found = paired.rounds_of(
            {name: (lambda name=name: run_process(words[name], memory[name])) for name in words},
            arguments.rounds,
        )
    work = f"{arguments.tensors} tensors, {arguments.steps} steps, two runs of {size / 1e6:.0f} MB"
    paired.report("comparison", "Two runs compared", "s", 1, {work: found}, "compare")
    for name, each in memory.items():
        print(f"{name}: {statistics.median(each):.0f} MiB at most")


if __name__ == "__main__":
    main()
