"""The line of the user's code that is calling."""

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
    """``file.py:12`` of the innermost frame of the user; ``""`` without any.

    It is a frame neither of the frameworks nor of this package.

    The file is relative to the working directory, or to the folder of packages it is in; elsewhere
    its name alone.
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
