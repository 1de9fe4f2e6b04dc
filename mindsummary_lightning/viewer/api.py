"""Requests, answers and errors of the pages, independent of the web framework."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from mindsummary_lightning.viewer.loaded_runs import LoadedRuns

__all__ = ["ApiError", "ApiRequest", "EncodedImage", "Handler"]

Handler: TypeAlias = "Callable[[LoadedRuns, ApiRequest], Any]"  # Any: whatever json encodes, or an EncodedImage


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request below ``/v1/mindinsight``.

    Attributes:
        query: the decoded query: for each key its values in the order of the request, blank values included.
        body: the bytes of the body.
        content_type: media type of the body without parameters, lower case; ``""`` if none was given.
    """

    query: Mapping[str, Sequence[str]] = field(default_factory=dict)
    body: bytes = b""
    content_type: str = ""

    def first(self, name: str) -> str | None:
        """The first value of a key; ``None`` if the query does not hold the key."""
        values = self.query.get(name)
        return values[0] if values else None


@dataclass(frozen=True, slots=True)
class EncodedImage:
    """An image as it was recorded, for an answer that is not JSON."""

    content: bytes
    content_type: str


class ApiError(Exception):
    """A request that cannot be answered.

    Attributes:
        code: MindInsight's error code, eight hexadecimal digits.
        message: text for the user.
        status: HTTP status.
    """

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status
