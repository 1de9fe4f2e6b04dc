"""Runs that the pages read: found below a directory, followed as they grow, forgotten when memory is short."""

from __future__ import annotations

__all__ = ["LoadedRuns"]


class LoadedRuns:
    """The runs below one directory."""
