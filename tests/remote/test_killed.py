"""SIGKILL of the command beside a training, of the training, and of both.

The short form copies into a directory; the long one also to a real server of the S3 interface.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from mindsummary_lightning import SummaryRecord
from mindsummary_lightning.remote.run_copies import RunCopies, Store
from tests.remote.stores import far_files, far_steps

pytestmark = [
    pytest.mark.faults,
    pytest.mark.slow,
    pytest.mark.skipif(os.name == "nt", reason="SIGKILL"),
]


def _training(run: Path) -> subprocess.Popen[str]:
    program = Path(__file__).with_name("training_there.py")
    process = subprocess.Popen(
        [sys.executable, str(program), str(run)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "1\n"  # it records
    return process


def _sync(run: Path, address: str, *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "mindsummary_lightning", "sync", str(run), address, *options]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def _kill(process: subprocess.Popen[str]) -> int:
    """Kill a training; return the last step that it has said was recorded."""
    process.kill()
    said, _ = process.communicate()
    return int(said.rstrip("\n").rpartition("\n")[2])


@pytest.fixture(params=["directory", "s3"])
def far_address(request: pytest.FixtureRequest, tmp_path: Path, is_full: bool) -> Callable[[], str]:
    if request.param == "s3":
        if not is_full:
            pytest.skip("in the long form: the driver of S3 takes seconds to start")
        return request.getfixturevalue("s3")
    return lambda: str(tmp_path / "far" / str(random.random()))


@pytest.mark.parametrize("killed", ["sync", "training", "both"])
def test_what_a_kill_leaves_opens_and_the_next_call_completes_it(
    killed: str, is_full: bool, tmp_path: Path, far_address: Callable[[], str],
    times: Callable[[int, int], int],
    figure: Callable[[int, str], None],
) -> None:  # fmt: skip
    if killed != "both" and not is_full:
        pytest.skip("in the long form: each half of killing both")
    looks, trials = 0, times(1, 10)
    for trial in range(trials):
        run, far = tmp_path / str(trial), Store(far_address())
        training, sync = _training(run), _sync(run, far.name, "--follow", "--every", "0.05")
        try:
            while not far.list():  # until the first bytes have arrived
                assert sync.poll() is None
                time.sleep(0.02)
            time.sleep(random.Random(trial).random())
            if killed != "sync":
                recorded = _kill(training)
            if killed != "training":
                sync.kill()
                sync.wait()
            for _ in range(times(3, 20)):
                steps = far_steps(far_files(far), run)
                assert steps == list(range(1, len(steps) + 1))
                looks += 1
            if killed == "sync":
                recorded = _kill(training)
            if killed == "training":
                sync.send_signal(signal.SIGTERM)
                assert sync.wait() == 0
            else:
                assert _sync(run, far.name).wait() == 0
        finally:
            training.kill()
            sync.kill()
            training.wait()
            sync.wait()
        steps = far_steps(far_files(far), run)
        assert steps == list(range(1, len(steps) + 1))
        assert len(steps) >= recorded
    store = "S3" if far.name.startswith("s3:") else "directory"
    figure(
        45,
        (
            f"SIGKILL of {killed}, {store}: {trials} times, {looks} looks: 0 that do not open, 0 "
            "records lost"
        ),
    )


class _Lines:
    """Counts the lines of the modules that copy, and kills the process at the n-th."""

    def __init__(self, place: int = -1) -> None:
        self.count, self.place = 0, place

    def __call__(self, frame: FrameType, event: str, argument: Any) -> _Lines | None:
        if not frame.f_code.co_filename.endswith(
            ("remote/run_copies.py", "fileio/replace.py", "fileio/regular.py")
        ):
            return None
        self.count += 1
        if self.count == self.place:
            os.kill(os.getpid(), signal.SIGKILL)
        return self

    def send(self, run: Path, far: Path) -> None:
        copies = RunCopies(Store(str(run)), Store(str(far)))
        sys.settrace(self)
        try:
            copies.send()
        finally:
            sys.settrace(None)


def test_a_kill_at_any_line_of_a_round_leaves_what_opens_and_the_next_call_makes_it_whole(
    tmp_path: Path, times: Callable[[int, int], int], figure: Callable[[int, str], None]
) -> None:
    run, lines, places = tmp_path / "run", _Lines(), times(20, 200)
    with SummaryRecord(run, max_file_size=500) as record:
        for step in range(1, 31):
            record.add_value("scalar", "loss", 1.0 / step)
            record.record(step)
    for number in range(5):
        (run / f"{number}.yaml").write_text("x" * 1000, encoding="utf-8")
    lines.send(run, tmp_path / "counted")
    whole = far_files(Store(str(run)))
    for number in range(places):
        far = tmp_path / str(number)
        child = os.fork()
        if not child:
            _Lines(1 + lines.count * number // places).send(run, far)
            os._exit(1)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
        steps = far_steps(far_files(Store(str(far))), run)
        assert steps == list(range(1, len(steps) + 1))
        copies = RunCopies(Store(str(run)), Store(str(far)))
        copies.send()
        assert (copies.problems, far_files(Store(str(far)))) == ({}, whole)
    figure(
        45,
        (
            f"SIGKILL at {places} of {lines.count} lines of a round: each copy opens, the next "
            "call makes it whole"
        ),
    )
