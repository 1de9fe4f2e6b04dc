"""Distinguish local paths from addresses of remote stores (``s3://bucket``).

A local path is ``runs`` or ``file:///runs``.
"""

from __future__ import annotations

import re

_LOCAL = re.compile(r"(?:file|local):(?://|(?=/))")  # pathlib makes one slash of two
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:/")  # at least two letters, for C:/ is a drive


def without_local_scheme(place: str) -> str:
    """Remove ``file://`` or ``local://`` from the beginning of a local path.

    Any different text stays as it is.
    """
    if _LOCAL.match(place):
        return _LOCAL.sub("", place, count=1)
    return place


def is_remote(place: str) -> bool:
    """Tell whether a text is the address of a remote store, such as ``s3://bucket``.

    ``s3:/bucket`` counts too, because pathlib makes a single slash of two.
    """
    is_address = "://" in place or _SCHEME.match(place) is not None
    return is_address and _LOCAL.match(place) is None


def with_both_slashes(address: str) -> str:
    """Restore ``://`` in an address that pathlib has shortened to ``:/``."""
    if _SCHEME.match(address):
        return re.sub(r":/(?!/)", "://", address, count=1)
    return address
