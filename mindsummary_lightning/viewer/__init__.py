"""A web server that feeds MindInsight's front end from the run directories themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mindsummary_lightning.viewer.notebook import show as show


def __getattr__(name: str) -> Any:
    if name != "show":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mindsummary_lightning.viewer.notebook import show  # here: aiohttp is imported by those who serve

    return show
