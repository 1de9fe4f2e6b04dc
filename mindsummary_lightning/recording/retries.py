"""Decide how often an unreachable file or directory is tried again.

Every such time is a constant here.

A value that is recorded meanwhile is refused at once and counted, so a training waits for a file
system that is away only as long as that file system itself takes to say so.
"""

from __future__ import annotations

import math

from mindsummary_lightning.fileio.outages import is_no_room

PATH_CHECK_S = 4.0
"""Seconds between two comparisons of the live file with its path.

Two calls of ``stat``: 2.4 microseconds on ext4, a round trip each on a network mount. Below the 5
seconds within which docs/reliability.md promises that recording resumes.
"""

FREE_TRIES = 8
"""Failures in a row after which an attempt follows at once.

A handle that was forgotten takes one attempt.
"""

PAUSE_S = 1.0
"""Seconds between two further attempts.

One costs 17 microseconds on ext4 where the place says no at once.
"""

SLOW_S = 0.5
"""Seconds of a failed attempt that count as a time-out of the file system.

A local disk says no within milliseconds.
"""

SLOW_PAUSE_S = 4.0
"""Seconds after a time-out without another attempt.

Each may stop the training as long as the last one did.

NFS with ``soft`` says no after ``timeo * (retrans + 1)``, 3 minutes over TCP by default (nfs(5)).
With 4 seconds, recording resumes within the promised 5.
"""


class UnsyncedError(OSError):
    """The system could not confirm that the records of a file are on the disk."""


class Retries:
    """The times at which a failed file or directory is tried again.

    At once for the first few times, then at a bounded rate.

    Attributes:
        failures: attempts in a row that a place out of reach let fail; 0 after one that succeeded.
    """

    def __init__(self) -> None:
        self.failures: int = 0
        self._until = -math.inf
        self._reason: tuple[int | None, str | None] = (None, None)

    def check(self, now: float) -> None:
        """Raise the last error again while it is too early for another attempt."""
        if now < self._until:
            raise OSError(*self._reason)

    def failed(self, error: OSError, began: float, ended: float) -> None:
        """Take note of a failed attempt; the times are in seconds of a monotonic timer."""
        self._reason = (error.errno, error.strerror)
        if not is_no_room(error):
            self.failures += 1
        if ended - began > SLOW_S:
            self._until = ended + SLOW_PAUSE_S
        elif self.failures > FREE_TRIES:
            self._until = ended + PAUSE_S

    def succeeded(self) -> None:
        """Take note of an attempt that succeeded."""
        self.failures = 0
