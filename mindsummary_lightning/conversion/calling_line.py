"""Find the line of the user's code that made the current call."""

from __future__ import annotations

import os
import re
import sys
from types import FrameType

_NOT_THE_USERS = re.compile(
    r"(torch|lightning|pytorch_lightning|lightning_fabric|mindspore|mindsummary_lightning|"
    r"contextlib)(\.|$)"
)


def calling_line() -> str:
    """Return file and line (``file.py:12``) of the innermost frame of the user's code.

    Frames of the frameworks and of this package are skipped. Without any other frame, the result is
    ``""``.

    The file is relative to the working directory, or to the folder of installed packages that
    contains it. Of any other file only the name is given.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name, file = frame.f_globals.get("__name__", ""), frame.f_code.co_filename
        if not file.startswith("<") and not _NOT_THE_USERS.match(name):
            return f"{_short(file)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def _short(file: str) -> str:
    for folder in ("site-packages", "dist-packages"):
        if f"{os.sep}{folder}{os.sep}" in file:
            return file.rpartition(f"{os.sep}{folder}{os.sep}")[2]
    inside = file.removeprefix(os.getcwd() + os.sep)
    if os.path.isabs(inside):
        return os.path.basename(file)
    return inside
