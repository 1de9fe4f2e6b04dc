"""Where the values of a run lie in its files."""

from __future__ import annotations

from typing import NamedTuple


class Location(NamedTuple):
    """The bytes of a value in a file, and the offset of the record that holds it."""

    path: str
    start: int
    end: int
    record: int


class GraphLocation(NamedTuple):
    """A computational graph of a run.

    Attributes:
        name: name of the file that holds it; MindInsight's tag.
        location: payload of its event, or the whole of a ``.pb`` file.
        is_model: whether the bytes are those of a ``.pb`` file (a ``ModelProto``) rather than of an event.
        wall_time: seconds since the epoch.
    """

    name: str
    location: Location
    is_model: bool
    wall_time: float


class LocatedSample(NamedTuple):
    """A sample that is located but not decoded.

    Attributes:
        step: its step.
        wall_time: seconds since the epoch.
        location: the bytes of its value.
        width: columns of an image in pixels; 0 for other kinds.
        height: rows of an image in pixels; 0 for other kinds.
    """

    step: int
    wall_time: float
    location: Location
    width: int
    height: int
