from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mindsummary_lightning.reading.summary_reader import SummaryReader
from mindsummary_lightning.values import Event
from tests.reading.runs import values_at, write_summary
from tests.support import append_bytes


class SerializedCalls:
    """Stands in for waiting: each wait does the next thing a writer would have done meanwhile."""

    def __init__(self, *actions: object) -> None:
        self.actions = list(actions)
        self.waits: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.waits.append(seconds)
        action = self.actions.pop(0)
        if callable(action):
            action()

    def done(self) -> bool:
        return not self.actions


def _steps(events: list[Event]) -> list[int]:
    return [event.step for event in events if isinstance(event.what, tuple)]


def test_new_records_are_yielded_as_they_appear(tmp_path: Path) -> None:
    path = write_summary(tmp_path, [values_at(1, {"loss": 1.0})])
    torn = values_at(2, {"loss": 2.0})
    turns = SerializedCalls(
        lambda: append_bytes(path, torn[:20]),
        lambda: append_bytes(path, torn[20:] + values_at(3, {"loss": 3.0})),
    )

    events = list(SummaryReader(tmp_path).follow(poll_s=0.25, stop=turns.done, wait=turns))

    assert _steps(events) == [1, 2, 3]
    assert turns.waits == [0.25, 0.25]


def test_it_goes_on_to_a_later_file_after_the_last_record_of_the_first(tmp_path: Path) -> None:
    path = write_summary(tmp_path, [values_at(1, {"loss": 1.0})])

    def rotate() -> None:
        append_bytes(path, values_at(2, {"loss": 2.0}))
        write_summary(tmp_path, [values_at(3, {"loss": 3.0})], second=1700000009)

    turns = SerializedCalls(rotate)

    assert _steps(list(SummaryReader(tmp_path).follow(stop=turns.done, wait=turns))) == [1, 2, 3]


def test_it_goes_on_when_the_file_was_removed_and_a_new_one_begins(tmp_path: Path) -> None:
    path = write_summary(tmp_path, [values_at(1, {"loss": 1.0})])
    turns = SerializedCalls(
        path.unlink,
        None,
        lambda: write_summary(tmp_path, [values_at(2, {"loss": 2.0})], second=1700000009),
        lambda: write_summary(tmp_path, [values_at(3, {"loss": 3.0})], second=1700000009).replace(
            tmp_path / "events.out.events.summary.1700000010.0.h_MS"
        ),
    )

    assert _steps(list(SummaryReader(tmp_path).follow(stop=turns.done, wait=turns))) == [1, 2, 3]


def test_another_file_under_the_name_is_followed_from_its_start(tmp_path: Path) -> None:
    write_summary(tmp_path, [values_at(step, {"loss": 1.0}) for step in (1, 2)])

    def replace() -> None:
        write_summary(
            tmp_path / "new", [values_at(step, {"loss": 2.0}) for step in (5, 6, 7)]
        ).replace(tmp_path / "events.out.events.summary.1700000000.0.h_MS")

    turns = SerializedCalls(replace)

    assert _steps(list(SummaryReader(tmp_path).follow(stop=turns.done, wait=turns))) == [
        1,
        2,
        5,
        6,
        7,
    ]


def test_a_longer_file_with_the_same_name_and_inode_is_followed_from_its_start(
    tmp_path: Path,
) -> None:
    write_summary(tmp_path, [values_at(step, {"loss": 1.0}) for step in (1, 2)])
    turns = SerializedCalls(
        lambda: write_summary(tmp_path, [values_at(step, {"loss": 2.0}) for step in (5, 6, 7)]),
    )

    assert _steps(list(SummaryReader(tmp_path).follow(stop=turns.done, wait=turns))) == [
        1,
        2,
        5,
        6,
        7,
    ]


def test_a_file_that_is_replaced_by_a_longer_copy_of_itself_is_read_on(tmp_path: Path) -> None:
    path = write_summary(tmp_path, [values_at(1, {"loss": 1.0})])
    copy = tmp_path / "copy"

    def send() -> None:
        copy.write_bytes(path.read_bytes() + values_at(2, {"loss": 2.0}))
        copy.replace(path)

    turns = SerializedCalls(send)

    assert _steps(list(SummaryReader(tmp_path).follow(stop=turns.done, wait=turns))) == [1, 2]


def test_it_goes_on_when_the_directory_was_removed_and_an_earlier_name_appears(
    tmp_path: Path,
) -> None:
    run = tmp_path / "run"
    write_summary(run, [values_at(1, {"loss": 1.0})])
    turns = SerializedCalls(
        lambda: shutil.rmtree(run),
        lambda: write_summary(run, [values_at(2, {"loss": 2.0})], second=1600000000),
    )

    assert _steps(list(SummaryReader(run).follow(stop=turns.done, wait=turns))) == [1, 2]


def test_a_directory_of_runs_is_no_run_to_wait_for(tmp_path: Path) -> None:
    write_summary(tmp_path / "a", [])

    with pytest.raises(FileNotFoundError, match=r"no event file. Give one of the runs in it: a$"):
        next(SummaryReader(tmp_path).follow(stop=lambda: True))


def test_it_waits_for_a_run_that_has_no_file_yet(tmp_path: Path) -> None:
    turns = SerializedCalls(lambda: write_summary(tmp_path, [values_at(1, {"loss": 1.0})]))

    assert _steps(list(SummaryReader(tmp_path).follow(stop=turns.done, wait=turns))) == [1]


def test_it_waits_for_a_later_file_when_the_last_one_was_removed(tmp_path: Path) -> None:
    write_summary(tmp_path, [values_at(1, {"loss": 1.0})], second=100)
    last = write_summary(tmp_path, [values_at(2, {"loss": 2.0})], second=200)
    turns = SerializedCalls(
        last.unlink, lambda: write_summary(tmp_path, [values_at(3, {"loss": 3.0})], second=300)
    )

    assert _steps(list(SummaryReader(tmp_path).follow(stop=turns.done, wait=turns))) == [1, 2, 3]
    assert turns.waits == [0.5, 0.5]


@pytest.mark.parametrize("has_file", [True, False])
def test_it_gives_up_after_the_time_without_news(tmp_path: Path, has_file: bool) -> None:
    if has_file:
        write_summary(tmp_path, [])
    turns = SerializedCalls(None, None, None, None)

    list(SummaryReader(tmp_path).follow(poll_s=1.0, timeout_s=3.0, wait=turns))

    assert turns.waits == [1.0, 1.0, 1.0]


def test_news_begin_the_time_without_news_again(tmp_path: Path) -> None:
    path = write_summary(tmp_path, [])
    news = (None, lambda: append_bytes(path, values_at(1, {"loss": 1.0})), None, None, None)
    turns = SerializedCalls(*news)

    events = list(SummaryReader(tmp_path).follow(poll_s=1.0, timeout_s=2.5, wait=turns))

    assert (_steps(events), turns.waits) == ([1], [1.0] * 5)
