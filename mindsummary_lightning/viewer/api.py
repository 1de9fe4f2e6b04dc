"""Requests, answers and errors of the pages, independent of the web framework; tags as the pages name them.

Parameters are checked in the order and refused in the words of MindInsight. A tag is
``<tag>/<kind>`` there, and a graph has the name of its file.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

if TYPE_CHECKING:
    from mindsummary_lightning.reading.followed_file import Location
    from mindsummary_lightning.reading.followed_run import FollowedRun
    from mindsummary_lightning.values import LossLandscape
    from mindsummary_lightning.viewer.loaded_runs import LoadedRuns

MISSING, WRONG_TYPE, WRONG_VALUE = "50540003", "50540001", "50540002"
_UNKNOWN_RUN = "50545005"
NOT_LISTED = "Train job is not exist. Detail: Can not find the train job in data manager."
_NOT_IN_CACHE = "Train job is not exist. Detail: Can not find the given train job in cache."

PLUGINS = ("image", "scalar", "graph", "optimized_graph", "histogram", "tensor", "loss_landscape")
_KINDS = frozenset(PLUGINS) - {"graph", "optimized_graph"}
# behind the name of a file: its graph with the optimizer's part taken out
OPTIMIZED = " (optimized)"
_FIRST_GRAPH = "ms_output_optimize.pb"  # what MindSpore's compiler saves; the pages show it first

# Any: whatever json encodes, or an EncodedAnswer
Handler: TypeAlias = "Callable[[LoadedRuns, ApiRequest], Any]"


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request below ``/v1/mindinsight``.

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
        """The first value of a key; ``None`` if the query does not hold the key."""
        values = self.query.get(name)
        return values[0] if values else None

    def json(self) -> Any:  # what json.loads can return
        """The body, which is refused if it is not JSON."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise ApiError(
                WRONG_VALUE, "Invalid parameter value. Json data parse failed."
            ) from None


@dataclass(frozen=True, slots=True)
class EncodedAnswer:
    """An image as it was recorded, or a page: an answer that is not JSON."""

    content: bytes
    content_type: str


class ApiError(Exception):
    """A request that cannot be answered: MindInsight's error code (eight hexadecimal digits), text, HTTP status."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status


def required(request: ApiRequest, name: str) -> str:
    """The first value of a parameter that may not be missing or empty."""
    value = request.first(name)
    if not value:
        raise ApiError(MISSING, f"Param missing. '{name}' is required.")
    return value


def whole_number(text: str, name: str) -> int:
    """A parameter as an int, as Python reads it (``" 0 "`` and ``"+5"`` are fine)."""
    try:
        return int(text)
    except ValueError:
        raise ApiError(
            WRONG_TYPE, f"Invalid parameter type. '{name}' expect Integer type."
        ) from None


def page_slice(request: ApiRequest, default_limit: int, max_limit: int) -> slice:
    """The rows that ``offset`` (a page number) and ``limit`` (rows per page) ask for."""
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
    """The parameter ``train_id``, which names a run or could name one in MindInsight."""
    train_id = request.first("train_id")
    if train_id is None:
        raise ApiError(MISSING, "Param missing. 'train_id' is required.")
    is_possible = train_id.startswith("./") and train_id.count("/") == 1
    if not is_possible and runs.find(train_id) is None:
        text = "Invalid parameter value. Summary dir should be relative path starting with './'."
        raise ApiError(WRONG_VALUE, text)
    return train_id


def known_run(runs: LoadedRuns, train_id: str, message: str = _NOT_IN_CACHE) -> FollowedRun:
    """A run by its name, read as far as it has been written; refused in the words of ``message`` if there is none."""
    run = runs.run(train_id)
    if run is None:
        raise ApiError(_UNKNOWN_RUN, message)
    return run


def known_tag(run: FollowedRun, plugin_tag: str, code: str, message: str) -> tuple[str, str]:
    """Tag and kind of a tag as the pages name it (``loss/auto/scalar``); the kind is ``""`` for a graph.

    Refused with this code, in a message that begins so, if the run does not have it.
    """
    if not has_tag(run, plugin_tag):
        detail = "Invalid parameter value. Can not find any data in this train job by given tag."
        raise ApiError(code, f"{message} Detail: {detail}")
    return split_tag(plugin_tag)


def plugin_tags(run: FollowedRun) -> dict[str, list[str]]:
    """The tags of a run by MindInsight's plugin name, in the order of the pages."""
    by_kind = run.tags()
    by_kind["loss_landscape"] = [
        tag for tag in by_kind["loss_landscape"] if any(landscapes_of(run, tag))
    ]
    tags = {kind: sorted(f"{tag}/{kind}" for tag in names) for kind, names in by_kind.items()}
    graphs = sorted(
        (graph.name for graph in run.graphs()), key=lambda name: (name != _FIRST_GRAPH, name)
    )
    return {**tags, "graph": graphs, "optimized_graph": [name + OPTIMIZED for name in graphs]}


def landscapes_of(run: FollowedRun, tag: str) -> Iterator[LossLandscape]:
    """The landscapes of a tag that can be read, whatever dimensions their coordinates have."""
    # here: a list of runs needs no NumPy
    from mindsummary_lightning.reading.decode import read_value

    def read(location: Location) -> LossLandscape | None:
        try:
            return cast("LossLandscape", read_value(location))
        except (ValueError, OSError):  # damaged, or gone since it was located
            return None

    with contextlib.suppress(LookupError):  # its file was deleted since the tags were listed
        for sample in run.samples("loss_landscape", tag):
            found = run.cached(("landscape", sample.location), partial(read, sample.location))
            if found is not None:
                yield found


def has_tag(run: FollowedRun, plugin_tag: str) -> bool:
    """Whether a run has a tag, as the pages name it, of any kind."""
    tag, kind = split_tag(plugin_tag)
    if kind:
        return tag in run.tags()[kind]
    return any(
        graph.name in (plugin_tag, plugin_tag.removesuffix(OPTIMIZED)) for graph in run.graphs()
    )


def split_tag(plugin_tag: str) -> tuple[str, str]:
    """Tag and kind of a tag as the pages name it; the kind is ``""`` for a graph."""
    tag, slash, kind = plugin_tag.rpartition("/")
    return (tag, kind) if slash and kind in _KINDS else (plugin_tag, "")
