"""All parts of the viewer put together: runs, front end, access and the endpoints of every page."""

from __future__ import annotations

from aiohttp import web

from mindsummary_lightning.viewer.access import Access
from mindsummary_lightning.viewer.api import Route
from mindsummary_lightning.viewer.app import create_app
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from mindsummary_lightning.viewer.pages import (
    dataset_graphs,
    graphs,
    histograms,
    images,
    landscapes,
    lineages,
    optimizer_targets,
    scalars,
    stubs,
    tensors,
    train_jobs,
)
from mindsummary_lightning.viewer.static_files import StaticFiles

__all__ = ["create_site", "page_routes"]

_PAGES = (
    train_jobs,
    scalars,
    images,
    histograms,
    tensors,
    graphs,
    dataset_graphs,
    landscapes,
    lineages,
    optimizer_targets,
    stubs,
)


def create_site(directory: str, frontend: str, access: Access, memory_bytes: int | None = None) -> web.Application:
    """The web application for the runs below a directory.

    Args:
        directory: a run, or a directory with runs anywhere below it.
        frontend: the directory that holds the front end's ``index.html``.
        access: who is answered.
        memory_bytes: budget for loaded runs; ``None`` for the default.
    """
    runs = LoadedRuns(directory) if memory_bytes is None else LoadedRuns(directory, memory_bytes)
    return create_app(runs, StaticFiles(frontend), access, page_routes())


def page_routes() -> list[Route]:
    """The endpoints of all pages."""
    return [route for page in _PAGES for route in page.ROUTES]
