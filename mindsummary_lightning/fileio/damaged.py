"""The directory ``.damaged`` inside a run: what a repair replaced and what was cut off a file is kept there."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat

DAMAGED_DIRECTORY = ".damaged"

_TIMESTAMP = re.compile(r"summary\.(?=\d)")


def damaged_path(path: str, ending: str) -> str:
    """An unused path in ``.damaged`` beside a file; the directory is created.

    The name holds no ``summary.<digits>`` and does not end in ``.pb``: MindInsight lists a hidden directory too when it
    is started on the run itself, and would show what is kept there as a run.

    Args:
        path: the file that is or was damaged.
        ending: what the kept bytes are, appended to the name.

    Raises:
        OSError: the directory cannot be created, or its name belongs to something else, such as a link.
    """
    directory = os.path.join(os.path.dirname(path), DAMAGED_DIRECTORY)
    with contextlib.suppress(FileExistsError):
        os.mkdir(directory)
    if not stat.S_ISDIR(os.lstat(directory).st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "is not a directory; damaged files cannot be kept", directory)
    name = f"{_TIMESTAMP.sub('summary-', os.path.basename(path))}.{ending}"
    kept, number = os.path.join(directory, name), 0
    while os.path.lexists(kept):
        number += 1
        kept = os.path.join(directory, f"{name}.{number}")
    return kept
