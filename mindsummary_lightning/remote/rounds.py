"""When rounds are made: once, or again and again while runs are recorded, with pauses after failures."""

from __future__ import annotations

import time
from collections.abc import Callable

from mindsummary_lightning.remote.run_copies import RunCopies

_ATTEMPTS = 8  # of one call without --follow: two minutes of pauses
_LONGEST_PAUSE_S = 60.0
_QUIET_S = 60.0  # without a writer and a change, a run has ended: between fit and test there is no writer either
_QUIET_WITHOUT_LOCKS_S = 600.0
_LOOK_S = 0.5  # how soon a request to stop is seen


def carry(
    copies: RunCopies,
    every_s: float | None = None,
    is_stopped: Callable[[], bool] = bool,
    after_round: Callable[[], object] = bool,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Bring copies up to date; what is missing at the end is in their ``problems`` and ``missing``.

    Args:
        copies: what to copy.
        every_s: seconds from the beginning of a round to that of the next, until the runs have ended and all is there;
            ``None`` ends when all that there is now is there, or after eight attempts.
        is_stopped: asked often; once it is true, one last round is made.
        after_round: called after each round.
        clock: seconds that never go back.
        sleep: waits for some of them.
    """
    pause, failures, changed_at = 0.0, 0, clock()
    while True:
        began, is_last = clock(), is_stopped()
        if copies.send():
            changed_at = began
        after_round()
        if is_last:
            return
        if copies.may_succeed:
            pause, failures = min(_LONGEST_PAUSE_S, 2 * pause or 1.0), failures + 1
            if every_s is None and failures == _ATTEMPTS:
                return
            until = clock() + pause
        else:
            pause = 0.0
            if every_s is None or _have_ended(copies, clock() - changed_at):
                return
            until = began + every_s
        while not is_stopped() and (rest := until - clock()) > 0:
            sleep(min(rest, _LOOK_S))


def _have_ended(copies: RunCopies, quiet_s: float) -> bool:
    if quiet_s < _QUIET_S or not copies.runs:
        return False
    is_recorded = copies.is_recorded()
    return quiet_s >= _QUIET_WITHOUT_LOCKS_S if is_recorded is None else not is_recorded
