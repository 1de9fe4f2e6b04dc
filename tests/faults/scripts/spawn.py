"""Hand a record to a spawned process: it opens nothing there until it records."""

from __future__ import annotations

import multiprocessing
import os
import sys

from mindsummary_lightning import SummaryRecord


def record_there(record: SummaryRecord) -> None:
    files = os.listdir(record.directory)
    record.add_scalar("child", 1.0, 0)
    print(len(files), len(os.listdir(record.directory)))


def main(directory: str) -> None:
    record = SummaryRecord(directory)
    record.add_scalar("parent", 1.0, 0)
    child = multiprocessing.get_context("spawn").Process(target=record_there, args=(record,))
    child.start()
    child.join(60)
    sys.exit(child.exitcode)


if __name__ == "__main__":
    main(*sys.argv[1:])
