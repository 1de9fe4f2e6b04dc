"""What it would cost and save to hand records to a thread, instead of writing them in the
training's own.

``python benchmarks/hand_off.py [--bound N] [--pause SECONDS]``. Three ways record one scalar a
step: SummaryRecord as it is, the same bytes written by the caller, and the same bytes handed to a
thread through a queue of at most ``--bound`` records. The thread writes all records that wait with
one call. On the "slow disk" ``os.write`` takes ``--pause`` seconds more. "Lost" values are those
whose call had returned when the process was killed (SIGKILL); the table has the most of all trials.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

sys.path.insert(0, os.path.dirname(__file__))

import paired

from mindsummary_lightning import SummaryRecord
from mindsummary_lightning.fileformat.framing import frame
from mindsummary_lightning.fileformat.summary_codec import encode_step
from mindsummary_lightning.fileio.scan import RecordScanner

WAYS = ("SummaryRecord", "caller writes", "hand-off")
STEP_S = 0.02  # of a training step, on the slow disk
SLOW_STEPS = 100
FAST_STEPS = 20_000
TRIALS = 10
KILL_AFTER_S = 0.2

Write = Callable[[int, float], object]


def record_of(step: int, value: float) -> bytes:
    """The bytes of a record with one scalar."""
    payloads = encode_step(time.time(), step, [("loss", value)])
    return b"".join(chunk for payload in payloads for chunk in frame(payload))


class HandOff:
    """A thread that writes what it is given; whoever gives more than ``bound`` records waits."""

    def __init__(self, descriptor: int, bound: int) -> None:
        self._descriptor, self._bound = descriptor, bound
        self._waiting: deque[bytes] = deque()
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def write(self, step: int, value: float) -> None:
        """Hand over a record; wait while the queue is full."""
        record = record_of(step, value)
        with self._changed:
            self._changed.wait_for(lambda: len(self._waiting) < self._bound)
            self._waiting.append(record)
            self._changed.notify_all()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._is_closed)
                records = b"".join(self._waiting)
                self._waiting.clear()
                self._changed.notify_all()
            if not records:
                return
            os.write(self._descriptor, records)

    def close(self) -> None:
        """Wait until everything is written."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join()


@contextmanager
def opened(way: str, folder: Path, bound: int) -> Iterator[Write]:
    """What records a scalar, one of ``WAYS``, in a file of the folder."""
    if way == "SummaryRecord":
        with SummaryRecord(folder) as record:
            yield lambda step, value: record.add_scalar("loss", value, step)
        return
    with (folder / "file").open("ab", buffering=0) as file:
        if way == "caller writes":
            yield lambda step, value: os.write(file.fileno(), record_of(step, value))
            return
        hand_off = HandOff(file.fileno(), bound)
        yield hand_off.write
        hand_off.close()


@contextmanager
def slow_writes(pause: float) -> Iterator[None]:
    """``os.write`` takes ``pause`` seconds more."""
    write_it = os.write

    def slow(descriptor: int, content: bytes) -> int:
        time.sleep(pause)
        return write_it(descriptor, content)

    with patch("os.write", slow):
        yield


def microseconds_of_a_call(way: str, bound: int) -> float:
    """What the caller waits for, on the disk as it is."""
    with tempfile.TemporaryDirectory() as folder, opened(way, Path(folder), bound) as write:
        start = time.perf_counter()
        for step in range(FAST_STEPS):
            write(step, 0.5)
        return (time.perf_counter() - start) / FAST_STEPS * 1e6


def cpu_microseconds(way: str, bound: int) -> float:
    """CPU time of the whole process for a scalar, closing included."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        with opened(way, Path(folder), bound) as write:
            for step in range(FAST_STEPS):
                write(step, 0.5)
        return (time.process_time() - start) / FAST_STEPS * 1e6


def seconds_on_a_slow_disk(way: str, bound: int, pause: float) -> float:
    """Seconds of ``SLOW_STEPS`` steps that take ``STEP_S`` each, where every write takes
    ``pause``.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        opened(way, Path(folder), bound) as write,
        slow_writes(pause),
    ):
        start = time.perf_counter()
        for step in range(SLOW_STEPS):
            time.sleep(STEP_S)
            write(step, 0.5)
        return time.perf_counter() - start


def log_until_killed(way: str, folder: Path, bound: int, pause: float) -> None:
    """Record without end; the number of values whose call has returned is in the file
    ``returned``.
    """
    returned = os.open(folder / "returned", os.O_WRONLY | os.O_CREAT)
    with opened(way, folder, bound) as write, slow_writes(pause):
        for step in range(10**9):
            write(step, 0.5)
            os.pwrite(returned, f"{step + 1:12}".encode(), 0)


def lost_by_a_kill(way: str, bound: int, pause: float) -> int:
    """Values whose call had returned and that are in no file after a kill."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [
            sys.executable,
            __file__,
            "--victim",
            way,
            "--folder",
            name,
            "--bound",
            str(bound),
        ]
        with subprocess.Popen([*command, "--pause", str(pause)]) as victim:
            while not (folder / "returned").exists() or not (folder / "returned").stat().st_size:
                time.sleep(0.01)
            time.sleep(KILL_AFTER_S)
            victim.send_signal(signal.SIGKILL)
        returned = int((folder / "returned").read_text(encoding="utf-8"))
        (file,) = (path for path in folder.iterdir() if path.name != "returned" and path.is_file())
        written = sum(1 for _ in RecordScanner(str(file)))
        # its first record is the version
        return max(0, returned - (written - (way == "SummaryRecord")))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bound", type=int, default=1000, help="records that may wait")
    parser.add_argument(
        "--pause", type=float, default=0.2, help="seconds of a write on the slow disk"
    )
    parser.add_argument("--victim", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.victim:
        log_until_killed(given.victim, given.folder, given.bound, given.pause)
        return
    print(paired.machine())
    print(f"bound {given.bound} records, slow write {given.pause} s, step {STEP_S} s\n")
    print(
        "| way | us a call | us of CPU | steps on a slow disk, s | lost by a kill | lost, "
        "slow disk |"
    )
    print("|---|---|---|---|---|---|")
    for way in WAYS:
        call = min(microseconds_of_a_call(way, given.bound) for _ in range(5))
        cpu = min(cpu_microseconds(way, given.bound) for _ in range(5))
        slow = seconds_on_a_slow_disk(way, given.bound, given.pause)
        lost = max(lost_by_a_kill(way, given.bound, 0.0) for _ in range(TRIALS))
        lost_slow = max(lost_by_a_kill(way, given.bound, given.pause) for _ in range(TRIALS))
        print(f"| {way} | {call:.1f} | {cpu:.1f} | {slow:.1f} | {lost} | {lost_slow} |")


if __name__ == "__main__":
    main()
