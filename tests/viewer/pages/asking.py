"""What tests of the pages need: a request to a handler, found among the routes of its page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mindsummary_lightning.viewer.api import ApiRequest, Route
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns

__all__ = ["ask"]


def ask(routes: Iterable[Route], runs: LoadedRuns, path: str, *, body: bytes = b"", **query: str | list[str]) -> Any:
    """The answer of the endpoint at ``path``; a list is a repeated key."""
    (route,) = (route for route in routes if route.path == path)
    values = {key: value if isinstance(value, list) else [value] for key, value in query.items()}
    return route.handler(runs, ApiRequest(values, body, "application/json" if body else ""))
