"""Record lineage until killed; say each epoch once it is recorded."""

from __future__ import annotations

import itertools
import os
import sys

from mindsummary_lightning import SummaryRecord
from mindsummary_lightning.recording.summary_record import recorder_of
from mindsummary_lightning.values import TrainInfo


def main(directory: str) -> None:
    record = SummaryRecord(directory)
    for epoch in itertools.count(1):
        recorder_of(record).write_lineage(TrainInfo(epoch=epoch, network="Net" * 50))
        os.write(1, b"%d\n" % epoch)


if __name__ == "__main__":
    main(*sys.argv[1:])
