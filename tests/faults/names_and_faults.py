"""Every name that is opened in a run's directory, taken by something else: ``names_and_faults.py
DIRECTORY KIND``.

The names are those of a trace of system calls over the test-suite. What uses a run is called once
for each, in a process that is forked for it, as a user who is not root; prints JSON: a list of what
was wrong.
"""

from __future__ import annotations

import contextlib
import csv  # noqa: F401  # importlib imports these two late, when another user may not read the standard library
import ctypes
import importlib.resources  # noqa: F401
import io
import json
import logging
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch

from mindsummary_lightning import SummaryReader, SummaryRecord
from mindsummary_lightning.cli import main
from mindsummary_lightning.landscape.checkpoints import (
    LandscapeCheckpoints,
    LandscapeCheckpointWriter,
    RowStore,
    mapped,
)
from mindsummary_lightning.recording.summary_record import recorder_of
from mindsummary_lightning.trainer.statistics_names import statistics_names
from mindsummary_lightning.values import TrainInfo
from mindsummary_lightning.values.landscape_settings import LandscapeSettings

NAMES = (
    "events.out.events.summary.900.0.host_MS",
    "events.out.events.summary.901.0.host_lineage",
    "parameter_statistics.json",
    "ckpt_dir",
    "ckpt_dir/train_metadata.json",
    "ckpt_dir/net_1_step.ckpt",
    "ckpt_dir/rows_x",
    "ckpt_dir/rows_x/0000.row",
    "export_5",
    "export_5/tensor/t_4.npy",
    ".damaged",
    "graph.pb",
    "hparams.yaml",
    ".mindsummary-export",
)


def _socket(path: Path) -> None:
    os.chdir(path.parent)  # the name of a socket may have 107 bytes
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path.name)


def _sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 10 << 30)


@contextlib.contextmanager
def _as_root() -> Iterator[None]:
    os.seteuid(0)
    try:
        yield
    finally:
        os.seteuid(NOBODY)


def _mount(path: Path, flags: int, options: bytes) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    with _as_root():
        if libc.mount(b"none", os.fsencode(path), b"tmpfs", flags, options):
            raise OSError(ctypes.get_errno(), "mount", str(path))


def _full(path: Path) -> None:
    path.touch()
    with contextlib.suppress(OSError), path.with_name(".filler").open("wb", buffering=0) as filler:
        while filler.write(bytes(4096)):
            pass


def _of_root(path: Path) -> None:
    with _as_root():
        path.write_bytes(b"theirs")
        path.chmod(0o600)


KINDS: dict[str, Callable[[Path], object]] = {
    "FIFO": os.mkfifo,
    "socket": _socket,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "directory": Path.mkdir,
    "dangling link": lambda path: path.symlink_to(path.with_name("nowhere")),
    "link to a file": lambda path: path.symlink_to(THEIRS / "file"),
    "link to a directory": lambda path: path.symlink_to(THEIRS),
    "empty": Path.touch,
    "sparse": _sparse,
    "no rights": lambda path: (path.touch(), path.chmod(0)),
    "disappearing": Path.touch,
    "read-only": lambda path: path.parents[0].chmod(0o500),
    "another user's": _of_root,
    "full disk": _full,
    "read-only mount": lambda path: _mount(_run_of(path), REMOUNT | READ_ONLY, b""),
}
MOUNTED = ("full disk", "read-only mount")
READ_ONLY, REMOUNT, NOBODY = 1, 32, 65534
BASE, KIND = Path(sys.argv[1]), sys.argv[2]
THEIRS = BASE / "theirs"


def _run_of(path: Path) -> Path:
    return next(folder for folder in path.parents if folder.name == "run")


def _record(run: Path, first: int, suffix: str = "_MS") -> None:
    with SummaryRecord(run, file_suffix=suffix, export_options={"tensor_format": "npy"}) as record:
        for step in range(first, first + 3):
            record.add_value("scalar", "loss", float(step))
            record.record(step)
        record.add_value("tensor", "t", np.zeros(2000, np.float32))  # more than a page has left
        record.record(first)
        recorder_of(record).write_lineage(TrainInfo(epoch=first))
        statistics_names(recorder_of(record)).add([f"w{first}"])


def _landscape(run: Path) -> None:
    settings = LandscapeSettings.from_dict(
        {"landscape_size": 3, "unit": "step", "num_samples": 1, "create_landscape": {"train": True,
        "result": True},
         "intervals": [[1, 2, 3]]}
    )  # fmt: skip
    writer = LandscapeCheckpointWriter(str(run), "net", settings)
    for number in (1, 2, 3):
        writer.save(number, {"w": torch.ones(2)})
    writer.write()
    for number in LandscapeCheckpoints.open(str(run)).files:
        mapped(LandscapeCheckpoints.open(str(run)).files[number])
    rows = RowStore(str(run / "ckpt_dir" / "rows_x"))
    rows.rows([np.zeros(2)])
    rows.write(0, np.zeros(2))


