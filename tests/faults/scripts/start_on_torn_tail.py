"""Start four writers at once, again and again, in a directory with a torn tail, beside a reader
that verifies it.

Prints by what signals any of them was killed, and how many of the tails were cut.
"""

from __future__ import annotations

import glob
import json
import os
import sys

from mindsummary_lightning import SummaryRecord
from mindsummary_lightning.fileformat.framing import frame
from mindsummary_lightning.fileformat.summary_codec import VERSION, encode_event
from mindsummary_lightning.maintenance.verify import verify_run
from mindsummary_lightning.recording.summary_record import recorder_of
from mindsummary_lightning.values import Event


def main(directory: str, trials: str) -> None:
    first = b"".join(frame(encode_event(Event(1.0, 0, VERSION))))
    torn = b"".join(bytes(chunk) for chunk in frame([bytes(range(256)) * 20_000]))[:-1]
    killed: list[int] = []
    cut = records = 0
    for trial in range(int(trials)):
        run = f"{directory}/{trial}"
        os.makedirs(run)
        path = f"{run}/events.out.events.summary.1700000000.0.h_MS"
        with open(path, "wb") as file:
            file.write(first + torn)
        ready, go = os.pipe()
        children = []
        for number in range(5):
            child = os.fork()
            if not child:
                os.close(go)
                os.read(ready, 1)  # ends when the parent closes its end
                if number == 4:
                    list(verify_run(run))
                else:
                    recorder_of(SummaryRecord(run)).write_values(number, [("a", 1.0)])
                os._exit(0)
            children.append(child)
        os.close(go)
        os.close(ready)
        killed += [
            code
            for code in (os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)
            if code
        ]
        cut += os.path.getsize(path) == len(first)
        records += len(glob.glob(f"{run}/events.out.events.summary.*"))
    print(json.dumps({"killed": killed, "cut": cut, "files": records}))


if __name__ == "__main__":
    main(*sys.argv[1:])
