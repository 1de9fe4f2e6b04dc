"""Reading a located graph: its nodes and the texts of its values."""

from __future__ import annotations

from mindsummary_lightning.fileformat.graph_texts import decode_graph_event, decode_model
from mindsummary_lightning.reading.followed_run import GraphLocation
from mindsummary_lightning.reading.outlines import read_location
from mindsummary_lightning.values import Graph, GraphTexts

__all__ = ["read_graph"]


def read_graph(graph: GraphLocation) -> tuple[Graph, GraphTexts]:
    """A graph and the texts of its attributes and constants.

    Raises:
        ValueError: the bytes do not hold a graph.
        OSError: the file cannot be read.
    """
    decode = decode_model if graph.is_model else decode_graph_event
    return decode(read_location(graph.location))
