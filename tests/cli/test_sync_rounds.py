"""When rounds are made, with a clock that nobody waits for."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from mindsummary_lightning.cli import sync as module
from tests.remote.stores import Clock


class _Copies:
    """Copies whose rounds a test has written down: an exception, or whether the source has changed."""

    def __init__(self, clock: Clock, *rounds: Any, silence_s: float = 60.0, stops_at: float = 1e9) -> None:
        self.clock, self.rounds, self.times, self.stops_at = clock, list(rounds), [], stops_at
        self.problems: dict[str, Exception] = {}
        self._silence_s = silence_s

    def send(self) -> bool:
        self.times.append(self.clock.now)
        answer = self.rounds.pop(0) if self.rounds else False
        self.problems = {"run": answer} if isinstance(answer, Exception) else {}
        return answer is True

    def silence_s(self) -> float:
        return self._silence_s

    def __bool__(self) -> bool:  # a signal
        return self.clock.now >= self.stops_at


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=clock, sleep=clock.sleep))
    return clock


def _times(copies: _Copies, every_s: float | None = None) -> list[float]:
    for _ in module.rounds(copies, every_s, copies):  # type: ignore[arg-type]
        pass
    return copies.times


@pytest.mark.parametrize("answer", [True, False, OSError("500")])
def test_one_call_makes_one_round(answer: Any, clock: Clock) -> None:
    assert _times(_Copies(clock, answer)) == [0]


def test_rounds_begin_at_equal_distances_until_nothing_has_changed_for_a_minute(clock: Clock) -> None:
    assert _times(_Copies(clock, True, True), 25.0) == [0, 25, 50, 75, 100]


def test_a_store_that_does_not_answer_is_asked_until_it_does(clock: Clock) -> None:
    copies = _Copies(clock, True, *[OSError("500")] * 12, True)

    assert _times(copies, 10.0)[-1] >= 190
    assert not copies.problems


def test_a_run_that_is_being_recorded_is_followed_however_long_it_is_silent(clock: Clock) -> None:
    assert len(_times(_Copies(clock, True, silence_s=math.inf, stops_at=5000), 30.0)) > 160


def test_where_locks_say_nothing_ten_silent_minutes_end_it(clock: Clock) -> None:
    assert _times(_Copies(clock, True, silence_s=600.0), 30.0)[-1] == 600


def test_a_request_to_stop_is_followed_by_one_last_round_at_once(clock: Clock) -> None:
    times = _times(_Copies(clock, *[OSError("500")] * 100, stops_at=40), 30.0)

    assert 40 <= times[-1] <= 40.5
    assert times[-2] < 40
