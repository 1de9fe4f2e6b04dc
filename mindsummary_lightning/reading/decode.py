"""Values and graphs decoded from their location in a file; apart from what locates them, which needs no protobuf."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileformat.graph_codec import decode_graph_event, decode_model
from mindsummary_lightning.fileformat.summary_codec import decode_value
from mindsummary_lightning.fileio.regular import open_regular
from mindsummary_lightning.reading.value_locations import GraphLocation, Location
from mindsummary_lightning.values import Graph, GraphTexts
from mindsummary_lightning.values.events import SummaryValue

_T = TypeVar("_T")


def decoded(location: Location, decode: Callable[[bytes], _T]) -> _T:
    """What ``decode`` makes of the bytes at a location; a DamagedFileError if they are not such a value."""
    try:
        return decode(_read(location))
    except ValueError as error:
        raise DamagedFileError(location.path, location.record, str(error)) from error


def read_value(location: Location) -> SummaryValue:
    """The summary value at a location; raises as :func:`decoded`."""
    return decoded(location, decode_value)


def read_graph(graph: GraphLocation) -> tuple[Graph, GraphTexts]:
    """A graph and the texts of its attributes and constants; raises as :func:`decoded`."""
    return decoded(graph.location, decode_model if graph.is_model else decode_graph_event)


def _read(location: Location) -> bytes:
    with os.fdopen(open_regular(location.path), "rb") as file:
        file.seek(location.start)
        return file.read(location.end - location.start)
