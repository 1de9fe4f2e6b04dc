"""Do some work again and again, killed at its first, second, third... call that changes a file;
check what is left.

Each time a forked child works in a fresh copy, and kills itself where the call would be made.
Prints the number of calls as JSON; a check that fails ends the script.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mindsummary_lightning import SummaryReader, SummaryRecord
from mindsummary_lightning.cli import main as mindsummary
from mindsummary_lightning.fileformat.file_names import is_lineage_name, is_summary_name
from mindsummary_lightning.maintenance.verify import verify_run
from mindsummary_lightning.recording.summary_record import recorder_of
from mindsummary_lightning.values import TrainInfo

AUDITED = {
    "os.rename": lambda arguments: True,
    "os.link": lambda arguments: True,
    "os.remove": lambda arguments: True,
    "os.mkdir": lambda arguments: True,
    "os.rmdir": lambda arguments: True,
    "os.truncate": lambda arguments: True,
    "os.chmod": lambda arguments: True,
    "os.utime": lambda arguments: True,
    "open": lambda arguments: bool(arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)),
}


class Killer:
    """Counts the calls that change files, and kills the process instead of making the one of a
    number.
    """

    def __init__(self, fatal: int | None, below: Path) -> None:
        self.calls = 0
        self._fatal = fatal
        self._is_on = True
        self._below = str(below)
        for name in ("write", "writev", "fsync", "ftruncate"):
            setattr(os, name, self._counted(getattr(os, name)))
        self._open, os.open = os.open, self._opened
        sys.addaudithook(self._heard)

    def stop(self) -> int:
        self._is_on = False
        return self.calls

    def _count(self) -> None:
        if self._is_on:
            self.calls += 1
            if self.calls == self._fatal:
                os.kill(os.getpid(), signal.SIGKILL)

    def _counted(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(descriptor: int, *arguments: Any) -> Any:
            if descriptor > 2:
                self._count()
            return real(descriptor, *arguments)

        return call

    def _opened(self, path: Any, flags: int, *arguments: Any, **options: Any) -> int:
        descriptor = self._open(path, flags, *arguments, **options)
        if flags & os.O_CREAT and str(path).startswith(self._below):
            self._count()  # when the file is there, and empty
        return descriptor

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if (
            event in AUDITED
            and str(arguments[0]).startswith(self._below)
            and AUDITED[event](arguments)
        ):
            self._count()


@dataclass
class Work:
    prepare: Callable[[Path], None]
    do: Callable[[Path], None]
    check: Callable[[Path, Path], None]
    """Given the directory of the killed work and that of the finished one."""


def contents(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def finished(directory: Path) -> dict[str, bytes]:
    """Files under names of their own, not the temporary ones that a killed process leaves."""
    return {name: data for name, data in contents(directory).items() if ".mindsummary-" not in name}


def quietly(*words: object) -> None:
    with open(os.devnull, "w", encoding="utf-8") as sink, contextlib.redirect_stdout(sink):
        assert mindsummary([str(word) for word in words]) == 0, words


def assert_readable(run: Path) -> None:
    reader = SummaryReader(run)
    reader.all_scalars()
    reader.lineage()
    assert not [finding for finding in verify_run(str(run)) if finding.is_damage]


# ---- repair, and the start of a run on a torn tail


def damaged_run(work: Path) -> None:
    run = work / "run"
    with SummaryRecord(run) as record:
        for step in range(30):
            recorder_of(record).write_values(step, [("loss", float(step))])
        recorder_of(record).write_lineage(TrainInfo(epoch=1))
    for path in run.iterdir():
        data = bytearray(path.read_bytes())
        if is_summary_name(path.name):
            data[400] ^= 1
        path.write_bytes(bytes(data) + b"torn")
        path.rename(run / path.name.replace(path.name.split(".")[4], "1700000000"))


def repaired(killed: Path, done: Path) -> None:
    run = killed / "run"
    before = contents(killed.parent / "prepared" / "run")
    kept = [path.read_bytes() for path in run.rglob("*") if path.is_file()]
    for name, data in before.items():
        assert (run / name).read_bytes() in (data, (done / "run" / name).read_bytes()), name
        assert data in kept, f"the damaged {name} is gone"
    assert {
        path.name
        for path in run.iterdir()
        if is_summary_name(path.name) or is_lineage_name(path.name)
    } == set(before)
    quietly("repair", run)
    assert_readable(run)
    for name in before:
        assert (run / name).read_bytes() == (done / "run" / name).read_bytes()


def torn_run(work: Path) -> None:
    with SummaryRecord(work / "run") as record:
        for step in range(30):
            recorder_of(record).write_values(step, [("loss", float(step))])
    (path,) = (work / "run").iterdir()
    path.write_bytes(path.read_bytes() + b"\x10\0\0 and more")
    path.rename(work / "run" / path.name.replace(path.name.split(".")[4], "1700000000"))


def start(work: Path) -> None:
    with SummaryRecord(work / "run") as record:
        recorder_of(record).write_values(30, [("loss", 30.0)])
        recorder_of(record).write_lineage(TrainInfo(epoch=1))


def started(killed: Path, done: Path) -> None:
    start(killed)
    assert SummaryReader(killed / "run").scalars("loss").steps.tolist() == list(range(31))
    tails = [
        data
        for name, data in contents(killed / "run").items()
        if ".damaged" in name and ".tmp" not in name
    ]
    assert b"\x10\0\0 and more" in tails
    assert_readable(killed / "run")


# ---- export and import


def whole_run(work: Path) -> None:
    with SummaryRecord(work / "run") as record:
        for step in range(5):
            record.add_value("scalar", "loss", float(step))
            record.add_value("tensor", "t", np.full(3, step, np.float32))
            record.add_value("histogram", "h", np.arange(5.0))
            record.record(step)
        recorder_of(record).write_lineage(TrainInfo(epoch=1))


def is_complete(name: str, data: bytes, expected: bytes) -> bool:
    """Whether a file is as long as the expected one; the table of runs, which has a time, has as
    many rows.
    """
    if name != "lineage.parquet":
        return len(data) == len(expected)
    from pyarrow import parquet

    found, whole = (parquet.read_table(io.BytesIO(one)) for one in (data, expected))
    return bool(found.schema == whole.schema and found.num_rows == whole.num_rows)


def exported(form: str) -> Work:
    def do(work: Path) -> None:
        quietly("export", work / "run", "--to", form, "--out", work / "out", "--force")

    def check(killed: Path, done: Path) -> None:
        assert contents(killed / "run") == contents(killed.parent / "prepared" / "run")
        whole = finished(done / "out")
        by_kind = {
            name.split(".")[0] if form == "tensorboard" else name: data
            for name, data in whole.items()
        }
        for name, data in finished(killed / "out").items():
            expected = by_kind[name.split(".")[0] if form == "tensorboard" else name]
            assert is_complete(name, data, expected), f"{name} is there and not complete"
        do(killed)

    return Work(whole_run, do, check)


def tensorboard_files(work: Path) -> None:
    whole_run(work)
    for folder in ("tb", "tb/a", "tb/a/b"):
        quietly("export", work / "run", "--to", "tensorboard", "--out", work / folder)


def import_runs(work: Path) -> None:
    quietly("import", work / "tb", "--out", work / "out")


def imported(killed: Path, done: Path) -> None:
    assert contents(killed / "tb") == contents(killed.parent / "prepared" / "tb")
    for name in finished(killed / "out"):
        assert (killed / "out" / name).stat().st_size == (done / "out" / name).stat().st_size, name
    quietly("import", killed / "tb", "--out", killed / "another")
    assert finished(killed / "another").keys() == finished(done / "out").keys()


# ---- landscapes


def trained(work: Path) -> None:
    from tests.landscape import nets

    with SummaryRecord(work / "run") as record:
        recorder_of(record).write_values(1, [("loss", 1.0)])
    nets.train(nets.Mlp(), str(work / "run"))


def save_checkpoints(work: Path) -> None:
    from tests.landscape import nets

    nets.train(nets.Mlp(), str(work / "run"))


def checkpoints_kept(killed: Path, done: Path) -> None:
    from mindsummary_lightning.landscape.checkpoints import LandscapeCheckpoints, mapped

    if (killed / "run" / "ckpt_dir" / "train_metadata.json").exists():
        found = LandscapeCheckpoints.open(killed / "run")
        for number in found.files:
            assert mapped(found.files[number])
    save_checkpoints(killed)
    assert sorted(LandscapeCheckpoints.open(killed / "run").files) == list(range(1, 7))


def landscape(work: Path) -> None:
    quietly(
        "landscape",
        work / "run",
        "--module",
        "tests.faults.scripts.kill_at_calls:network",
        "--device-ids",
        0,
    )


def network() -> tuple[object, object, object, object]:
    from tests.landscape import nets

    net = nets.Mlp()
    return None, net, nets.loader(net), nets.LOSS


def landscapes_recorded(killed: Path, done: Path) -> None:
    assert_readable(killed / "run")
    landscape(killed)
    assert_readable(killed / "run")
    expected = [found.z for found in SummaryReader(done / "run").landscapes()]
    for found, z in zip(SummaryReader(killed / "run").landscapes(), expected, strict=True):
        np.testing.assert_allclose(found.z, z, rtol=1e-4)


WORKS = {
    "repair": Work(damaged_run, lambda work: quietly("repair", work / "run"), repaired),
    "start": Work(torn_run, start, started),
    **{f"export {form}": exported(form) for form in ("csv", "npy", "parquet", "tensorboard")},
    "import": Work(tensorboard_files, import_runs, imported),
    "checkpoint": Work(lambda work: (work / "run").mkdir(), save_checkpoints, checkpoints_kept),
    "landscape": Work(trained, landscape, landscapes_recorded),
}

# What takes long to import, so that it is done once and not in each child.
IMPORTS = {
    "export parquet": ["pandas", "pyarrow.parquet", "mindsummary_lightning.export.parquet_dataset"],
    "export tensorboard": [
        "mindsummary_lightning.cli.export",
        "mindsummary_lightning.export.tensorboard.exporter",
    ],
    "import": [
        "mindsummary_lightning.export.tensorboard.exporter",
        "mindsummary_lightning.export.tensorboard.importer",
    ],
    "checkpoint": ["tests.landscape.nets"],
    "landscape": [
        "tests.landscape.nets",
        "mindsummary_lightning.landscape.summary_landscape",
        "torch._dynamo",
    ],
}


def import_for(name: str) -> None:
    for module in IMPORTS.get(name, []):
        importlib.import_module(module)


def in_child(action: Callable[[], None]) -> int:
    child = os.fork()
    if not child:
        try:
            action()
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main(name: str, directory: str, stride: str) -> None:
    work = WORKS[name]
    import_for(name)
    top = Path(directory)
    prepared, done = top / "prepared", top / "done"
    prepared.mkdir()
    assert in_child(lambda: work.prepare(prepared)) == 0
    shutil.copytree(prepared, done)
    listen, said = os.pipe()

    def finish() -> None:
        killer = Killer(None, top)
        work.do(done)
        calls = killer.stop()
        os.write(said, b"%d" % calls)

    assert in_child(finish) == 0
    calls = int(os.read(listen, 100))
    kills = 0
    for fatal in range(1, calls + 1, int(stride)):
        killed = top / "killed"
        shutil.copytree(prepared, killed)

        def die(killed: Path = killed, fatal: int = fatal) -> None:
            Killer(fatal, top)
            work.do(killed)

        assert in_child(die) == -signal.SIGKILL, fatal
        assert in_child(lambda killed=killed: work.check(killed, done)) == 0, (
            f"killed at call {fatal} of {calls}"
        )  # type: ignore[misc]
        shutil.rmtree(killed)
        kills += 1
    print(json.dumps({"calls": calls, "kills": kills}))


if __name__ == "__main__":
    main(*sys.argv[1:])
