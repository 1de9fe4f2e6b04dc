from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from unittest import mock

import pytest

from mindsummary_lightning.fileformat.file_names import is_lineage_name, is_summary_name
from mindsummary_lightning.fileio import replace
from mindsummary_lightning.fileio.replace import (
    damaged_path,
    remove_stale_temporaries,
    replace_file,
    replacement,
    temporary_name,
)
from tests.fileio.handles import open_handles


def test_a_file_is_made_and_then_replaced(tmp_path: Path) -> None:
    path = tmp_path / "file"
    old = replace_file(str(path), b"old")
    assert (path.stat().st_dev, path.stat().st_ino) == old
    new = replace_file(str(path), b"new and longer")

    assert (path.stat().st_dev, path.stat().st_ino) == new != old
    assert path.read_bytes() == b"new and longer"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("mode", [0o600, 0o640])
def test_the_mode_is_what_was_asked_for_whatever_the_umask(tmp_path: Path, mode: int) -> None:
    umask = os.umask(0)
    try:
        replace_file(str(tmp_path / "file"), b"x", mode)
    finally:
        os.umask(umask)

    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode


def test_nothing_is_left_below_a_root_if_writing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "root"
    root.mkdir()
    path = str(root / "folder" / "file")
    with pytest.raises(TypeError), replace.replacement(path, root=str(root)) as file:
        file.write("no bytes")  # type: ignore[arg-type]

    assert [*root.rglob("*")] == [root / "folder"]


@pytest.mark.parametrize("step", ["open", "fsync", "replace"])
@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "no space"), KeyboardInterrupt()], ids=["full", "interrupt"]
)
def test_whatever_fails_the_old_file_is_untouched_and_alone(
    tmp_path: Path, step: str, error: BaseException
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with mock.patch.object(replace.os, step, side_effect=error), pytest.raises(type(error)):
        replace_file(str(path), b"new")

    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_the_bytes_are_on_the_disk_before_the_name_moves(tmp_path: Path) -> None:
    calls: list[str] = []
    fsync, move = os.fsync, os.replace
    with (
        mock.patch.object(replace.os, "fsync", lambda fd: (calls.append("fsync"), fsync(fd))),
        mock.patch.object(
            replace.os, "replace", lambda old, new: (calls.append("replace"), move(old, new))
        ),
    ):
        replace_file(str(tmp_path / "file"), b"x")

    assert calls == ["fsync", "replace", "fsync"]  # the last one: the directory


@pytest.mark.parametrize("is_below_a_root", [False, True])
def test_the_directory_of_the_file_is_synced_too_and_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_below_a_root: bool
) -> None:
    folder = tmp_path / "run" / "deep"
    folder.mkdir(parents=True)
    monkeypatch.chdir(tmp_path if is_below_a_root else folder)
    path, root = ("run/deep/file", "run") if is_below_a_root else ("file", None)
    synced: list[int] = []
    real = os.fsync
    monkeypatch.setattr(
        replace.os,
        "fsync",
        lambda descriptor: (synced.append(os.fstat(descriptor).st_ino), real(descriptor)),
    )
    with replacement(path, root=root) as file:
        file.write(b"content")

    assert synced == [(folder / "file").stat().st_ino, folder.stat().st_ino]
    assert open_handles(folder.stat()) == []
    with replacement(path, root=root, is_synced=False) as file:
        file.write(b"other")
    assert len(synced) == 2
    assert (folder / "file").read_bytes() == b"other"


def test_temporaries_of_processes_that_are_gone_are_removed_and_no_other_file(
    tmp_path: Path,
) -> None:
    def temporary(pid: int) -> Path:
        return tmp_path / f".mindsummary-{pid}-0123abcd.tmp"

    gone, gone_folder, beyond, mine = map(temporary, (2**22 + 1, 2**22 + 2, 2**80, os.getpid()))
    other = tmp_path / f"{gone.name}.npy"
    (gone_folder / "deeper").mkdir(parents=True)
    for path in (gone, beyond, mine, other, gone_folder / "deeper" / "file"):
        path.touch()

    remove_stale_temporaries(str(tmp_path))

    assert {*tmp_path.iterdir()} == {mine, other}
    remove_stale_temporaries(str(tmp_path / "not there"))
    remove_stale_temporaries(str(other))


def test_a_temporary_of_a_process_of_another_user_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = Path(temporary_name(str(tmp_path)))
    theirs.touch()
    refusing = mock.Mock(side_effect=PermissionError(errno.EPERM, "not yours"))
    monkeypatch.setattr(replace.os, "kill", refusing)

    remove_stale_temporaries(str(tmp_path))

    assert theirs.exists()
    refusing.assert_called_once_with(os.getpid(), 0)


def test_on_windows_no_process_gets_a_signal_and_only_its_own_temporaries_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = Path(temporary_name(str(tmp_path)))
    theirs = tmp_path / f".mindsummary-{os.getppid()}-0123abcd.tmp"
    mine.touch()
    theirs.touch()
    killed = mock.Mock()
    with monkeypatch.context() as patch:
        patch.setattr(replace.os, "kill", killed)
        patch.setattr(replace.os, "name", "nt")
        remove_stale_temporaries(str(tmp_path))

    assert (mine.exists(), theirs.exists()) == (True, False)
    assert not killed.called


def test_each_damaged_file_has_a_name_of_its_own(tmp_path: Path) -> None:
    path = str(tmp_path / "events.out.events.summary.17.0.h_MS")
    (tmp_path / ".damaged").mkdir()
    names = []
    for _ in range(3):
        kept = Path(damaged_path(path, "damaged"))
        kept.symlink_to("nowhere")
        names.append(kept.relative_to(tmp_path).as_posix())

    first = ".damaged/events.out.events.summary-17.0.h_MS.damaged"
    assert names == [first, f"{first}.1", f"{first}.2"]


def test_a_directory_that_cannot_be_synced_is_no_error(tmp_path: Path) -> None:
    real = os.open

    def refuse_directories(path: str, flags: int, *mode: int, **others: object) -> int:
        if os.path.isdir(path):
            raise OSError(errno.EINVAL, "no directories here")
        return real(path, flags, *mode, **others)

    with mock.patch.object(replace.os, "open", refuse_directories):
        replace_file(str(tmp_path / "file"), b"x")

    assert (tmp_path / "file").read_bytes() == b"x"


def test_the_temporary_name_is_none_that_the_reader_parses(tmp_path: Path) -> None:
    seen: list[str] = []
    with mock.patch.object(
        replace.os, "replace", lambda old, new: seen.append(os.path.basename(old))
    ):
        replace_file(str(tmp_path / "a.summary.1_lineage"), b"x")

    assert [
        (is_summary_name(name), is_lineage_name(name), name.endswith(".pb")) for name in seen
    ] == [(False,) * 3]
