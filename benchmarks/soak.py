"""Millions of records through rotation at full speed: does anything grow? Prints a line a tenth of
the way.

    python benchmarks/soak.py --records 5000000

At one record a second this is 58 days; at the ten a second of a fast training loop, nearly six. The
run is read back at the end: every record must be there, once.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from mindsummary_lightning import SummaryRecord
from mindsummary_lightning.fileformat.file_names import is_summary_name, read_order
from mindsummary_lightning.fileformat.summary_codec import decode_event
from mindsummary_lightning.fileio.scan import RecordScanner

FILE_BYTES = 2 << 20
HISTOGRAM_EVERY = 1000


def resident_mb() -> float:
    with open("/proc/self/statm", encoding="utf-8") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def event_files(run: str) -> list[Path]:
    return [Path(run, name) for name in read_order(filter(is_summary_name, os.listdir(run)))]


def record(run: str, records: int) -> None:
    weights = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    writer = SummaryRecord(run, max_file_size=FILE_BYTES)
    print("| records | records/s | resident MB | descriptors | threads | files | largest file MB |")
    print("|---|---|---|---|---|---|---|")
    began = time.perf_counter()
    for step in range(1, records + 1):
        writer.add_scalar("loss", 1 / step, step)
        if step % HISTOGRAM_EVERY == 0:
            writer.add_histogram("weights", weights, step)
        if step % (records // 10) == 0:
            rate = records // 10 / (time.perf_counter() - began)
            sizes = [path.stat().st_size for path in event_files(run)]
            descriptors = len(os.listdir("/proc/self/fd"))
            print(
                f"| {step:,} | {rate:,.0f} | {resident_mb():.1f} | {descriptors} | "
                f"{threading.active_count()} "
                f"| {len(sizes)} | {max(sizes) / 2**20:.1f} |",
                flush=True,
            )
            began = time.perf_counter()
    writer.close()


def check(run: str, records: int) -> None:
    expected, histograms = 1, 0
    for path in event_files(run):
        scanner = RecordScanner(str(path))
        for payload in scanner:
            event = decode_event(payload)
            for tag, _ in event.what if isinstance(event.what, tuple) else ():
                if tag == "loss":
                    assert event.step == expected, (
                        f"step {event.step} of {path} should be {expected}"
                    )
                    expected += 1
                else:
                    histograms += 1
        assert scanner.offset == path.stat().st_size, f"{path} has a torn tail"
    assert expected == records + 1
    print(
        f"read back: {expected - 1:,} scalars and {histograms:,} histograms in order, each "
        "once; no torn tail"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--records", type=int, default=5_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as run:
        record(run, options.records)
        check(run, options.records)


if __name__ == "__main__":
    main()
