"""Meet a file-size limit (EFBIG) at every byte of a record, and of a lineage file; print what was
lost as JSON.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import sys

import numpy as np

from mindsummary_lightning import SummaryRecord
from mindsummary_lightning.recording.summary_record import recorder_of
from mindsummary_lightning.values import TrainInfo


def allow(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def main(directory: str, kind: str, stride: str) -> None:
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr)
    record = SummaryRecord(directory, free_space_factor=0)
    value = {"scalar": 0.5, "tensor": np.ones(50_000)}[kind]
    record.add_value(kind, "a", value)
    record.record(0)
    path = record.log_dir
    before = os.path.getsize(path)
    record.add_value(kind, "a", value)
    record.record(1)
    size = os.path.getsize(path) - before
    refused = kept = 0
    for step, room in enumerate(range(0, size + 2, int(stride)), start=2):
        before = os.path.getsize(path)
        allow(before + room)
        record.add_value(kind, "a", value)
        is_recorded = record.record(step)
        after = os.path.getsize(path)
        allow(resource.RLIM_INFINITY)
        # A step of two bytes is one byte longer than the record that was measured.
        assert after in (before, before + size, before + size + 1), (room, before, after)
        assert is_recorded == (after > before), (room, is_recorded)
        refused += not is_recorded
        kept += is_recorded
    record.add_value(kind, "a", value)
    assert record.record(999_999)

    lineage = 0
    recorder_of(record).write_lineage(TrainInfo(epoch=1))
    for room in range(0, 200, 1 if stride == "1" else 40):
        allow(room)
        lineage += not recorder_of(record).write_lineage(TrainInfo(epoch=2 + room))
        allow(resource.RLIM_INFINITY)
    assert recorder_of(record).write_lineage(TrainInfo(epoch=1000))
    lost = recorder_of(record).policy.lost
    record.close()
    print(
        json.dumps(
            {"size": size, "refused": refused, "kept": kept, "lineage": lineage, "lost": lost}
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
