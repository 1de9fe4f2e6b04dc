"""Limits of MindInsight 2.3.1 and of the summary file format.

MindInsight drops values beyond its limits, so this package refuses them or logs a warning.
"""

from __future__ import annotations

import sys

MAX_TAGS = 300  # of all kinds, as values.events.tags_of counts them
MAX_TENSOR_TAGS = 6
MAX_BUCKETS = 90  # of a histogram in the file
MAX_ELEMENTS = 10_000_000  # of a tensor
MAX_EVENT = 500_000_000  # bytes
# levels of JSON; protobuf allows as many levels of messages, and Python's recursion limit is above
# it
MAX_METRIC = 100
FLOAT32_MAX = (2 - 2**-23) * 2.0**127  # 3.4e38; a larger number is infinite in a field of 32 bits
FLOAT64_MAX = sys.float_info.max  # 1.8e308; only an int can be larger
