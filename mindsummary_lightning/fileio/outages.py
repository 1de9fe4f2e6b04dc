"""Classify OSErrors: full disk, missing file, unreachable file system."""

from __future__ import annotations

import errno


def _numbers(*names: str) -> frozenset[int]:
    """Return the values of those error names that this system's ``errno`` has."""
    return frozenset(getattr(errno, name) for name in names if hasattr(errno, name))


# The handle is as good as before: there is no room for what was written, and there may be later.
_NO_ROOM = _numbers("ENOSPC", "EDQUOT", "EFBIG")

# The path leads to no file, to a file that is not regular, or to one that this user may not open.
_NOT_THERE = _numbers("ENOENT", "ENOTDIR", "EISDIR", "EINVAL", "ELOOP", "EACCES", "EPERM")

# A server or daemon is away, or has come back and does not know the handle any more.
_OUT_OF_REACH = _numbers(
    *(
        "EIO",
        "ENOTCONN",
        "ECONNABORTED",
        "ECONNRESET",
        "ESTALE",
        "EBADF",
        "ENODEV",
        "EHOSTDOWN",
        "EHOSTUNREACH",
    ),
    *("ENETDOWN", "ENETUNREACH", "ETIMEDOUT", "EREMOTEIO", "ENXIO", "ESHUTDOWN"),
)


def is_no_room(error: OSError) -> bool:
    """Tell whether an error means that the disk is full or a quota is used up."""
    return error.errno in _NO_ROOM


def is_not_there(error: OSError) -> bool:
    """Tell whether an error means that the path has no file which may be opened."""
    return error.errno in _NOT_THERE


def is_out_of_reach(error: OSError) -> bool:
    """Tell whether an error means that a file system or open handle is unreachable."""
    return error.errno in _OUT_OF_REACH
