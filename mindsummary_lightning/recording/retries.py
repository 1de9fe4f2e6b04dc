"""Decide how often an unreachable file or directory is tried again.

All times are constants of this module.

A value that is recorded during a pause is refused at once and counted. So a training waits for an
unreachable file system only as long as the file system takes to report the error.
"""

from __future__ import annotations

import math

from mindsummary_lightning.fileio.outages import is_no_room

PATH_CHECK_S = 4.0
"""Seconds between two checks that the open file is still the file at its path.

A check is two calls of ``stat``: 2.4 microseconds on ext4, two round trips on a network mount. The
value is below the 5 seconds within which docs/reliability.md promises that recording resumes.
"""

FREE_TRIES = 8
"""Number of failures in a row up to which the next attempt follows without a pause.

A handle that the server has forgotten takes one attempt.
"""

PAUSE_S = 1.0
"""Seconds between two attempts after the first ``FREE_TRIES`` failures.

An attempt that fails at once costs 17 microseconds on ext4.
"""

SLOW_S = 0.5
"""Seconds after which a failed attempt counts as a time-out of the file system.

A local disk reports an error within milliseconds.
"""

SLOW_PAUSE_S = 4.0
"""Seconds to wait after a time-out before the next attempt.

The next attempt may stop the training for as long as the last attempt did.

NFS with ``soft`` reports an error after ``timeo * (retrans + 1)``, 3 minutes over TCP by default
(nfs(5)). With 4 seconds, recording resumes within the promised 5.
"""


class UnsyncedError(OSError):
    """Raised if the system cannot confirm that a file's records are on the disk."""


class Retries:
    """The times at which a failed file or directory is tried again.

    The first few attempts follow at once, later attempts after a pause.

    Attributes:
        failures: attempts in a row that failed for another reason than a full disk; 0 after an
            attempt that succeeded.
    """

    def __init__(self) -> None:
        self.failures: int = 0
        self._until = -math.inf
        self._reason: tuple[int | None, str | None] = (None, None)

    def check(self, now: float) -> None:
        """Raise the last error again if it is too early for another attempt."""
        if now < self._until:
            raise OSError(*self._reason)

    def failed(self, error: OSError, began: float, ended: float) -> None:
        """Note a failed attempt; the times are in seconds of a monotonic timer."""
        self._reason = (error.errno, error.strerror)
        if not is_no_room(error):
            self.failures += 1
        if ended - began > SLOW_S:
            self._until = ended + SLOW_PAUSE_S
        elif self.failures > FREE_TRIES:
            self._until = ended + PAUSE_S

    def succeeded(self) -> None:
        """Note an attempt that succeeded, so that the next failure is the first."""
        self.failures = 0
