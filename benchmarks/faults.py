"""The same faults, injected into this package and into the writers people use today; prints a
Markdown table.

    python benchmarks/faults.py                                # ours, torch, tensorboardX,
    CSVLogger MINDSPORE_PYTHON=/path/to/python python benchmarks/faults.py   # and MindSpore, in its
    own environment

Needs the packages named above. Each cell is the worst of ``--trials`` trials. A lost value is one
whose call had returned; a hang is a process that did not end in ``LIMIT_S`` seconds. Needs Linux
(``/proc``, ``RLIMIT_FSIZE``).
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import os
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

LIMIT_S = 8.0
FIRST_READ_S = 60.0  # to import and start
SETTLE_S = 2.0  # for the processes that a writer leaves behind
SOME = 537  # no round number: some writers write in hundreds
WRITERS = ("mindsummary-lightning", "torch SummaryWriter", "tensorboardX", "CSVLogger", "MindSpore")

Log = Callable[[str, float, int], object]


# ---- what a victim does


def open_writer(name: str, directory: str) -> tuple[Log, object]:
    """A function that logs a scalar, and the writer it logs to."""
    if name == "mindsummary-lightning":
        from mindsummary_lightning import SummaryRecord

        record = SummaryRecord(directory)
        return record.add_scalar, record
    if name == "torch SummaryWriter":
        from torch.utils.tensorboard import SummaryWriter

        writer = SummaryWriter(directory)
        return writer.add_scalar, writer
    if name == "tensorboardX":
        import tensorboardX

        other = tensorboardX.SummaryWriter(directory)
        return other.add_scalar, other
    if name == "CSVLogger":
        from lightning.pytorch.loggers import CSVLogger

        logger = CSVLogger(directory, name="", version="")

        def log(tag: str, value: float, step: int) -> None:
            logger.log_metrics({tag: value}, step)
            # as the Trainer does, every log_every_n_steps x 2
            logger.save() if (step + 1) % 100 == 0 else None

        return log, logger
    from mindspore import Tensor
    from mindspore.train.summary import SummaryRecord as TheirRecord

    theirs = TheirRecord(directory)

    def record_theirs(tag: str, value: float, step: int) -> None:
        theirs.add_value("scalar", tag, Tensor(value))
        theirs.record(step)

    return record_theirs, theirs


def say(number: int) -> None:
    os.write(1, b"%d\n" % number)


def log_for_ever(log: Log, directory: str) -> None:
    for step in range(1 << 60):
        log("a", float(step), step)
        say(step)
        time.sleep(0.002)


def log_some(log: Log, directory: str) -> None:
    for step in range(SOME):
        log("a", float(step), step)
    say(SOME - 1)


def log_and_vanish(log: Log, directory: str) -> None:
    log_some(log, directory)
    os._exit(0)


def log_beyond_a_limit(log: Log, directory: str) -> None:
    for step in range(100):
        log("a", float(step), step)
    say(99)
    time.sleep(3)  # writers with a thread or process get what they had onto the disk
    sizes = [path.stat().st_size for path in Path(directory).rglob("*") if path.is_file()]
    limit_file_size(max(sizes, default=0) + 100)
    for step in range(100, 400):
        log("a", float(step), step)
    time.sleep(1)
    limit_file_size(resource.RLIM_INFINITY)
    for step in range(400, SOME):
        log("a", float(step), step)
    say(SOME - 1)


def limit_file_size(size: int) -> None:
    """Of this process and of those it started, where MindSpore writes."""
    for process in family():
        with contextlib.suppress(OSError):
            resource.prlimit(process, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def log_to_a_deleted_directory(log: Log, directory: str) -> None:
    for step in range(100):
        log("a", float(step), step)
    shutil.rmtree(directory)
    until = time.monotonic() + 6
    step = 100
    while time.monotonic() < until:
        log("a", float(step), step)
        step += 1
        time.sleep(0.01)
    say(step - 1)


def log_in_a_forked_child(log: Log, directory: str) -> None:
    for step in range(100):
        log("a", float(step), step)
    child = os.fork()
    if not child:
        for step in range(100, 200):
            log("a", float(step), step)
        os._exit(0)
    descriptor = os.pidfd_open(child)
    if not select.select([descriptor], [], [], 5)[0]:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.write(2, b"the child hangs\n")
        os._exit(9)
    os.waitpid(child, 0)
    say(99)


def log_many_tags(log: Log, directory: str) -> None:
    before = len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
    log_at_once(log, "many", {f"tag{number}": 1.0 for number in range(200)})
    after = len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
    processes = len(family()) - 1
    words = b"+%d descriptors, +%d threads, %d processes\n"
    os.write(2, words % (after[0] - before[0], after[1] - before[1], processes))
    say(0)


def log_at_once(log: Log, main_tag: str, values: dict[str, float]) -> None:
    """By ``add_scalars`` where the writer has it."""
    at_once = getattr(getattr(log, "__self__", None), "add_scalars", None)
    if at_once:
        at_once(main_tag, values, 0)
    else:
        for tag, value in values.items():
            log(f"{main_tag}/{tag}", value, 0)


def stay_idle(log: Log, directory: str) -> None:
    log("a", 1.0, 0)
    time.sleep(1)
    spent, began = processor_time(), time.monotonic()
    time.sleep(4)
    share = 100 * (processor_time() - spent) / (time.monotonic() - began)
    os.write(2, f"{share:.1f} % of a core\n".encode())
    say(0)


def processor_time() -> float:
    """Seconds this process and those it started have used."""
    ticks = sum(int(number) for process in family() for number in stat(process)[11:13])
    return ticks / os.sysconf("SC_CLK_TCK")


def family() -> list[int]:
    """This process and all below it."""
    parents = {
        int(name): int((stat(int(name)) or [0, 0])[1])
        for name in filter(str.isdigit, os.listdir("/proc"))
    }
    found = [os.getpid()]
    for process in found:
        found += [child for child, parent in parents.items() if parent == process]
    return found


def stat(process: int) -> list[str]:
    """Fields of ``/proc/<pid>/stat`` behind the name; none if the process is gone."""
    with contextlib.suppress(OSError):
        return (
            Path("/proc", str(process), "stat")
            .read_text(encoding="utf-8")
            .rsplit(")", 1)[1]
            .split()
        )
    return []


def log_under_a_hostile_tag(log: Log, directory: str) -> None:
    for main_tag, tag in (("../../outside", "a"), ("a", "../../../outside")):
        with contextlib.suppress(OSError):
            log_at_once(log, main_tag, {tag: 1.0})
    say(0)


FAULTS: dict[str, Callable[[Log, str], None]] = {
    "SIGKILL after about 1 s": log_for_ever,
    "SIGTERM after about 1 s": log_for_ever,
    "exit without close": log_some,
    "os._exit": log_and_vanish,
    "no room, then room again": log_beyond_a_limit,
    "directory deleted": log_to_a_deleted_directory,
    "fork, the child logs": log_in_a_forked_child,
    "200 tags": log_many_tags,
    "idle": stay_idle,
    "tag with ../": log_under_a_hostile_tag,
}


# ---- what is left of it


def values_on_disk(writer: str, directory: Path) -> tuple[set[int], int]:
    """Steps of tag ``a`` that a reader finds, and the bytes behind the last whole record of each
    file.
    """
    steps: set[int] = set()
    torn = 0
    for path in sorted(directory.rglob("*")):
        if path.is_file() and path.suffix == ".csv":
            with path.open(newline="", encoding="utf-8") as file:
                for row in csv.DictReader(file):
                    with contextlib.suppress(TypeError, ValueError, KeyError):
                        steps.add(int(row["step"]))
        elif path.is_file() and ("tfevents" in path.name or ".summary." in path.name):
            found, left = steps_of_records(path, is_tensorboard="tfevents" in path.name)
            steps |= found
            torn += left
    return steps, torn


def steps_of_records(path: Path, is_tensorboard: bool) -> tuple[set[int], int]:
    from tensorboard.compat.proto.event_pb2 import Event as TensorBoardEvent

    from mindsummary_lightning.errors import DamagedFileError
    from mindsummary_lightning.fileformat.summary_codec import decode_event
    from mindsummary_lightning.fileio.scan import RecordScanner

    steps = set()
    scanner = RecordScanner(str(path))
    with contextlib.suppress(DamagedFileError):
        for payload in scanner:
            if is_tensorboard:
                message = TensorBoardEvent.FromString(payload)
                is_value, step = bool(message.summary.value), message.step
            else:
                event = decode_event(payload)
                is_value, step = isinstance(event.what, tuple), event.step
            if is_value:
                steps.add(step)
    return steps, path.stat().st_size - scanner.offset


# ---- one trial


def trial(writer: str, fault: str, python: str) -> str:
    with tempfile.TemporaryDirectory() as base:
        directory = Path(base, "a", "b", "run")
        directory.mkdir(parents=True)
        command = [
            python,
            __file__,
            "--victim",
            writer,
            "--fault",
            fault,
            "--directory",
            str(directory),
        ]
        victim = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )  # no file for stderr: a limit on the size of files would hold for it too
        words: list[bytes] = []
        listener = threading.Thread(target=lambda: words.append(victim.stderr.read()))  # type: ignore[union-attr]
        listener.start()
        try:
            said, has_hung = watch(victim, fault)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(victim.pid, signal.SIGKILL)
            victim.wait()
            listener.join()
            victim.stdout.close()  # type: ignore[union-attr]
            victim.stderr.close()  # type: ignore[union-attr]
        outside = [
            str(path)
            for path in Path(base).rglob("*")
            if path.is_file() and directory not in path.parents
        ]
        text = words[0].decode(errors="replace")
        return verdict(writer, fault, directory, said, has_hung, victim.returncode, text, outside)


def watch(victim: subprocess.Popen[bytes], fault: str) -> tuple[list[int], bool]:
    assert victim.stdout is not None
    lines: list[bytes] = []
    for line in timed_lines(victim, FIRST_READ_S):
        lines.append(line)
        if fault.startswith("SIG") and len(lines) == 437:
            victim.send_signal(signal.SIGKILL if "KILL" in fault else signal.SIGTERM)
    has_hung = False
    try:
        victim.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        has_hung = True
    time.sleep(SETTLE_S)
    return [int(line) for line in lines if line.endswith(b"\n")], has_hung


def timed_lines(victim: subprocess.Popen[bytes], limit_s: float) -> Iterator[bytes]:
    """Lines until the victim is gone or silent for too long; its children may keep the
    pipe open.
    """
    descriptor, left = victim.stdout.fileno(), b""  # type: ignore[union-attr]
    while select.select([descriptor], [], [], limit_s if victim.poll() is None else 0.5)[0]:
        more = os.read(descriptor, 65536)
        if not more:
            return
        *whole, left = (left + more).split(b"\n")
        for line in whole:
            yield line + b"\n"
        limit_s = LIMIT_S + 12


def verdict(
    writer: str,
    fault: str,
    directory: Path,
    said: list[int],
    has_hung: bool,
    code: int,
    words: str,
    outside: list[str],
) -> str:
    last_line = words.strip().splitlines()[-1] if words.strip() else ""
    if "the child hangs" in words:
        return "the child hangs"
    if fault in ("200 tags", "idle"):
        found = [line for line in words.splitlines() if line.startswith("+") or "of a core" in line]
        return found[-1] if found else f"fails: {last_line[:60]}"
    if fault.startswith("tag"):
        return "written outside" if outside else ("refused" if code else "stays inside")
    if has_hung:
        return "hangs"
    steps, torn = values_on_disk(writer, directory)
    if code > 0:
        died = next(iter(re.findall(r"^(\w+Error)\b", words, re.MULTILINE)[::-1]), "an error")
        lost = len(set(range(said[-1] + 1)) - steps) if said else 0
        return f"{died} ends training" + (f", {lost} earlier values lost" if lost else "")
    if fault == "directory deleted":
        missed = min(steps, default=0) - 100
        return (
            f"{missed} of {said[-1] - 99} lost, then a new file, said"
            if steps
            else "all lost, unsaid"
        )
    lost = len(set(range(said[-1] + 1)) - steps)
    tail = f", torn tail of {torn} bytes" if torn else ""
    told = ", said" if lost and "could not be" in words else ""
    return f"{lost} of {said[-1] + 1} lost{tail}{told}"


def worst(results: list[str]) -> str:
    def badness(text: str) -> tuple[bool, int]:
        number = text.split(" ", 1)[0]
        return not number.lstrip("+").isdigit(), int(number) if number.isdigit() else 0

    return max(results, key=badness)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--victim")
    parser.add_argument("--fault")
    parser.add_argument("--directory")
    options = parser.parse_args()
    if options.victim:
        log, writer = open_writer(options.victim, options.directory)
        FAULTS[options.fault](log, options.directory)
        del writer
        return
    mindspore = os.environ.get("MINDSPORE_PYTHON")
    writers = [name for name in WRITERS if name != "MindSpore" or mindspore]
    print("| fault | " + " | ".join(writers) + " |")
    print("|---" * (len(writers) + 1) + "|")
    for fault in FAULTS:
        cells = []
        for writer in writers:
            python = mindspore if writer == "MindSpore" and mindspore else sys.executable
            cells.append(worst([trial(writer, fault, python) for _ in range(options.trials)]))
        print(f"| {fault} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
