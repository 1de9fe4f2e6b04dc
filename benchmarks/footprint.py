"""What recording costs beside time: memory after a million scalars, and what importing costs.

``python benchmarks/footprint.py [--scalars N] [--histograms N]``. Memory is what the system holds
for the process.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(__file__))

import paired

MEMORY = """
import os, sys, tempfile
import numpy as np, psutil
from mindsummary_lightning import SummaryRecord
from mindsummary_lightning.recording.summary_record import recorder_of
scalars, histograms = int(sys.argv[1]), int(sys.argv[2])
values = np.random.default_rng(0).standard_normal(10_000, dtype=np.float32)
process = psutil.Process()
with tempfile.TemporaryDirectory() as directory, SummaryRecord(directory) as record:
    record.add_histogram("weights", values, 0)
    record.add_scalar("loss", 0.5, 0)
    before = process.memory_info().rss
    for step in range(1, scalars + 1):
        recorder_of(record).write_values(step, [("loss", 0.5 * step)])
    for step in range(1, histograms + 1):
        record.add_histogram("weights", values, step)
    print(before, process.memory_info().rss)
"""

RUN = """
import sys
from mindsummary_lightning import SummaryRecord
for number in range(10):
    with SummaryRecord(f"{sys.argv[1]}/version_{number}") as record:
        for step in range(1000):
            record.add_scalar("loss", 0.5 * step, step)
"""

STARTS = {
    "import lightning": "import lightning",
    "import lightning, mindsummary_lightning": "import lightning, mindsummary_lightning",
    "the logger and the collector too": "import lightning; from mindsummary_lightning import "
    "MindInsightLogger, "
    "SummaryCollector",
    "SummaryReader alone": "from mindsummary_lightning import SummaryReader",
    "mindsummary --help": "import sys; sys.argv = ['mindsummary', '--help']; "
    "from mindsummary_lightning.cli import main; main()",
    "mindsummary list, 10 runs": "import sys; sys.argv = ['mindsummary', 'list', 'runs']; "
    "from mindsummary_lightning.cli import main; main()",
}


def seconds(code: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scalars", type=int, default=1_000_000)
    parser.add_argument("--histograms", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    command = [sys.executable, "-c", MEMORY, str(arguments.scalars), str(arguments.histograms)]
    before, after = map(
        int, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    )
    print(
        f"memory after {arguments.scalars} scalars and {arguments.histograms} histograms: "
        f"{after / 2**20:.1f} MiB, "
        f"{after / before:.3f} of {before / 2**20:.1f} MiB before\n"
    )
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)  # so that nothing is imported from the current directory
        subprocess.run([sys.executable, "-c", RUN, "runs"], check=True)
        ways = {name: lambda code=code: seconds(code) for name, code in STARTS.items()}
        rows = {"start": paired.rounds_of(ways, arguments.rounds)}
    paired.report("starts", "From the start of Python to its end", "ms", 1e3, rows)


if __name__ == "__main__":
    main()
