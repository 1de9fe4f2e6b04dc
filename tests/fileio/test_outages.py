"""What an error of the system says of a file."""

from __future__ import annotations

import errno
import os

import pytest

from mindsummary_lightning.fileio.outages import is_no_room, is_not_there, is_out_of_reach

_MEANING = {
    "no room": ("ENOSPC", "EDQUOT", "EFBIG"),
    "not there": ("ENOENT", "ENOTDIR", "EISDIR", "EINVAL", "ELOOP", "EACCES", "EPERM"),
    "out of reach": (
        *("EIO", "ENOTCONN", "ECONNABORTED", "ECONNRESET", "ESTALE", "EBADF", "ENODEV"),
        *("EHOSTDOWN", "EHOSTUNREACH", "ENETDOWN", "ENETUNREACH", "ETIMEDOUT", "EREMOTEIO"),
        *("ENXIO", "ESHUTDOWN"),
    ),
    "": ("EEXIST", "EAGAIN", "EINTR", "EMFILE", "EROFS"),
}


@pytest.mark.parametrize("meaning", _MEANING)
def test_an_error_has_one_meaning_at_most(meaning: str) -> None:
    for name in _MEANING[meaning]:
        if hasattr(errno, name):
            number = getattr(errno, name)
            error = OSError(number, os.strerror(number))
            tells = {
                "no room": is_no_room(error),
                "not there": is_not_there(error),
                "out of reach": is_out_of_reach(error),
            }
            assert tells == {each: each == meaning for each in tells}, name
