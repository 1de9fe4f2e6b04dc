"""When rounds are made, with a clock that nobody waits for."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from mindsummary_lightning.errors import MindSummaryError
from mindsummary_lightning.remote.rounds import carry
from tests.remote.stores import Clock


class _Copies:
    """Copies whose rounds a test has written down: an exception, or whether the source has changed."""

    def __init__(self, clock: Clock, *rounds: Any, is_recorded: bool | None = False) -> None:
        self.clock, self.rounds, self.times = clock, list(rounds), []
        self.problems: dict[str, Exception] = {}
        self.runs, self._is_recorded = 1, is_recorded

    def send(self) -> bool:
        self.times.append(self.clock.now)
        answer = self.rounds.pop(0) if self.rounds else False
        self.problems = {"run": answer} if isinstance(answer, Exception) else {}
        return answer is True

    @property
    def may_succeed(self) -> bool:
        return any(not isinstance(problem, MindSummaryError) for problem in self.problems.values())

    def is_recorded(self) -> bool | None:
        return self._is_recorded


def _carried(copies: _Copies, *arguments: Any) -> list[float]:
    carry(copies, *arguments, clock=copies.clock, sleep=copies.clock.sleep)  # type: ignore[arg-type]
    return copies.times


def test_one_call_makes_one_round() -> None:
    assert _carried(_Copies(Clock(), True)) == [0]


def test_pauses_after_failures_grow_from_one_second_to_sixty_and_end_one_call() -> None:
    assert _carried(_Copies(Clock(), *[OSError("500")] * 20)) == [0, 1, 3, 7, 15, 31, 63, 123]


def test_what_trying_again_does_not_help_ends_one_call() -> None:
    assert _carried(_Copies(Clock(), MindSummaryError("damaged"))) == [0]


def test_rounds_begin_at_equal_distances_until_nothing_has_changed_for_a_minute() -> None:
    assert _carried(_Copies(Clock(), True, True), 25.0) == [0, 25, 50, 75, 100]


def test_a_store_that_does_not_answer_is_asked_until_it_does() -> None:
    copies = _Copies(Clock(), True, *[OSError("500")] * 12, True)
    times = _carried(copies, 10.0)

    assert times[:3] == [0, 10, 11]
    assert max(later - sooner for sooner, later in pairwise(times)) == 60
    assert not copies.problems


def test_a_run_that_is_being_recorded_is_followed_however_long_it_is_silent() -> None:
    copies = _Copies(Clock(), True, is_recorded=True)

    assert len(_carried(copies, 30.0, lambda: copies.clock.now > 5000)) > 160


def test_where_locks_say_nothing_ten_silent_minutes_end_it() -> None:
    assert _carried(_Copies(Clock(), True, is_recorded=None), 30.0)[-1] == 600


def test_a_source_without_a_run_yet_is_waited_for() -> None:
    copies = _Copies(Clock())
    copies.runs = 0

    assert len(_carried(copies, 30.0, lambda: copies.clock.now > 1000)) > 30


def test_a_request_to_stop_is_followed_by_one_last_round_at_once() -> None:
    copies = _Copies(Clock(), *[OSError("500")] * 100)
    times = _carried(copies, 30.0, lambda: copies.clock.now >= 40)

    assert 40 <= times[-1] <= 40.5
    assert times[-2] < 40
