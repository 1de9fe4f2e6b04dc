"""What is sent, in which order, what is left alone, and what it costs."""

from __future__ import annotations

import errno
import hashlib
import math
import os
import re
from collections.abc import Callable
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from mindsummary_lightning import SummaryRecord
from mindsummary_lightning.errors import ForeignFileError, RemotePathError
from mindsummary_lightning.fileio.append import try_lock
from mindsummary_lightning.reading.run_tree import find_run_directories
from mindsummary_lightning.reading.summary_reader import SummaryReader
from mindsummary_lightning.remote.run_copies import RunCopies, Store
from mindsummary_lightning.values.text import without_secrets
from tests.remote.stores import FaultyRequests
from tests.support import summary_paths


def _record(directory: Path, first: int = 1, last: int = 10, **options: int) -> None:
    with SummaryRecord(directory, **options) as record:
        for step in range(first, last + 1):
            record.add_value("scalar", "loss", 1.0 / step)
            record.record(step)


def _sent(source: Path | str, destination: Path | str, **options: bool) -> RunCopies:
    copies = RunCopies(Store(str(source)), Store(str(destination)), **options)
    copies.send()
    return copies


def _files(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with a file of every kind, in a directory of runs."""
    run = tmp_path / "runs" / "digits" / "version_0"
    _record(run, max_file_size=300)
    exported = ("export_1/tensor/a_1.npy", "export_1/tensor/shortened_names.txt")
    for name in (
        "hparams.yaml",
        "ckpt_dir/net_1_step.ckpt",
        "ckpt_dir/train_metadata.json",
        *exported,
    ):
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text(name, encoding="utf-8")
    return run


@pytest.fixture(
    params=["directory", "file", "local", "memory", pytest.param("s3", marks=pytest.mark.slow)]
)
def far(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An address of each kind at which nothing is."""
    if request.param == "s3":
        return str(request.getfixturevalue("s3")())
    scheme = {"directory": "", "file": "file://", "local": "local://", "memory": "memory:/"}[
        request.param
    ]
    return f"{scheme}{tmp_path}/far"


def test_runs_go_there_grow_and_come_back(run: Path, tmp_path: Path, far: str) -> None:
    for name in ("digits/version_0", "digits/version_0", "digits/version_1"):
        copies = _sent(tmp_path / "runs", far)
        assert (copies.problems, copies.missing) == ({}, 0)
        _record(tmp_path / "runs" / name, 11, 20)
        (run / "hparams.yaml").write_text(name * len(copies.runs), encoding="utf-8")
    assert not _sent(tmp_path / "runs", far).problems

    assert not _sent(far, tmp_path / "back").problems
    assert _files(tmp_path / "back") == _files(tmp_path / "runs")
    assert SummaryReader(tmp_path / "back/digits/version_0").scalars("loss").steps.tolist() == [
        *range(1, 21)
    ]
    assert [_sent(*ends).sent for ends in ((tmp_path / "runs", far), (far, tmp_path / "back"))] == [
        0,
        0,
    ]


@pytest.mark.parametrize("size", [14, 70_000, 3_000_000])
def test_a_file_that_is_rewritten_at_its_length_is_sent_by_this_round_and_by_another_call(
    size: int, run: Path, far: str
) -> None:
    path = run / "predictions.npy"
    path.write_bytes(b"a" + bytes(size))
    copies = _sent(run, far)
    another = RunCopies(Store(str(run)), Store(far))
    for time, byte, sender in ((1e9, b"x", copies), (2e9, b"b", copies), (2.1e9, b"c", another)):
        path.write_bytes(byte + bytes(size))
        # by a clock that lags, and by one that says that it was after its copy was made
        os.utime(path, (time, time))
        before = sender.sent
        assert sender.send() or sender is not copies
        assert (sender.problems, sender.sent - before) == ({}, size + 1)
        with Store(far).opened("predictions.npy", 0) as copy:
            assert copy.read(1) == byte


def test_a_file_that_grows_while_it_is_sent_is_known_again(
    run: Path, far: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, opened = run / "hparams.yaml", Store.opened

    def opened_and_grown(self: Store, name: str, size: int) -> Any:
        if name == path.name and self.root == str(run) and path.stat().st_size < 20:
            file = opened(self, name, size)
            path.write_text("hparams.yaml" * 2, encoding="utf-8")
            os.utime(path, (1, 1))  # before the copy was made
            return file
        return opened(self, name, size)

    monkeypatch.setattr(Store, "opened", opened_and_grown)
    assert _sent(run, far).sent == sum(map(len, _files(run).values()))
    assert not _sent(run, far).problems
    with Store(far).opened("hparams.yaml", 0) as copy:
        assert copy.read() == path.read_bytes()


@pytest.fixture
def _closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory of that name cannot be listed, though it can be written to."""
    real_scandir = os.scandir

    def refusing(path: str) -> Any:
        if str(path).endswith("closed"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return real_scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)


@pytest.mark.usefixtures("_closed")
def test_a_directory_that_cannot_be_listed_is_warned_of(
    run: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "runs" / "closed").mkdir()
    copies = _sent(tmp_path / "runs", tmp_path / "far")

    assert (copies.problems, len(copies.runs)) == ({}, 1)
    (message,) = caplog.messages
    assert message.startswith("skipped a directory that cannot be listed")


@pytest.mark.usefixtures("_closed")
@pytest.mark.parametrize("levels", [0, 1])
def test_nothing_is_replaced_in_a_directory_that_cannot_be_listed(
    run: Path, tmp_path: Path, levels: int
) -> None:
    source, far = (run, *run.parents)[levels], tmp_path / "closed"
    copy = far / summary_paths(run)[0].relative_to(source)
    copy.parent.mkdir(parents=True)
    copy.write_bytes(b"newer")

    problems = _sent(source, far).problems
    assert [type(problem) for problem in problems.values()] == [PermissionError]
    assert copy.read_bytes() == b"newer"


def test_holes_of_a_file_are_holes_of_its_copy(run: Path, tmp_path: Path) -> None:
    path = summary_paths(run)[0]
    os.truncate(path, 10 << 30)

    assert not _sent(run, tmp_path / "far").problems
    copy = (tmp_path / "far" / path.name).stat()
    assert (copy.st_size, copy.st_blocks < 1000) == (10 << 30, True)


def test_what_belongs_to_no_run_or_to_the_program_stays(run: Path, tmp_path: Path) -> None:
    (run / "empty.yaml").touch()
    ours = _files(run)
    for name in ("checkpoints/last.ckpt", ".damaged/old", ".mindsummary-1-00000000.tmp"):
        (run / name).parent.mkdir(exist_ok=True)
        (run / name).write_text("not of the run")
    (run / "program.bin").touch()
    os.truncate(run / "program.bin", (16 << 20) + 1)
    (tmp_path / "runs" / "notes.txt").write_text("beside it")
    (run / "link").symlink_to(tmp_path)
    os.mkfifo(run / "events.out.events.summary.9.0.host_MS")

    assert not _sent(tmp_path / "runs", tmp_path / "far").problems

    assert _files(tmp_path / "far") == {
        f"digits/version_0/{name}": data for name, data in ours.items()
    }


def test_a_newer_file_does_not_overtake_one_that_could_not_be_sent(
    run: Path, tmp_path: Path
) -> None:
    (run / f"a.{summary_paths(run)[0].name}").touch()
    first, *_ = ordered = summary_paths(run)
    (tmp_path / "far" / first.name).mkdir(parents=True)

    copies = _sent(run, tmp_path / "far")

    (names,) = copies.runs.values()
    assert names[: len(ordered)] == [path.name for path in ordered]
    lists = ["export_1/tensor/shortened_names.txt", "ckpt_dir/train_metadata.json"]
    assert names[-2:] == lists  # behind what they list
    assert list(copies.problems) == [first.name]
    assert not [path for path in summary_paths(tmp_path / "far") if path.is_file()]
    assert copies.missing == sum(map(len, _files(run).values()))
    (tmp_path / "far" / first.name).rmdir()
    copies.send()
    assert (copies.problems, copies.missing) == ({}, 0)
    (run / "hparams.yaml").write_text("changed")
    (run / "a.yaml").write_text("behind it")
    (tmp_path / "far" / "hparams.yaml").unlink()
    (tmp_path / "far" / "hparams.yaml").mkdir()
    copies.send()
    assert (list(copies.problems), copies.missing) == (["hparams.yaml"], len("changed"))


@pytest.mark.parametrize(
    "change", [lambda data: b"other" + data[5:-1], lambda data: data + b"longer"]
)
def test_a_copy_that_differs_and_is_newer_is_named_and_replaced_by_force(
    change: Callable[[bytes], bytes], run: Path, far: str
) -> None:
    original = (run / "hparams.yaml").read_bytes()
    (run / "other.yaml").write_bytes(change(original))
    _sent(run, far)
    there = Store(far)
    os.utime(run / "hparams.yaml", (1, 1))
    there.put("hparams.yaml", _Renamed(str(run)), 0, 3 * 10**18)

    copies = _sent(run, far)
    assert isinstance(copies.problems["hparams.yaml"], ForeignFileError)
    assert "to replace it, add --force" in str(copies.problems["hparams.yaml"])
    with there.opened("hparams.yaml", 0) as copy:
        assert copy.read() == change(original)
    assert not _sent(run, far, force=True).problems
    with there.opened("hparams.yaml", 0) as copy:
        assert copy.read() == original


class _Renamed(Store):
    is_local = False  # so that the copy has the time that is given

    def opened(self, name: str, size: int) -> Any:
        self.is_local = True
        try:
            return super().opened("other.yaml", size)
        finally:
            self.is_local = False


def test_a_bit_that_flipped_in_a_copy_is_found_by_verify(run: Path, far: str) -> None:
    path = run / "predictions.npy"
    path.write_bytes(bytes(2_000_001))
    _sent(run, far)
    assert _sent(run, far, verify=True).problems == {}
    path.write_bytes(bytes(2_000_000) + b"\1")
    os.utime(path, (1, 1))

    assert _sent(run, far).problems == {}  # size and time say nothing
    assert list(_sent(run, far, verify=True).problems) == [path.name]
    assert not _sent(run, far, verify=True, force=True).problems
    assert _sent(run, far, verify=True).sent == 0


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "kind", [os.mkfifo, lambda path: os.symlink(path.parent / "theirs", path), os.mkdir]
)
@pytest.mark.parametrize("name", ["a.summary.1.h_MS", "hparams.yaml", "ckpt_dir"])
def test_what_is_no_file_at_the_destination_is_named_and_neither_opened_nor_followed(
    name: str, kind: Callable[[Path], object], run: Path, tmp_path: Path
) -> None:
    (run / "a.summary.1.h_MS").write_bytes(summary_paths(run)[0].read_bytes())
    far = tmp_path / "far"
    far.mkdir()
    (far / "theirs").touch()
    if (name, kind) != ("ckpt_dir", os.mkdir):
        kind(far / name)
        os.utime(far / name, (1, 1), follow_symlinks=False)
        problems = _sent(run, far).problems
        assert problems
        assert all(problem.startswith(name) for problem in problems)

    assert (far / "theirs").read_bytes() == b""
    assert not (far / "theirs").is_dir()


def test_names_that_lead_out_of_the_destination_or_to_no_file_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = fsspec.filesystem("memory")
    for name in ("../far/x", "//x/", "//"):
        memory.store[f"{tmp_path}/{name}/events.out.events.summary.1.0.h_MS"] = memory.open(
            "/x", "wb"
        )

    memory.mkdir(f"{tmp_path}/folder")
    # as S3's driver answers for the moment of the first object
    with_folders = partial(memory.find, withdirs=True)
    monkeypatch.setattr(
        type(memory), "find", lambda self, path, **options: with_folders(path, **options)
    )

    assert not _sent(f"memory:/{tmp_path}", tmp_path / "far" / "deep").runs
    assert len(Store(f"memory:/{tmp_path}").list()) == 0
    assert not (tmp_path / "far").exists()


def test_copies_are_as_private_and_as_old_as_what_is_recorded_and_nothing_is_beside_them(
    run: Path, tmp_path: Path
) -> None:
    _sent(run, tmp_path / "far")
    ages = [
        {path.name: path.stat().st_mtime_ns for path in summary_paths(place)}
        for place in (run, tmp_path / "far")
    ]

    assert {
        path.stat().st_mode & 0o777 for path in (tmp_path / "far").rglob("*") if path.is_file()
    } == {0o600}
    assert ages[0] == ages[1]
    assert _files(tmp_path / "far") == _files(run)


def test_a_copy_that_was_removed_is_sent_again_by_the_next_round(run: Path, tmp_path: Path) -> None:
    copies = _sent(run, tmp_path / "far")
    (tmp_path / "far" / "hparams.yaml").unlink()
    copies.send()

    assert _files(tmp_path / "far") == _files(run)


def test_a_run_that_a_writer_holds_open_is_being_recorded(tmp_path: Path) -> None:
    with SummaryRecord(tmp_path / "run") as record:
        record.add_value("scalar", "loss", 1.0)
        record.record(1)
        copies = _sent(tmp_path, "memory://a-run-being-recorded")
        assert copies.silence_s() == math.inf
    assert copies.silence_s() == 60
    assert _sent(tmp_path / "not yet", tmp_path / "back").silence_s() == math.inf
    assert _sent("memory://a-run-being-recorded", tmp_path / "back").silence_s() == 600


def test_a_run_is_silent_by_its_summary_files_and_by_what_their_place_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = f"memory:/{tmp_path}"
    assert _sent(far, tmp_path / "back").silence_s() == math.inf
    memory = fsspec.filesystem("memory")
    memory.pipe(f"{tmp_path}/run/events.out.events.summary.1.0.h_lineage", b"lineage")
    assert _sent(far, tmp_path / "back").silence_s() == 60
    memory.pipe(f"{tmp_path}/run/events.out.events.summary.1.0.h_MS", b"summary")
    assert _sent(far, tmp_path / "back").silence_s() == 600

    copies = _sent(tmp_path / "back", tmp_path / "further")
    assert copies.silence_s() == 60
    with (tmp_path / "back/run/events.out.events.summary.1.0.h_lineage").open("rb") as file:
        assert try_lock(file.fileno())
        assert copies.silence_s() == 60
    with (tmp_path / "back/run/events.out.events.summary.1.0.h_MS").open("rb") as file:
        assert try_lock(file.fileno())
        assert copies.silence_s() == math.inf
    monkeypatch.setattr("mindsummary_lightning.fileio.append.fcntl", None)
    assert copies.silence_s() == 600


def test_a_source_that_cannot_be_listed_is_the_problem_of_its_round_alone(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies = _sent(run, tmp_path / "far")
    sent = copies.sent
    with monkeypatch.context() as patch:
        patch.setattr(os, "walk", mock.Mock(side_effect=OSError(errno.EIO, "away")))
        assert copies.send() is False
    assert {name: str(error) for name, error in copies.problems.items()} == {
        f"{run} to {tmp_path / 'far'}": "[Errno 5] away"
    }
    assert len(copies.runs) == 1
    assert copies.send() is False
    assert (copies.problems, copies.sent, copies.missing) == ({}, sent, 0)
    (run / "hparams.yaml").write_text("changed")
    assert copies.send() is True
    assert copies.send() is False
    assert copies.sent == sent + len("changed")


def test_a_store_tells_size_time_and_etag_of_what_is_not_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = {
        "a": {"mtime": 1.5},
        "b": {"LastModified": datetime(1970, 1, 1, 0, 0, 2, tzinfo=timezone.utc)},
        "c": {"mtime": None, "created": 3, "ETag": '"abc"'},
        ".hidden/deeper/d": {"mtime": 4.0},
        ".hidden/e": {"mtime": 5.0},
        ".f": {"mtime": 6.0},
    }
    root = f"{tmp_path}/far"
    found = {
        f"{root}/{name}": {"type": "file", "size": number, **facts}
        for number, (name, facts) in enumerate(times.items(), start=7)
    }
    found |= {
        f"{root}/folder": {"type": "directory", "size": 0},
        f"{root}/link": {"type": "link", "size": 5, "mtime": 7.0},
    }
    monkeypatch.setattr(MemoryFileSystem, "find", lambda *_, **__: found)

    assert Store(f"memory:/{root}").list() == {
        "a": (7, 1_500_000_000, ""),
        "b": (8, 2_000_000_000, ""),
        "c": (9, 3_000_000_000, "abc"),
        ".hidden/deeper/d": (10, 4_000_000_000, ""),
        ".hidden/e": (11, 5_000_000_000, ""),
        "link": (-1, 7_000_000_000, ""),
    }


@pytest.mark.parametrize("size", [0, 7, 1 << 20, (1 << 20) + 9])
def test_the_md5_is_that_of_the_first_bytes(tmp_path: Path, size: int) -> None:
    data = os.urandom(1000) * 1100
    (tmp_path / "file").write_bytes(data)

    assert Store(str(tmp_path)).md5("file", size) == hashlib.md5(data[:size]).hexdigest()


def test_a_file_that_has_become_shorter_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    fsspec.filesystem("memory").pipe(f"{tmp_path}/file", b"content")
    for store in (Store(str(tmp_path)), Store(f"memory:/{tmp_path}")):
        with store.opened("file", 7) as file:
            assert file.read() == b"content"
        with (
            pytest.raises(OSError, match="the file must have at least 8 bytes, got 7") as raised,
            store.opened("file", 8),
        ):
            pass
        assert str(raised.value).startswith(f"{store.name}/file: ")


def test_a_directory_that_has_become_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "file").write_bytes(b"theirs")
    (tmp_path / "store" / "run").symlink_to(tmp_path / "theirs")
    (tmp_path / "source" / "run").mkdir(parents=True)
    (tmp_path / "source" / "run" / "new").write_bytes(b"new")
    store = Store(str(tmp_path / "store"))

    with pytest.raises(OSError, match="symbolic link"), store.opened("run/file", 0):
        pass
    with pytest.raises(OSError, match="symbolic link"):
        store.put("run/new", Store(str(tmp_path / "source")), 0, 1)
    assert [path.name for path in (tmp_path / "theirs").iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (ImportError("Install s3fs to access S3"), ": pip install s3fs"),
        (ValueError("Please install adlfs and more"), ""),
        (ImportError("no module"), ""),
    ],
    ids=["a lack", "another error", "an unknown lack"],
)
def test_what_must_be_installed_is_said_if_a_driver_is_missing(
    error: Exception, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fsspec.core, "url_to_fs", mock.Mock(side_effect=error))

    with pytest.raises(RemotePathError) as raised:
        Store("s3://bucket/runs")
    assert str(raised.value) == (
        "s3://bucket/runs cannot be reached (OBS, OSS, MinIO: s3://BUCKET/PATH and "
        f"AWS_ENDPOINT_URL): {error}{hint}"
    )


@pytest.mark.parametrize(
    "name", ["a::b", "x#y?z=1", "[a]*", "100%", "export_1", "ckpt_dir", "~t", "two\nlines"]
)
def test_odd_names_of_directories_are_names(name: str, tmp_path: Path) -> None:
    _record(tmp_path / "runs" / name)
    for source, far in (
        (tmp_path / "runs", tmp_path / "far"),
        (tmp_path / "runs" / name, tmp_path / "far" / name),
    ):
        assert len(_sent(source, far).runs) == 1
    assert _files(tmp_path / "far") == _files(tmp_path / "runs")


@pytest.mark.slow
@pytest.mark.parametrize("count", [30, 1000])
def test_each_small_file_is_one_request_and_a_tree_without_changes_is_only_listed(
    count: int, run: Path, s3: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(count):
        (run / f"{number}.png").write_bytes(b"picture")
    requests: list[str] = []
    answer = FaultyRequests.__call__

    def counted(self: FaultyRequests, environ: dict[str, Any], start: Any) -> Any:
        requests.append(environ["REQUEST_METHOD"])
        return answer(self, environ, start)

    monkeypatch.setattr(FaultyRequests, "__call__", counted)
    far, files, lists = s3(), len(_files(run)), 3 + count // 1000  # a thousand names in an answer
    assert _sent(run, far).sent == sum(map(len, _files(run).values()))
    assert (requests.count("PUT"), len(requests) <= files + lists) == (files, True)

    for name, (_, ns, _) in Store(far).list().items():
        os.utime(run / name, ns=(ns + 1, ns + 1))  # S3 tells whole seconds
    del requests[:]
    assert _sent(run, far).sent == 0
    assert len(requests) <= lists
    (run / "new.png").write_bytes(b"picture")
    assert _sent(run, far).sent == 7


_SECOND = 1_700_000_000


class WholeSeconds(MemoryFileSystem):
    """A store in memory that tells the time of a file in whole seconds, as S3 does."""

    name: ClassVar[str] = "wholeseconds"
    protocol: ClassVar[Any] = "wholeseconds"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.replace(f"{cls.name}://", "memory://")))

    def find(self, path: str, *arguments: Any, **options: Any) -> Any:
        found = super().find(path, *arguments, **options)
        for facts in found.values():
            facts["mtime"] = float(_SECOND)
        return found


@pytest.mark.parametrize("is_changed", [False, True])
def test_a_file_of_the_second_that_a_store_tells_is_sent_again_if_it_has_changed(
    is_changed: bool, tmp_path: Path
) -> None:
    fsspec.register_implementation(WholeSeconds.name, WholeSeconds, clobber=True)
    run, far = tmp_path / "runs" / "a", f"wholeseconds://{tmp_path.name}"
    _record(run)
    _sent(tmp_path / "runs", far)
    (path,) = summary_paths(run)
    if is_changed:
        path.write_bytes(bytes(reversed(path.read_bytes())))
    os.utime(path, ns=(_SECOND * 10**9 + 5 * 10**8,) * 2)

    assert _sent(tmp_path / "runs", far).sent == is_changed * path.stat().st_size


def test_a_local_tree_is_listed_once_a_round(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies, listed = _sent(tmp_path / "runs", tmp_path / "far"), []
    real_scandir = os.scandir
    monkeypatch.setattr(
        os, "scandir", lambda path: (listed.append(str(path)), real_scandir(path))[1]
    )
    copies.send()

    assert (
        len(listed)
        == len({*listed})
        == 2 * len([path for path in (tmp_path / "runs").rglob("*") if path.is_dir()]) + 2
    )


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (
            "http://user:secret@localhost/runs?sig=token",
            "http://***@localhost/runs?***: this store does not report when",
        ),
        ("gs://bucket/runs", "gs://bucket/runs cannot be reached .*gcsfs"),
        ("nothing://user:secret@x/y", r"nothing://\*\*\*@x/y cannot be reached .*s3://"),
    ],
)
def test_a_store_that_cannot_be_used_is_refused_in_one_sentence_without_its_password(
    address: str, text: str
) -> None:
    with pytest.raises(RemotePathError) as caught:
        Store(address)

    assert re.search(
        text.replace("***", r"\*\*\*").replace("?", r"\?") if "http" in text else text,
        str(caught.value),
    )
    assert not re.search("secret|token|\n", str(caught.value))


def test_what_a_driver_says_of_an_address_is_said_without_its_secrets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    addresses = ("sftp://me:p@ss@host/runs", "abfs://box/runs?sig=a%2Fb", "/runs")

    def refusing(address: str) -> Any:
        raise ValueError(f"no {address}")

    monkeypatch.setattr(fsspec.core, "url_to_fs", refusing)
    with pytest.raises(RemotePathError, match=r"no sftp://\*\*\*@host/runs$"):
        Store(addresses[0])

    assert (
        without_secrets("me:p@ss, p@ss, sig=a%2Fb of host/runs", *addresses)
        == "***, ***, *** of host/runs"
    )
    assert without_secrets("a text.", "/runs", "s3://bucket/runs") == "a text."


def test_the_runs_that_are_sent_are_those_that_a_list_shows(tmp_path: Path, far: str) -> None:
    base = tmp_path / "tree"
    for name in (
        ".hidden",
        ".hidden/deeper",
        "a/.git",
        "a/b",
        "..odd",
        ".c/ckpt_dir",
        ".damaged/.d",
    ):
        _record(base / name)
    (base / "link").symlink_to(base / "a")

    assert not _sent(base, far).problems
    assert not _sent(far, tmp_path / "back").problems

    for place in (base, tmp_path / "back"):
        listed = [os.path.relpath(run, place) for run in find_run_directories(str(place))]
        assert listed == ["..odd", ".hidden", "a/b"]
