"""Values decoded from their location in a file; apart from the outlines, as listing runs needs no protobuf."""

from __future__ import annotations

from mindsummary_lightning.fileformat.summary_codec import decode_value
from mindsummary_lightning.reading.outlines import Location, decoded
from mindsummary_lightning.values.events import SummaryValue

__all__ = ["read_value"]


def read_value(location: Location) -> SummaryValue:
    """The summary value at a location.

    Raises:
        DamagedFileError: the bytes are not a value, or it contradicts itself.
        OSError: the file cannot be read.
    """
    return decoded(location, decode_value)
