"""Addresses of places on this machine, and in remote stores.

Places on this machine are ``runs`` or ``file:///runs``.
"""

from __future__ import annotations

import re

_LOCAL = re.compile(r"(?:file|local):(?://|(?=/))")  # pathlib makes one slash of two
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:/")  # at least two letters, for C:/ is a drive


def without_local_scheme(place: str) -> str:
    """The path of ``file:///path`` and ``local:///path``, as fsspec reads them.

    Any different text stays as it is.
    """
    if _LOCAL.match(place):
        return _LOCAL.sub("", place, count=1)
    return place


def is_remote(place: str) -> bool:
    """Whether a text is the address of a remote store.

    pathlib may have made ``s3:/`` of ``s3://``.
    """
    is_address = "://" in place or _SCHEME.match(place) is not None
    return is_address and _LOCAL.match(place) is None


def with_both_slashes(address: str) -> str:
    """An address with the slash that pathlib has taken from it."""
    if _SCHEME.match(address):
        return re.sub(r":/(?!/)", "://", address, count=1)
    return address
