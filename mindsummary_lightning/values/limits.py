"""What MindInsight 2.3.1 keeps of a run; what goes beyond is dropped by it, so it is refused or said here."""

from __future__ import annotations

__all__ = ["DEEPEST_METRIC", "LARGEST_EVENT", "MOST_BUCKETS", "MOST_ELEMENTS", "MOST_TAGS", "MOST_TENSOR_TAGS"]

MOST_TAGS = 300  # of all kinds together, the graph's two among them
MOST_TENSOR_TAGS = 6
MOST_BUCKETS = 90  # of a histogram in the file
MOST_ELEMENTS = 10_000_000  # of a tensor
LARGEST_EVENT = 500_000_000  # bytes
DEEPEST_METRIC = 100  # levels of JSON; protobuf takes as many of messages, and no walk over them passes Python's limit
