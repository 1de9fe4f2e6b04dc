"""Web server that shows recorded runs in MindInsight's web pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mindsummary_lightning.errors import closest

if TYPE_CHECKING:
    from mindsummary_lightning.viewer.notebook import Shown, show

__all__ = ["Shown", "show"]

if not TYPE_CHECKING:  # a checker would take every name for known

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(
                f"module {__name__!r} has no attribute {name!r}{closest(name, __all__)}"
            )
        # here: aiohttp is imported by those who serve
        from mindsummary_lightning.viewer import notebook

        return getattr(notebook, name)


def __dir__() -> list[str]:
    return __all__
