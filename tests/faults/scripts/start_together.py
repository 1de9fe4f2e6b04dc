"""Start many writers in one directory in the same second, each a process of its own."""

from __future__ import annotations

import os
import sys

from mindsummary_lightning import SummaryRecord


def main(directory: str, writers: str) -> None:
    ready, go = os.pipe()
    children = []
    for number in range(int(writers)):
        child = os.fork()
        if not child:
            os.close(go)
            os.read(ready, 1)  # ends when the parent lets go
            record = SummaryRecord(directory)
            for step in range(20):
                record.add_scalar(f"writer {number}", float(step), step)
            os._exit(0)
        children.append(child)
    os.close(go)
    sys.exit(sum(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0 for child in children))


if __name__ == "__main__":
    main(*sys.argv[1:])
