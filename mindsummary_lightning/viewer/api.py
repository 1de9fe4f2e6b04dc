"""Request, answer and error types of the viewer, independent of aiohttp.

Parameters are checked in MindInsight's order. Wrong parameters get MindInsight's messages.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from mindsummary_lightning.viewer.page_tags import has_tag, split_tag

if TYPE_CHECKING:
    from mindsummary_lightning.reading.followed_run import FollowedRun
    from mindsummary_lightning.viewer.loaded_runs import LoadedRuns

MISSING, WRONG_TYPE, WRONG_VALUE = "50540003", "50540001", "50540002"
_UNKNOWN_RUN = "50545005"
NOT_LISTED = "Train job is not exist. Detail: Can not find the train job in data manager."
_NOT_IN_CACHE = "Train job is not exist. Detail: Can not find the given train job in cache."

# Any: whatever json encodes, or an EncodedAnswer
Handler: TypeAlias = "Callable[[LoadedRuns, ApiRequest], Any]"


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request for a path below ``/v1/mindinsight``: query, body and selected runs.

    Attributes:
        query: the decoded query: for each key its values in the order of the request, blank values
            included.
        body: the bytes of the body.
        content_type: media type of the body without parameters, lower case; ``""`` if none was
            given.
        only: names of the runs that the address selects; ``None`` selects all.
    """

    query: Mapping[str, Sequence[str]] = field(default_factory=dict)
    body: bytes = b""
    content_type: str = ""
    only: frozenset[str] | None = None

    def first(self, name: str) -> str | None:
        """Return the first value of a query key, or ``None`` if the key is missing."""
        values = self.query.get(name)
        return values[0] if values else None

    def json(self) -> Any:  # what json.loads can return
        """Parse the body of the request as JSON.

        Raises:
            ApiError: the body is not JSON.
        """
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise ApiError(
                WRONG_VALUE, "Invalid parameter value. Json data parse failed."
            ) from None


@dataclass(frozen=True, slots=True)
class EncodedAnswer:
    """An answer that is not JSON: a recorded image or an HTML page."""

    content: bytes
    content_type: str


class ApiError(Exception):
    """Error answer to a request: MindInsight's error code, message, HTTP status.

    Args:
        code: MindInsight's error code, eight hexadecimal digits.
        message: describes the problem.
        status: the HTTP status of the answer.
    """

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status


class PageError(ApiError):
    """Error answer to a request for a page: an HTML page that shows the problem.

    Args:
        message: describes the problem.
        page: an HTML page that shows the problem to a person, UTF-8.
        status: the HTTP status of the answer.
    """

    def __init__(self, message: str, page: bytes, status: int) -> None:
        super().__init__(WRONG_VALUE, message, status)
        self.page = page


def required(request: ApiRequest, name: str) -> str:
    """Return the first value of the query parameter ``name``.

    Raises:
        ApiError: the parameter is missing or empty.
    """
    value = request.first(name)
    if not value:
        raise ApiError(MISSING, f"Param missing. '{name}' is required.")
    return value


def whole_number(text: str, name: str) -> int:
    """Convert the text of the query parameter ``name`` to an int, as ``int()`` does.

    Blanks and a sign are allowed (``" 0 "`` and ``"+5"``).

    Raises:
        ApiError: the text is not an integer.
    """
    try:
        return int(text)
    except ValueError:
        raise ApiError(
            WRONG_TYPE, f"Invalid parameter type. '{name}' expect Integer type."
        ) from None


def page_slice(request: ApiRequest, default_limit: int, max_limit: int) -> slice:
    """Return the slice of rows for the query parameters ``offset`` and ``limit``.

    ``offset`` is a page number from 0, and ``limit`` is the number of rows per page.

    Raises:
        ApiError: a parameter is not an integer or out of range.
    """
    offset = whole_number(request.query.get("offset", ["0"])[0], "offset")
    if offset < 0:
        raise ApiError(
            WRONG_VALUE, "Invalid parameter value. 'offset' should be greater than or equal to 0."
        )
    limit = whole_number(request.query.get("limit", [str(default_limit)])[0], "limit")
    if not 1 <= limit <= max_limit:
        raise ApiError(WRONG_VALUE, f"Invalid parameter value. 'limit' should in [1, {max_limit}].")
    return slice(offset * limit, (offset + 1) * limit)


def run_name(runs: LoadedRuns, request: ApiRequest) -> str:
    """Return query parameter ``train_id``: the name of a run, existing or not.

    Raises:
        ApiError: the parameter is missing, or cannot be the name of a run.
    """
    train_id = request.first("train_id")
    if train_id is None:
        raise ApiError(MISSING, "Param missing. 'train_id' is required.")
    is_possible = train_id.startswith("./") and train_id.count("/") == 1
    if not is_possible and runs.find(train_id) is None:
        text = "Invalid parameter value. Summary dir should be relative path starting with './'."
        raise ApiError(WRONG_VALUE, text)
    return train_id


def known_run(runs: LoadedRuns, train_id: str, message: str = _NOT_IN_CACHE) -> FollowedRun:
    """Return a run by name, after reading the values written since the last request.

    Raises:
        ApiError: there is no such run; ``message`` becomes the message of the error.
    """
    run = runs.run(train_id)
    if run is None:
        raise ApiError(_UNKNOWN_RUN, message)
    return run


def known_tag(run: FollowedRun, plugin_tag: str, code: str, message: str) -> tuple[str, str]:
    """Check that a run has a tag ``<tag>/<kind>``, and return its tag and its kind.

    The kind is ``""`` for a graph.

    Raises:
        ApiError: the run does not have the tag. The error has ``code``, and its text begins with
            ``message``.
    """
    if not has_tag(run, plugin_tag):
        detail = "Invalid parameter value. Can not find any data in this train job by given tag."
        raise ApiError(code, f"{message} Detail: {detail}")
    return split_tag(plugin_tag)
