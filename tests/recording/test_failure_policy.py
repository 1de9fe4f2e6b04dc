"""FailurePolicy: what is counted, logged once, skipped or raised."""

from __future__ import annotations

import errno

import pytest

from mindsummary_lightning.fileio.append import MissingRecords
from mindsummary_lightning.recording.failure_policy import FailurePolicy
from mindsummary_lightning.recording.retries import UnsyncedError
from tests.support import Clock


def _fail(error: BaseException) -> None:
    raise error


def test_failed_writes_are_counted_and_logged_once_per_kind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    policy = FailurePolicy("run", raise_exception=False)
    for code in (errno.ENOSPC, errno.ENOSPC, errno.EIO):
        assert policy.attempt("values", _fail, OSError(code, "no")) is False
    policy.log_total()

    assert policy.lost == 3
    assert [record.levelname for record in caplog.records] == ["ERROR"] * 3
    assert "3 records of run could not be written in total" in caplog.text


def test_the_total_is_logged_again_only_when_it_has_grown(caplog: pytest.LogCaptureFixture) -> None:
    policy = FailurePolicy("run", raise_exception=False)
    for _ in range(2):
        policy.attempt("values", _fail, OSError(errno.EIO, "no"))
        policy.log_total()
        policy.log_total()

    totals = [line for line in caplog.messages if "in total" in line]
    assert totals == [f"{count} records of run could not be written in total" for count in (1, 2)]


@pytest.mark.parametrize(("answer", "is_written"), [(None, True), (True, True), (False, False)])
def test_what_is_queued_is_not_in_the_file_yet(answer: bool | None, is_written: bool) -> None:
    policy = FailurePolicy("run", raise_exception=False)

    assert policy.attempt("values", lambda: answer) is is_written


@pytest.mark.parametrize("has_lost", [False, True])
def test_what_the_disk_may_lack_is_said_once_unless_a_loss_was_said(
    has_lost: bool, caplog: pytest.LogCaptureFixture
) -> None:
    policy = FailurePolicy("run", raise_exception=False)
    if has_lost:
        policy.attempt("values", _fail, OSError(errno.EIO, "no"))
    caplog.clear()

    for _ in range(2):
        assert policy.attempt("values", _fail, UnsyncedError(errno.EIO, "no")) is True

    assert ["run may lack its last records" in line for line in caplog.messages] == (
        [] if has_lost else [True]
    )


@pytest.mark.parametrize(
    ("value", "step", "lines"),
    [
        (3, 3, []),
        (3.0, 3, []),
        (3.5, 3, ["global_step of 'loss' must be a whole number, got 3.5"]),
        ("x", None, ["global_step of 'loss' is skipped"]),
    ],
)
def test_a_step_is_a_whole_number_and_a_fraction_is_said(
    value: object, step: int | None, lines: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    policy = FailurePolicy("run", raise_exception=False)

    assert policy.step("global_step", "loss", value) == step
    assert [line.startswith(begin) for line, begin in zip(caplog.messages, lines, strict=True)] == (
        [True] * len(lines)
    )


def test_a_mistake_of_ours_is_not_taken_for_a_failed_write() -> None:
    with pytest.raises(KeyError):
        FailurePolicy("run", raise_exception=False).attempt("values", _fail, KeyError("bug"))


def test_values_that_cannot_be_converted_are_logged_once_per_kind_or_per_tag(
    caplog: pytest.LogCaptureFixture,
) -> None:
    policy = FailurePolicy("run", raise_exception=False)
    for tag in ("a", "b", "a"):
        assert policy.converted("image", tag, _fail, ValueError("no image")) is None
        assert policy.converted("metric", tag, _fail, ValueError("no number"), per_tag=True) is None

    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "image 'a' is skipped",
        "metric 'a' is skipped",
        "metric 'b' is skipped",
    ]


def test_the_errors_of_one_outage_are_one_line(caplog: pytest.LogCaptureFixture) -> None:
    policy = FailurePolicy("run", raise_exception=False)
    for code in (errno.ECONNABORTED, errno.ENOTCONN, errno.EIO, errno.ESTALE):
        policy.attempt("values", _fail, OSError(code, "away"))

    assert policy.lost == 4
    assert len(caplog.messages) == 1


