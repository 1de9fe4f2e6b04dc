"""Determines whether a run is running, has ended or was killed (its status).

It is one of :data:`STATUSES`, or ``None`` if it is not known.

Files hold Lightning's own words. A run that was killed could not write any, so it is told by its
files: a fit has begun there, no end was written, and nothing has grown for a while.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from mindsummary_lightning.fileformat.file_names import timestamp_of

STATUSES = ("running", "finished", "failed", "interrupted", "killed", "pruned")
"""The words; ``pruned`` is a trial that a study has ended."""
STARTED = "started"
"""What a file says of a fit that has begun and not ended."""
KILLED_AFTER_S = 600.0
"""Seconds without growth after which a run without an end counts as killed.

Most validations take less.
"""

GROWING_S = 120.0
"""Seconds since the last write for which a run that is looked at is expected to grow."""

_PLAIN = {
    "success": "finished",  # Lightning's word for a fit that came to its end
    "finished": "interrupted",  # its word for a fit that goes on in the next job of a cluster
}
_TRAINER_VERSIONS = (
    "lightning_version",
    "pytorch_lightning_version",
)  # recorded of each fit of a Trainer, before 0098


def recorded_status(status: object) -> str | None:
    """Return the plain word for a recorded status; ``None`` without a status."""
    if status is None or status == STARTED:
        return None
    return _PLAIN.get(str(status), str(status))


def run_status(run_dir: str, recorded: Mapping[str, Any], now_s: float) -> str | None:
    """Return the status of a run.

    Args:
        run_dir: the run's directory, which is read if no end was recorded.
        recorded: the run's own metadata, with the entry ``status`` if there is one.
        now_s: the time now, seconds since the epoch.
    """
    status = recorded_status(recorded.get("status"))
    if status is not None:
        return status
    is_fit = recorded.get("status") == STARTED or any(
        name in recorded for name in _TRAINER_VERSIONS
    )
    written_s = last_written(run_dir) if is_fit else None
    if written_s is None:  # recorded by hand or by MindSpore, which record no end
        return None
    if now_s - written_s < KILLED_AFTER_S:
        return "running"
    return "killed"


def last_written(run_dir: str) -> float | None:
    """Return the time when a run's files were last written; ``None`` without files.

    It is in seconds since the epoch.
    """
    try:
        with os.scandir(run_dir) as entries:
            files = [entry for entry in entries if timestamp_of(entry.name) is not None]
            times = [entry.stat(follow_symlinks=False).st_mtime for entry in files]
            return max(times, default=None)
    except OSError:  # removed since it was listed
        return None
