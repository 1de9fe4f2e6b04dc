"""Record scalars, and each fifth step a tensor if it has elements, until killed; say each step once
it is recorded.
"""

from __future__ import annotations

import itertools
import os
import sys

import numpy as np

from mindsummary_lightning import SummaryRecord


def main(directory: str, tensor_elements: str) -> None:
    tensor = np.ones(int(tensor_elements), np.float32)
    record = SummaryRecord(directory, free_space_factor=0)
    for step in itertools.count(1):
        record.add_value("scalar", "loss", 1 / step)
        if step % 5 == 0 and tensor.size:
            record.add_value("tensor", "weights", tensor)
        record.record(step)
        os.write(1, b"%d\n" % step)


if __name__ == "__main__":
    main(*sys.argv[1:])
