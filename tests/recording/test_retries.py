from __future__ import annotations

import errno

import pytest

from mindsummary_lightning.recording.retries import FREE_TRIES, PAUSE_S, SLOW_PAUSE_S, Retries

DEAD, FULL = OSError(errno.EIO, "dead"), OSError(errno.ENOSPC, "full")


def test_the_first_failures_are_followed_at_once_and_later_ones_by_a_pause() -> None:
    retries = Retries()
    for _ in range(FREE_TRIES):
        retries.check(10.0)
        retries.failed(DEAD, 10.0, 10.0)
    retries.check(10.0)
    retries.failed(DEAD, 10.0, 10.0)

    with pytest.raises(OSError, match="dead") as raised:
        retries.check(10.0 + PAUSE_S - 0.01)
    assert raised.value.errno == errno.EIO
    retries.check(10.0 + PAUSE_S)


def test_a_time_out_is_followed_by_a_longer_pause_whatever_it_says() -> None:
    for error in (DEAD, FULL):
        retries = Retries()
        retries.failed(error, 0.0, 12.0)
        with pytest.raises(OSError, match=str(error.strerror)):
            retries.check(12.0 + SLOW_PAUSE_S - 0.01)
        retries.check(12.0 + SLOW_PAUSE_S)


def test_a_place_without_room_is_tried_each_time() -> None:
    retries = Retries()
    for _ in range(100):
        retries.failed(FULL, 0.0, 0.0)
        retries.check(0.0)

    assert retries.failures == 0


def test_a_success_ends_a_row_of_failures() -> None:
    retries = Retries()
    for _ in range(FREE_TRIES):
        retries.failed(DEAD, 0.0, 0.0)
    retries.succeeded()
    retries.failed(DEAD, 0.0, 0.0)

    retries.check(0.0)


def test_recording_resumes_within_the_five_seconds_that_are_promised() -> None:
    assert max(PAUSE_S, SLOW_PAUSE_S) < 5.0
