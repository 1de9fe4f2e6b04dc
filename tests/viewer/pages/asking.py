"""What tests of the pages need: a request to the handler of an endpoint."""

from __future__ import annotations

from typing import Any

from mindsummary_lightning.viewer.api import ApiRequest
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from mindsummary_lightning.viewer.pages import page_handlers


def ask(runs: LoadedRuns, path: str, *, body: bytes | None = None, **query: str | list[str]) -> Any:
    """The answer of the endpoint at ``path``, of POST if there is a body; a list is a
    repeated key.
    """
    values = {key: value if isinstance(value, list) else [value] for key, value in query.items()}
    handler = page_handlers()[f"{'GET' if body is None else 'POST'} {path}"]
    return handler(runs, ApiRequest(values, body or b"", "application/json" if body else ""))
