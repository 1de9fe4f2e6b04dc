"""``mindsummary sync`` as it is typed."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mindsummary_lightning.cli import sync as module
from mindsummary_lightning.remote.run_copies import RunCopies, Store
from tests.cli.command import mindsummary
from tests.reading.runs import values_at, write_summary
from tests.remote.stores import Clock


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for name in ("a", "b"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        write_summary(tmp_path / "runs" / name, [values_at(1, {"loss": 1.0})])
    return tmp_path / "runs"


def test_runs_go_there_and_come_back(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = mindsummary(capsys, "sync", runs, f"memory:/{tmp_path}")
    back = mindsummary(capsys, "sync", f"memory:/{tmp_path}", tmp_path / "back")

    assert (there.code, back.code, there.err, back.err) == (0, 0, "", "")
    assert there.out.startswith("2 runs: ")
    for copy in (tmp_path / "back").rglob("*summary*"):
        os.utime(copy, (0, 0))
        os.utime(runs / copy.relative_to(tmp_path / "back"), (0, 0))
    assert (
        mindsummary(capsys, "list", tmp_path / "back").out == mindsummary(capsys, "list", runs).out
    )


def test_what_is_not_there_at_the_end_is_said_and_is_exit_code_1(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = (runs / "a").iterdir()
    copy = tmp_path / "runs-far" / "a" / path.name
    copy.parent.mkdir(parents=True)
    copy.write_bytes(b"somebody else's")
    os.utime(copy, (2e9, 2e9))

    answer = mindsummary(capsys, "sync", runs, tmp_path / "runs-far")
    printed = mindsummary(capsys, "sync", runs, tmp_path / "runs-far", "--json")

    assert (answer.code, printed.code, copy.read_bytes()) == (1, 1, b"somebody else's")
    problem, missing = answer.err.splitlines()
    assert problem.endswith("is newer, so it is not replaced; to replace it, add --force")
    assert missing == f"mindsummary: {path.stat().st_size} B are not there yet"
    facts = json.loads(printed.out)
    assert len(facts.pop("problems")) == 1
    assert facts == {"runs": 2, "sent_bytes": 0, "missing_bytes": path.stat().st_size}
    assert mindsummary(capsys, "sync", runs, tmp_path / "runs-far", "--force").code == 0
    assert copy.read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (
            ("runs", "link/far", "--follow"),
            2,
            "the destination must be outside of the source runs, got link/far. ",
        ),
        (
            ("link", "runs", "--follow"),
            2,
            "the destination must be outside of the source link, got runs. ",
        ),
        (("nothing", "far"), 1, "there is no directory nothing: nothing was sent"),
        (("file", "far"), 1, "file is a file; give its directory: nothing was sent"),
        (("memory://nothing", "far"), 1, "no run in memory://nothing: nothing was sent"),
        (
            ("runs", "far", "--verify", "--follow"),
            2,
            "--verify cannot be combined with --follow. Give only one of the two options",
        ),
        (
            ("runs", "far", "--follow", "--every", "nan"),
            2,
            "--every must be greater than 0 seconds",
        ),
        (
            ("runs", "http://me:pw@host/runs"),
            1,
            "http://***@host/runs: this store does not report when files",
        ),
        (("runs", "nothing://me:pw@host/runs"), 1, "nothing://***@host/runs cannot be reached"),
    ],
)
def test_mistakes_are_one_line(
    words: tuple[str, ...], code: int, text: str, runs: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to("runs")
    (tmp_path / "file").touch()

    answer = mindsummary(capsys, "sync", *words)

    assert answer.code == code
    assert text in answer.err
    assert len(answer.err.splitlines()) == 1
    assert "pw" not in answer.err


def test_users_passwords_and_queries_of_addresses_are_in_no_line_and_no_json(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = f"memory://me:pw@{tmp_path.name}/runs?signature=pw"
    printed = [mindsummary(capsys, "sync", runs, address)]
    (path,) = (runs / "a").iterdir()
    path.write_bytes(bytes(path.stat().st_size + 1))
    os.utime(path, (0, 0))
    printed += [mindsummary(capsys, "sync", runs, address, *words) for words in ((), ("--json",))]

    assert [answer.code for answer in printed] == [0, 1, 1]
    assert all("***" in answer.out + answer.err for answer in printed)
    assert not [answer for answer in printed if "pw" in answer.out + answer.err]


def test_what_cannot_be_listed_is_named_without_secrets_and_is_not_called_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    address = f"memory://me:pw@{tmp_path.name}/runs"

    def refuse(self: Store) -> None:
        raise OSError(f"500 for {address}")

    monkeypatch.setattr(Store, "list", refuse)

    answer = mindsummary(capsys, "sync", address, tmp_path / "far")

    assert not RunCopies(Store(address), Store(str(tmp_path / "far"))).send()
    assert (answer.code, "500 for memory://***@" in answer.err) == (1, True)
    assert "no run" not in answer.err


@pytest.mark.slow
def test_torch_is_not_loaded_to_carry_runs(runs: Path, tmp_path: Path) -> None:
    code = (
        f"import sys; from mindsummary_lightning.cli import main; main(['sync', {str(runs)!r}, "
        "'memory://runs']); "
    )
    code += (
        "sys.exit(any(name in sys.modules for name in ('torch', 'google.protobuf', "
        "'lightning', 's3fs')))"
    )

    assert (
        subprocess.run(
            [sys.executable, "-c", code], check=False, stdout=subprocess.DEVNULL
        ).returncode
        == 0
    )


# ---- when rounds are made, with a clock that nobody waits for


class _Copies:
    """Copies whose rounds a test has written down: an exception, or whether the source
    has changed.
    """

    def __init__(
        self,
        clock: Clock,
        *rounds: Any,
        silence_s: float = 60.0,
        stops_at: float = 1e9,
        takes_s: float = 0.0,
    ) -> None:
        self.clock, self.rounds, self.times, self.stops_at = clock, list(rounds), [], stops_at
        self.problems: dict[str, Exception] = {}
        self._silence_s, self._takes_s = silence_s, takes_s

    def send(self) -> bool:
        self.times.append(self.clock.now)
        self.clock.sleep(self._takes_s)
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


@pytest.mark.timeout(20)
@pytest.mark.parametrize(("presses", "code", "rounds"), [(1, 0, 2), (2, 130, 1)])
def test_ctrl_c_ends_following_after_one_last_round_and_a_second_one_at_once(
    presses: int, code: int, rounds: int, runs: Path, tmp_path: Path, clock: Clock,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    made = []

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        for _ in range(presses):
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(module.time, "sleep", sleep)
    monkeypatch.setattr(RunCopies, "send", _noted(RunCopies.send, made))
    before = signal.getsignal(signal.SIGINT)

    answer = mindsummary(capsys, "sync", runs, tmp_path / "far", "--follow")

    assert (answer.code, len(made), signal.getsignal(signal.SIGINT)) == (code, rounds, before)


def _noted(send: Callable[[RunCopies], bool], made: list[RunCopies]) -> Callable[[RunCopies], bool]:
    def noted(copies: RunCopies) -> bool:
        made.append(copies)
        return send(copies)

    return noted


@pytest.mark.timeout(20)
def test_ctrl_c_ends_one_round_at_once(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(RunCopies, "send", lambda copies: signal.raise_signal(signal.SIGINT))

    answer = mindsummary(capsys, "sync", runs, tmp_path / "far")

    assert (answer.code, "the same call goes on" in answer.err) == (130, True)


@pytest.mark.timeout(20)
def test_a_problem_that_stays_is_told_once_until_sigterm(
    runs: Path,
    tmp_path: Path,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        if clock.now >= 70:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(module.time, "sleep", sleep)
    (path,) = (runs / "a").iterdir()
    (tmp_path / "far" / "a" / path.name).mkdir(parents=True)
    before = signal.getsignal(signal.SIGTERM)

    answer = mindsummary(capsys, "sync", runs, tmp_path / "far", "--follow")

    assert (answer.code, clock.now < 71, signal.getsignal(signal.SIGTERM)) == (1, True, before)
    assert [path.name in line for line in answer.err.splitlines()] == [True, False]


def _times(copies: _Copies, every_s: float | None = None) -> list[float]:
    for _ in module.rounds(copies, every_s, copies):  # type: ignore[arg-type]
        pass
    return copies.times


@pytest.mark.parametrize("answer", [True, False, OSError("500")])
def test_one_call_makes_one_round(answer: Any, clock: Clock) -> None:
    assert _times(_Copies(clock, answer)) == [0]


def test_rounds_begin_at_equal_distances_until_nothing_has_changed_for_a_minute(
    clock: Clock,
) -> None:
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
    clock.now = 0
    assert _times(_Copies(clock, stops_at=1, takes_s=2), 30.0) == [0, 2]