def _verbs(run: Path, beside: Path) -> str:
    said = io.StringIO()
    good = beside / "good"
    _record(good, 1, "_good")  # never a name that the run has: it is copied into that, too
    words = [[verb, str(run)] for verb in ("list", "show", "verify", "lineage", "repair", "dump")]
    words += [
        ["report", str(run), "-o", str(beside / "report.html")],
        ["compare", str(run), str(good)],
    ]
    words += [
        ["export", str(run), "--to", "csv", "--out", str(run)],
        ["export", str(run), "--to", "json", "--out", str(beside / "out")],
    ]
    words += [["sync", str(run), str(beside / "copy")], ["sync", str(good), str(run)]]
    for each in words:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                code = main(each)
            except SystemExit as ended:
                code = ended.code if isinstance(ended.code, int) else 1
        if code not in (0, 1, 2) or "Traceback" in said.getvalue():
            raise AssertionError(f"{each[0]}: exit code {code}: {said.getvalue()[-500:]}")
    return said.getvalue()


def case(name: str) -> None:
    """One name; raises AssertionError, and anything else that was not refused in a sentence."""
    folder = BASE / name.replace("/", "_")
    run, path = folder / "run", folder / "run" / name
    shutil.rmtree(folder, ignore_errors=True)
    run.mkdir(parents=True)
    if KIND in MOUNTED:
        _mount(run, 0, b"size=1m,mode=777")
    # a process that records again into a file of its own looks at what is there only then
    earlier = os.fork()
    if not earlier:
        _record(run, 1)
        os._exit(0)
    os.waitpid(earlier, 0)
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    KINDS[KIND](path)
    toggling = os.fork() if KIND == "disappearing" else 0
    if KIND == "disappearing" and not toggling:
        signal.alarm(20)
        while True:
            for change in (path.unlink, path.touch):
                with contextlib.suppress(OSError):
                    change()
    _record(run, 4)  # never raises
    try:
        _landscape(run)
    except (OSError, ValueError) as error:
        if "\n" in str(error):
            raise
    said = _verbs(run, folder)
    if toggling:
        os.kill(toggling, signal.SIGKILL)
        os.waitpid(toggling, 0)
    assert "stolen" not in said, "what a link led to was shown"
    assert os.listdir(THEIRS) == ["file"], "something was written through a link"
    assert (THEIRS / "file").read_bytes() == CONTENT, "a file was changed through a link"
    if KIND in MOUNTED:
        _mount(run, REMOUNT, b"size=2m")
    elif run.stat().st_uid == os.geteuid():
        run.chmod(0o700)
        path.parent.chmod(0o700)
    lost = KIND in MOUNTED or (KIND == "read-only" and path.parent == run)
    if lost:
        _record(run, 7)
    is_left = path.is_file() and not path.is_symlink() and path.stat().st_size
    if not is_left or KIND in ("directory", "sparse", "another user's"):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(
            missing_ok=True
        )
    steps = {*SummaryReader(run).scalars("loss").steps.tolist()}
    assert steps - ({4, 5, 6} if lost else set()) == {
        1,
        2,
        3,
        *((7, 8, 9) if lost else (4, 5, 6)),
    }, steps


if __name__ == "__main__":
    logging.disable()
    torch.set_num_threads(1)
    BASE.mkdir()
    THEIRS.mkdir()
    with SummaryRecord(BASE / "made") as made:
        made.add_value("scalar", "stolen", 1.0)
        made.record(1)
    (made_file,) = (path for path in (BASE / "made").iterdir())
    # a torn tail, which recording would cut
    CONTENT = made_file.read_bytes() + made_file.read_bytes()[:40]
    (THEIRS / "file").write_bytes(CONTENT)
    shutil.rmtree(BASE / "made")
    for path in (BASE, THEIRS, THEIRS / "file"):  # of root, whom it would be easy to do harm to
        path.chmod(0o777)
    wrong = []
    for name in NAMES:
        read, write = os.pipe()
        child = os.fork()
        if not child:
            signal.alarm(30)
            time.time = lambda: 5.0  # when the folder export_5 is made
            if os.geteuid() == 0:
                os.setgroups([])
                os.setresgid(NOBODY, NOBODY, NOBODY)
                # root again for a moment, to put what it takes root to put
                os.setresuid(NOBODY, NOBODY, 0)
            try:
                case(name)
            except BaseException as error:
                os.write(write, f"{type(error).__name__}: {error}".encode()[-1000:])
                os._exit(1)
            os._exit(0)
        os.close(write)
        status = os.waitpid(child, 0)[1]
        if status:
            hung = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM
            wrong.append(
                [name, "hangs" if hung else os.read(read, 1000).decode() or f"status {status}"]
            )
        os.close(read)
    print(json.dumps(wrong))
