from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from unittest import mock

import pytest

from mindsummary_lightning.fileformat.file_names import is_lineage_name, is_summary_name
from mindsummary_lightning.fileio import replace
from mindsummary_lightning.fileio.replace import replace_file


def test_a_file_is_made_and_then_replaced(tmp_path: Path) -> None:
    path = tmp_path / "file"
    replace_file(str(path), b"old")
    replace_file(str(path), b"new and longer")

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
