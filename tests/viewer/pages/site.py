"""Requests to page modules in this process, answered as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from mindsummary_lightning.viewer.api import ApiError, ApiRequest
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from mindsummary_lightning.viewer.pages import page_handlers

_HANDLERS = page_handlers()


class Site:
    """The pages over a directory.

    Args:
        base: the directory.
    """

    def __init__(self, base: Path) -> None:
        self.runs = LoadedRuns(str(base))

    def get(self, path_and_query: str) -> Any:
        path, _, query = path_and_query.partition("?")
        return self._answer("GET", path, ApiRequest(parse_qs(query, keep_blank_values=True)))

    def send(self, method: str, path_and_query: str, body: Any) -> Any:
        path, _, query = path_and_query.partition("?")
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self._answer(method, path, ApiRequest(parse_qs(query), raw, "application/json"))

    def _answer(self, method: str, path: str, request: ApiRequest) -> Any:
        """The answer; of a refusal its status and code."""
        try:
            return json.loads(json.dumps(_HANDLERS[f"{method} {path}"](self.runs, request)))
        except ApiError as error:
            return error.status, error.code
