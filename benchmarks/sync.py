"""What ``mindsummary sync --follow`` costs: seconds behind, bytes sent per byte recorded, and a
training's step time.

``python benchmarks/sync.py [--seconds N] [--every N] [--rounds N] [--file-size BYTES]``. A program
records 10 MB/s in tensors, or some scalars a second. The stores are a directory, and
``object_store.py`` in a process of its own, which adds up the bodies of all requests. For the step
time a training and the command run side by side, and the command is stopped (SIGSTOP) in every
other stretch of steps.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, os.path.dirname(__file__))

import fsspec
import numpy as np
import paired
import torch

from mindsummary_lightning import SummaryRecord


@contextlib.contextmanager
def store(folder: Path) -> Iterator[Path]:
    """A server with an empty bucket ``bucket``; yields the file with the number of bytes that it
    was sent.
    """
    port = str(paired.free_port())
    os.environ |= {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
    }
    counter = folder / "counter"
    command = [sys.executable, str(Path(__file__).with_name("object_store.py")), port, str(counter)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            while not counter.exists():
                time.sleep(0.1)
            yield counter
        finally:
            process.kill()


def follow(run: Path, address: str, every: float) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "mindsummary_lightning",
        "sync",
        str(run),
        address,
        "--follow",
        "--every",
        str(every),
        "--json",
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def far_bytes(store: fsspec.AbstractFileSystem, address: str) -> int:
    store.invalidate_cache()
    return sum(info["size"] for info in store.find(address, detail=True).values())


def behind(
    folder: Path,
    counter: Path,
    address: str,
    name: str,
    elements: int,
    seconds: float,
    every: float,
    file_size: int,
) -> None:
    """Record for some seconds; print how far the copy was behind at worst, and the bytes that were
    sent for it.
    """
    run, address = folder / f"{name}{len(address)}", f"{address}/{name}"
    far, _ = fsspec.url_to_fs(address)
    before = int(counter.read_text(encoding="utf-8"))
    written: list[tuple[float, int]] = []
    lags = []
    array = np.random.default_rng(0).normal(size=max(elements, 1)).astype(np.float32)
    follower = follow(run, address, every)
    with SummaryRecord(run, max_file_size=file_size or None) as record:
        record.add_value("scalar", "loss", 1.0)
        record.record(0)
        while not far_bytes(far, address):  # the driver of S3 takes seconds to start
            time.sleep(0.1)
        begin, step, there, looked = time.monotonic(), 0, 0, 0.0
        while time.monotonic() - begin < seconds:
            step += 1
            record.add_value(
                *(("tensor", "data", array) if elements else ("scalar", "loss", 1.0 / step))
            )
            record.record(step)
            size = sum(path.stat().st_size for path in run.iterdir())
            written.append((time.monotonic(), size))
            if time.monotonic() - looked > 0.5:
                looked = time.monotonic()
                there = far_bytes(far, address)
                # The oldest byte that is not there yet is that old.
                lags.append(looked - next((at for at, end in written if end > there), looked))
            time.sleep(max(0.0, begin + step * 0.1 - time.monotonic()))
    follower.send_signal(signal.SIGTERM)
    ended = time.monotonic()
    _, status, used = os.wait4(follower.pid, 0)
    assert status == 0
    assert far_bytes(far, address) == size
    assert follower.stdout is not None
    sent = json.load(follower.stdout)["sent_bytes"]
    if address.startswith("s3:"):
        sent = int(counter.read_text(encoding="utf-8")) - before
    place = "S3" if address.startswith("s3:") else "a directory"
    print(
        f"| {name} to {place}, {size / seconds / 1e6:.3g} MB/s, --every {every:g} | at most "
        f"{max(lags):.1f} s behind | "
        f"{sent / size:.2f} bytes sent per byte | {time.monotonic() - ended:.1f} s from "
        "SIGTERM to the end | "
        f"{used.ru_utime + used.ru_stime:.1f} CPU seconds of sync |",
        flush=True,
    )


def step_time(folder: Path, rounds: int) -> None:
    """Train in stretches of 0.4 s, with the command beside it and without it, in turns: a step by
    CPU and by clock.
    """
    torch.set_num_threads(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    data = torch.randn(64, 512)
    # a server beside it would take its core
    follower = follow(folder / "training", str(folder / "copy"), 1.0)
    with SummaryRecord(folder / "training") as record:
        step = 0

        def stretch() -> tuple[float, float]:
            nonlocal step
            begin, first, began = time.perf_counter(), step, time.process_time()
            while time.perf_counter() - begin < 0.4:
                optimizer.zero_grad()
                loss = model(data).square().mean()
                loss.backward()
                optimizer.step()
                step += 1
                record.add_value("scalar", "loss", float(loss.detach()))
                record.record(step)
            taken = time.process_time() - began, time.perf_counter() - begin
            return taken[0] / (step - first), taken[1] / (step - first)

        def with_it() -> tuple[float, float]:
            follower.send_signal(signal.SIGCONT)
            return stretch()

        def without() -> tuple[float, float]:
            follower.send_signal(signal.SIGSTOP)
            return stretch()

        time.sleep(5)  # it has started
        stretch()
        taken = paired.rounds_of({"without": without, "with sync": with_it}, rounds)
        follower.send_signal(signal.SIGCONT)
    used = Path(f"/proc/{follower.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    print(
        f"{(int(used[11]) + int(used[12])) / os.sysconf('SC_CLK_TCK'):.2f} CPU seconds of "
        "sync, its start included"
    )
    follower.kill()
    follower.wait()
    rows = {
        name: {way: [times[index] for times in each] for way, each in taken.items()}
        for index, name in enumerate(("CPU time", "by the clock"))
    }
    paired.report("sync", "A training step beside `mindsummary sync`", "ms", 1e3, rows, "without")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--every", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--step-only", action="store_true")
    parser.add_argument("--file-size", type=int, default=2**26, help="0 is one file for all")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, store(Path(scratch)) as sent_bytes:
        measured = (Path(scratch), sent_bytes)
        options = (arguments.seconds, arguments.every, arguments.file_size)
        for address in () if arguments.step_only else (f"{scratch}/far", "s3://bucket"):
            for name, elements in (("tensors", 250_000), ("scalars", 0)):
                behind(*measured, address, name, elements, *options)
        if arguments.rounds:
            step_time(Path(scratch), arguments.rounds)
    print(paired.machine())
