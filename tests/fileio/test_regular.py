from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from mindsummary_lightning.fileio.regular import files_below, open_regular, read_regular
from mindsummary_lightning.fileio.replace import replacement

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has none of them")


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        os.chdir(path.parent)  # a path of a socket may have 107 bytes
        listening.bind(path.name)


OTHERS: dict[str, Callable[[Path], object]] = {
    "a FIFO": os.mkfifo,
    "a FIFO, device or socket": _socket,
    "a symbolic link": lambda path: path.symlink_to("/dev/zero"),
    "a symbolic link, not": lambda path: path.symlink_to(path.parent / "nowhere"),
    "a symbolic link, not a regular": lambda path: path.symlink_to(path.parent / "theirs"),
    "directory": Path.mkdir,
}


@pytest.mark.timeout(10)
@pytest.mark.parametrize("mode", ["rb", "r+b", "ab"])
@pytest.mark.parametrize("kind", OTHERS)
def test_what_is_no_regular_file_is_refused_without_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, mode: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "theirs").write_bytes(b"theirs")
    OTHERS[kind](tmp_path / "file")
    open_descriptors = os.listdir("/dev/fd")

    with pytest.raises(OSError, match=kind) as caught:
        open_regular(str(tmp_path / "file"), mode)

    assert (caught.value.filename, os.listdir("/dev/fd")) == (
        str(tmp_path / "file"),
        open_descriptors,
    )
    assert (tmp_path / "theirs").read_bytes() == b"theirs"


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    for mode in ("rb", "r+b", "ab"):
        with pytest.raises(FileNotFoundError):
            open_regular(str(tmp_path / "file"), mode)
        with pytest.raises(FileNotFoundError):
            open_regular(str(tmp_path / "run" / "deep" / "file"), mode, root=str(tmp_path / "run"))
        with pytest.raises(FileNotFoundError):
            open_regular(str(tmp_path / "deep" / "file"), mode, root=str(tmp_path))
    assert os.listdir(tmp_path) == []


def test_what_is_small_by_nature_is_read_up_to_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")

    assert read_regular(str(path), max_size=7) == b"content"
    with pytest.raises(OSError, match="must have at most 6 bytes, got 7"):
        read_regular(str(path), max_size=6)
    os.truncate(path, 10 << 30)
    with pytest.raises(OSError, match="got 10737418240"):
        read_regular(str(path))


def test_the_root_may_be_a_link_and_no_directory_below_it(tmp_path: Path) -> None:
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "real" / "deep" / "file").write_bytes(b"content")
    (tmp_path / "run").symlink_to("real")
    (tmp_path / "real" / "linked").symlink_to("deep")
    root = str(tmp_path / "run")

    assert read_regular(f"{root}/deep/file", root=root) == b"content"
    with pytest.raises(
        OSError, match=r"symbolic link, which is not followed in a run directory: .*/run/linked'"
    ):
        read_regular(f"{root}/linked/file", root=root)
    with (
        pytest.raises(OSError, match="symbolic link, which is not followed in a run directory"),
        replacement(f"{root}/linked/new/file", root=root),
    ):
        pass
    assert os.listdir(tmp_path / "real" / "deep") == ["file"]


def test_a_path_and_its_root_may_be_relative(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run" / "deep").mkdir(parents=True)
    (tmp_path / "run" / "deep" / "file").write_bytes(b"content")
    monkeypatch.chdir(tmp_path)
    assert read_regular("run/deep/file", root="run") == b"content"
    assert read_regular("run/deep/file", root="") == b"content"
    monkeypatch.chdir(tmp_path / "run" / "deep")
    assert read_regular("file", root="") == b"content"


def test_a_tree_is_listed_without_its_directories_and_behind_no_link(tmp_path: Path) -> None:
    (tmp_path / "a" / "empty").mkdir(parents=True)
    (tmp_path / "a" / "file").write_bytes(b"content")
    (tmp_path / "file").write_bytes(b"more content")
    (tmp_path / "link").symlink_to("a")
    for number, name in enumerate(("a/file", "file", "link"), start=1):
        os.utime(tmp_path / name, ns=(7, number), follow_symlinks=False)

    assert files_below(str(tmp_path)) == {"a/file": (7, 1), "file": (12, 2), "link": (-1, 3)}
    assert files_below(str(tmp_path / "not there"), _refuse) == {}


def _refuse(error: OSError) -> None:
    raise error


def test_what_is_missing_below_the_root_is_made(tmp_path: Path) -> None:
    root = str(tmp_path / "run")
    with replacement(f"{root}/a/b/file", 0o640, root=root) as file:
        file.write(b"content")

    assert read_regular(f"{root}/a/b/file", root=root) == b"content"
    assert [
        os.listdir(tmp_path / "run" / "a" / "b"),
        (tmp_path / "run/a/b/file").stat().st_mode & 0o777,
    ] == [
        ["file"],
        0o640,
    ]
    with (
        pytest.raises(NotADirectoryError, match="/run/a/b/file'"),
        replacement(f"{root}/a/b/file/deeper", root=root),
    ):
        pass
