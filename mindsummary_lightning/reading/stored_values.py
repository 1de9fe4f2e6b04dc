"""Values and graphs decoded from their location in a file; apart from what locates them, which needs no protobuf."""

from __future__ import annotations

from mindsummary_lightning.fileformat.graph_codec import decode_graph_event, decode_model
from mindsummary_lightning.fileformat.summary_codec import decode_value
from mindsummary_lightning.reading.file_content import GraphLocation
from mindsummary_lightning.reading.outlines import Location, decoded, read_location
from mindsummary_lightning.values import Graph, GraphTexts
from mindsummary_lightning.values.events import SummaryValue


def read_value(location: Location) -> SummaryValue:
    """The summary value at a location.

    Raises:
        DamagedFileError: the bytes are not a value, or it contradicts itself.
        OSError: the file cannot be read.
    """
    return decoded(location, decode_value)


def read_graph(graph: GraphLocation) -> tuple[Graph, GraphTexts]:
    """A graph and the texts of its attributes and constants.

    Raises:
        ValueError: the bytes do not hold a graph.
        OSError: the file cannot be read.
    """
    decode = decode_model if graph.is_model else decode_graph_event
    return decode(read_location(graph.location))
