"""One call at a time, whoever interrupts it: see also tests/faults/test_signal_handlers.py."""

from __future__ import annotations

import threading

import pytest

from mindsummary_lightning.recording.serialized_calls import SerializedCalls


def test_a_call_within_a_call_is_made_at_its_end_and_tells_so() -> None:
    turns = SerializedCalls()
    made: list[object] = []

    def outer(*arguments: object) -> None:
        made.append(("outer begins", *arguments))
        made.append(turns.call(made.append, "first"))
        made.append(turns.call(inner))
        made.append("outer ends")

    def inner() -> None:
        made.append("inner begins")
        made.append(turns.call(made.append, "last"))
        made.append("inner ends")

    assert turns.call(outer, 1, 2) is True
    assert made == [
        ("outer begins", 1, 2),
        False,
        False,
        "outer ends",
        "first",
        "inner begins",
        False,
        "inner ends",
        "last",
    ]
    assert turns.call(made.clear) is True
    assert made == []


def test_a_queued_call_that_fails_is_logged_and_the_others_are_made(
    caplog: pytest.LogCaptureFixture,
) -> None:
    turns = SerializedCalls()
    made: list[str] = []

    def fail() -> None:
        raise OSError(5, "no such luck")

    def outer() -> None:
        turns.call(made.append, "before")
        turns.call(fail)
        turns.call(made.append, "behind")
        raise KeyError("of the call itself")

    with pytest.raises(KeyError, match="of the call itself"):
        turns.call(outer)

    assert made == ["before", "behind"]
    assert [message.rpartition(": ")[0] for message in caplog.messages] == [
        "a value recorded in a signal handler could not be written"
    ]
    assert turns.call(made.append, "later") is True
    assert made == ["before", "behind", "later"]


@pytest.mark.timeout(10)
@pytest.mark.parametrize("is_waiting", [False, True])
def test_while_another_thread_makes_a_call_a_call_waits_or_is_queued(is_waiting: bool) -> None:
    turns = SerializedCalls()
    made: list[str] = []
    is_busy, may_end = threading.Event(), threading.Event()

    def busy() -> None:
        is_busy.set()
        may_end.wait()
        made.append("other thread")

    thread = threading.Thread(target=turns.call, args=(busy,))
    thread.start()
    is_busy.wait()
    if is_waiting:
        may_end.set()
    was_made = turns.call(made.append, "mine", is_waiting=is_waiting)
    may_end.set()
    thread.join()

    assert was_made is is_waiting
    assert made == ["other thread", "mine"]
