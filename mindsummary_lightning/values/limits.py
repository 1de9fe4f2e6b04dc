"""What MindInsight 2.3.1 keeps of a run; what goes beyond is dropped by it, so it is refused or said here."""

from __future__ import annotations

__all__ = ["MAX_BUCKETS", "MAX_ELEMENTS", "MAX_EVENT", "MAX_METRIC", "MAX_TAGS", "MAX_TENSOR_TAGS"]

MAX_TAGS = 300  # of all kinds together, the graph's two among them
MAX_TENSOR_TAGS = 6
MAX_BUCKETS = 90  # of a histogram in the file
MAX_ELEMENTS = 10_000_000  # of a tensor
MAX_EVENT = 500_000_000  # bytes
MAX_METRIC = 100  # levels of JSON; protobuf takes as many of messages, and no walk over them passes Python's limit
