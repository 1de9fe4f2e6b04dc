"""Record 500 scalars and leave without close, in the way that is named."""

from __future__ import annotations

import os
import sys
import threading

from mindsummary_lightning import SummaryRecord


def main(directory: str, way: str) -> None:
    record = SummaryRecord(directory)

    def log() -> None:
        for step in range(500):
            record.add_scalar("loss", float(step), step)

    if way == "thread":
        thread = threading.Thread(target=log)
        thread.start()  # the interpreter waits for it
        return
    log()
    if way == "exception":
        raise RuntimeError("training went wrong")
    if way == "sys.exit":
        sys.exit(3)
    if way == "os._exit":
        os._exit(0)
    if way == "abort":
        os.abort()


if __name__ == "__main__":
    main(*sys.argv[1:])
