"""Fork again and again while a thread logs; each child tries to record too. Print what happened as
JSON.
"""

from __future__ import annotations

import itertools
import json
import os
import select
import signal
import sys
import threading

from mindsummary_lightning import SummaryRecord
from mindsummary_lightning.recording.summary_record import recorder_of


def main(directory: str, forks: str) -> None:
    record = SummaryRecord(directory)
    record.add_scalar("loss", 0.0, 0)
    is_over = threading.Event()
    steps = [0]

    def log() -> None:
        for step in itertools.count(1):
            if is_over.is_set():
                break
            record.add_scalar("loss", float(step), step)
            steps[0] = step

    thread = threading.Thread(target=log)
    thread.start()
    hung = wrote = 0
    for _ in range(int(forks)):
        child = os.fork()
        if not child:
            written = [
                recorder_of(record).write_values(step, [("of the child", 1.0)])
                for step in range(100)
            ]
            record.close()
            os._exit(7 if any(written) else 0)
        descriptor = os.pidfd_open(child)
        if not select.select([descriptor], [], [], 120)[0]:
            hung += 1
            os.kill(child, signal.SIGKILL)
        os.close(descriptor)
        wrote += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    is_over.set()
    thread.join()
    print(json.dumps({"hung": hung, "wrote": wrote, "steps": steps[0]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
