"""Reads and decodes values and graphs whose place in a file is known.

Locating them is a module of its own, because it needs no protobuf.
"""

from __future__ import annotations

from collections.abc import Callable
from io import FileIO
from typing import TypeVar

from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileformat.graph_codec import decode_graph_event, decode_model
from mindsummary_lightning.fileformat.summary_codec import decode_value
from mindsummary_lightning.fileio.regular import open_regular
from mindsummary_lightning.reading.followed_file import GraphLocation, Location
from mindsummary_lightning.values import Graph, GraphTexts
from mindsummary_lightning.values.events import SummaryValue

_T = TypeVar("_T")
_MAX_OPEN = 64


class OpenFiles:
    """Keeps files open while many values are read from them.

    A file is opened when a value in it is requested, and then stays open.

    A context manager for one thread. Of more than 64 files, the file opened first is closed, and
    opened again.
    """

    def __init__(self) -> None:
        self._files: dict[str, FileIO] = {}

    def __enter__(self) -> OpenFiles:
        return self

    def __exit__(self, *_: object) -> None:
        while self._files:
            self._files.popitem()[1].close()

    def decoded(self, location: Location, decode: Callable[[bytes], _T]) -> _T:
        """Read the bytes at a location in a file, and decode them with ``decode``.

        Raises:
            DamagedFileError: the bytes cannot be decoded.
            OSError: the file cannot be read, or is not a regular file.
        """
        file = self._files.get(location.path)
        if file is None:
            file = self._files[location.path] = open_regular(location.path)
            if len(self._files) > _MAX_OPEN:
                self._files.pop(next(iter(self._files))).close()
        file.seek(location.start)
        try:
            return decode(file.read(location.end - location.start))
        except ValueError as error:
            raise DamagedFileError(location.path, location.record, str(error)) from error

    def value(self, location: Location) -> SummaryValue:
        """Read the summary value at a location in a file; raises as :meth:`decoded`."""
        return self.decoded(location, decode_value)


def read_value(location: Location) -> SummaryValue:
    """Read one summary value from its file; raises as :meth:`OpenFiles.decoded`."""
    with OpenFiles() as files:
        return files.value(location)


def read_graph(graph: GraphLocation) -> tuple[Graph, GraphTexts]:
    """Read a graph, together with the texts of its attributes and constants.

    Raises as :meth:`OpenFiles.decoded`.
    """
    with OpenFiles() as files:
        return files.decoded(graph.location, decode_model if graph.is_model else decode_graph_event)
