"""When rounds are made, with a clock that nobody waits for."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from mindsummary_lightning.cli import sync as module
from mindsummary_lightning.errors import MindSummaryError
from tests.remote.stores import Clock


class _Copies:
    """Copies whose rounds a test has written down: an exception, or whether the source has changed."""

    def __init__(self, clock: Clock, *rounds: Any, is_recorded: bool | None = False) -> None:
        self.clock, self.rounds, self.times = clock, list(rounds), []
        self.problems: dict[str, Exception] = {}
        self._is_recorded = is_recorded

    def send(self, is_last: bool) -> bool:
        self.times.append(self.clock.now)
        self.was_last = is_last
        answer = self.rounds.pop(0) if self.rounds else False
        self.problems = {"run": answer} if isinstance(answer, Exception) else {}
        return answer is True

    def is_recorded(self) -> bool | None:
        return self._is_recorded


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=clock, sleep=clock.sleep))
    return clock


def _times(copies: _Copies, every_s: float | None = None, is_stopped: Callable[[], bool] = bool) -> list[float]:
    for _ in module.rounds(copies, every_s, is_stopped):  # type: ignore[arg-type]
        pass
    assert copies.was_last
    return copies.times


def test_one_call_makes_one_round(clock: Clock) -> None:
    assert _times(_Copies(clock, True)) == [0]


def test_pauses_after_failures_grow_from_one_second_to_sixty_and_end_one_call(clock: Clock) -> None:
    assert _times(_Copies(clock, *[OSError("500")] * 20)) == [0, 1, 3, 7, 15, 31, 63, 123]


def test_what_trying_again_does_not_help_ends_one_call(clock: Clock) -> None:
    assert _times(_Copies(clock, MindSummaryError("damaged"))) == [0]


def test_rounds_begin_at_equal_distances_until_nothing_has_changed_for_a_minute(clock: Clock) -> None:
    assert _times(_Copies(clock, True, True), 25.0) == [0, 25, 50, 75, 100]


def test_a_store_that_does_not_answer_is_asked_until_it_does(clock: Clock) -> None:
    copies = _Copies(clock, True, *[OSError("500")] * 12, True)
    times = _times(copies, 10.0)

    assert times[:3] == [0, 10, 11]
    assert max(later - sooner for sooner, later in pairwise(times)) == 60
    assert not copies.problems


def test_a_run_that_is_being_recorded_is_followed_however_long_it_is_silent(clock: Clock) -> None:
    copies = _Copies(clock, True, is_recorded=True)

    assert len(_times(copies, 30.0, lambda: clock.now > 5000)) > 160


def test_where_locks_say_nothing_ten_silent_minutes_end_it(clock: Clock) -> None:
    assert _times(_Copies(clock, True, is_recorded=None), 30.0)[-1] == 600


def test_a_request_to_stop_is_followed_by_one_last_round_at_once(clock: Clock) -> None:
    copies = _Copies(clock, *[OSError("500")] * 100)
    times = _times(copies, 30.0, lambda: clock.now >= 40)

    assert 40 <= times[-1] <= 40.5
    assert times[-2] < 40