def test_the_total_says_what_became_of_what_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    policy = FailurePolicy("run", raise_exception=False)
    policy.attempt("values", _fail, OSError(errno.EIO, "no"))
    policy.records_missing(
        [MissingRecords(3), MissingRecords(5, is_removed=True), MissingRecords(4)]
    )
    policy.log_total()

    assert policy.lost == 13
    assert caplog.messages[-1] == (
        "13 records of run are lost in total: 1 could not be written, 7 were accepted and later "
        "lost by the file system, 5 were in files that were removed or replaced"
    )
    policy.records_missing([MissingRecords(20, is_removed=True), MissingRecords(30)])
    policy.attempt("values", _fail, OSError(errno.EIO, "no"))
    policy.log_total()

    assert policy.lost == 64
    assert caplog.messages[-1] == (
        "64 records of run are lost in total: 2 could not be written, 37 were accepted and later "
        "lost by the file system, 25 were in files that were removed or replaced"
    )


def test_a_total_of_one_kind_names_no_other(caplog: pytest.LogCaptureFixture) -> None:
    for loss in (MissingRecords(2), MissingRecords(3, is_removed=True)):
        policy = FailurePolicy("run", raise_exception=False)
        policy.records_missing([])
        policy.log_total()
        policy.records_missing([loss])
        policy.log_total()

    assert caplog.messages == [
        "2 records of run are lost in total: 2 were accepted and later lost by the file system",
        "3 records of run are lost in total: 3 were in files that were removed or replaced",
    ]


def test_each_failure_is_raised_if_the_user_wants_that() -> None:
    policy = FailurePolicy("run", raise_exception=True)
    for error in (OSError(errno.EIO, "no"), UnsyncedError(errno.EIO, "no"), MemoryError()):
        with pytest.raises(type(error)) as raised:
            policy.attempt("values", _fail, error)
        assert raised.value is error
    with pytest.raises(ValueError, match="image 'a': no image"):
        policy.converted("image", "a", _fail, ValueError("no image"))
    assert policy.lost == 0


def test_what_a_value_raises_of_itself_skips_it_and_an_interrupt_does_not() -> None:
    policy = FailurePolicy("run", raise_exception=False)

    assert policy.converted("scalar", "a", _fail, SystemExit(3)) is None
    assert policy.converted("scalar", "b", lambda *told: told, 1, "two") == (1, "two")
    with pytest.raises(KeyboardInterrupt):
        policy.converted("scalar", "c", _fail, KeyboardInterrupt())
    assert policy.lost == 0
    assert policy.converted("scalar", "d", _fail, MemoryError()) is None
    assert policy.lost == 1


def test_a_write_in_reach_gets_its_arguments_and_its_answer_is_given_back() -> None:
    policy = FailurePolicy("run", raise_exception=False, timer=Clock(0.0))
    written: list[object] = []
    for answer in (None, True, False):
        assert policy.call_in_reach(lambda *told: written.append(told), 1, "two") is None
        assert policy.call_in_reach(lambda told: told, answer) is answer

    assert written == [(1, "two")] * 3


def test_a_success_between_failures_puts_off_the_pause() -> None:
    clock = Clock(0.0)
    policy = FailurePolicy("run", raise_exception=False, timer=clock)
    calls: list[int] = []
    for number in range(12):
        policy.attempt("lineage", policy.call_in_reach, _note_and_fail, calls, number)
        if number == 6:
            policy.attempt("lineage", policy.call_in_reach, calls.append, 100)

    assert calls == [*range(7), 100, *range(7, 12)]


def _note_and_fail(calls: list[int], number: int) -> None:
    calls.append(number)
    raise OSError(errno.EIO, "no")


def test_a_time_out_spares_the_training_the_next_ones() -> None:
    clock = Clock(0.0)
    policy = FailurePolicy("run", raise_exception=False, timer=clock)
    calls: list[float] = []

    def time_out() -> None:
        calls.append(clock.now)
        clock.now += 12.0
        raise OSError(errno.ETIMEDOUT, "timed out")

    for _ in range(10):
        policy.attempt("lineage", policy.call_in_reach, time_out)
        clock.now += 1.0

    assert calls == [0.0, 16.0, 32.0]
    assert policy.lost == 10
