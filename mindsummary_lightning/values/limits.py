"""Limits of MindInsight 2.3.1: it drops what exceeds them, so that is refused or warned of here."""

from __future__ import annotations

MAX_TAGS = 300  # of all kinds, as values.events.tags_of counts them
MAX_TENSOR_TAGS = 6
MAX_BUCKETS = 90  # of a histogram in the file
MAX_ELEMENTS = 10_000_000  # of a tensor
MAX_EVENT = 500_000_000  # bytes
MAX_METRIC = 100  # levels of JSON; protobuf allows as many levels of messages, and Python's recursion limit is above it
