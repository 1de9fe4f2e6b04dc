from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from unittest import mock

import pytest

from mindsummary_lightning.fileformat.framing import OVERHEAD, frame
from mindsummary_lightning.fileio import append
from mindsummary_lightning.fileio.append import RecordFile, try_lock
from tests.fileio.faulty import FaultyWrites
from tests.fileio.handles import open_handles

LARGE = 200_000  # bytes; beyond what is joined before it is written


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.summary.1_MS"


@pytest.fixture
def file(path: Path) -> RecordFile:
    return RecordFile(str(path))


def framed(*payloads: bytes) -> bytes:
    return b"".join(b"".join(frame([payload])) for payload in payloads)


def test_records_lie_behind_each_other(path: Path, file: RecordFile) -> None:
    file.append(frame([b"one"]))
    file.append(frame([b"t", b"wo"]))

    assert path.read_bytes() == framed(b"one", b"two")
    assert file.size == 38


@pytest.mark.parametrize("size", [1, 1000, LARGE])
def test_a_record_is_one_write(path: Path, file: RecordFile, size: int) -> None:
    with FaultyWrites() as writes:
        file.append(frame([b"head", bytes(size)]))

    assert writes.calls == 1
    assert path.read_bytes() == framed(b"head" + bytes(size))


def test_a_file_that_exists_is_left_alone(path: Path) -> None:
    path.write_bytes(b"somebody's")

    with pytest.raises(FileExistsError):
        RecordFile(str(path))
    assert path.read_bytes() == b"somebody's"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_the_mode_is_what_was_asked_for_whatever_the_umask(path: Path, mode: int) -> None:
    umask = os.umask(0)
    try:
        file = RecordFile(str(path), mode)
    finally:
        os.umask(umask)

    assert stat.S_IMODE(path.stat().st_mode) == mode
    file.close()


@pytest.mark.parametrize(("size", "at_most"), [(5, 1), (5, 7), (LARGE, 1000), (LARGE, 70_000)])
def test_short_writes_are_completed(path: Path, file: RecordFile, size: int, at_most: int) -> None:
    with FaultyWrites(at_most=at_most):
        file.append(frame([b"a", bytes(size), b"z"]))

    assert path.read_bytes() == framed(b"a" + bytes(size) + b"z")


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT, None])
def test_wherever_a_write_fails_the_file_ends_at_its_last_whole_record(
    path: Path, file: RecordFile, error: int | None
) -> None:
    file.append(frame([b"first"]))
    for room in range(len(b"second") + OVERHEAD):
        with FaultyWrites(room, error), pytest.raises(OSError) as raised:
            file.append(frame([b"second"]))
        assert path.read_bytes() == framed(b"first"), room
        assert raised.value.errno == (error or errno.EIO)
    file.append(frame([b"third"]))

    assert path.read_bytes() == framed(b"first", b"third")


def test_a_large_record_that_fails_in_the_middle_is_cut_off(path: Path, file: RecordFile) -> None:
    file.append(frame([bytes(LARGE)]))
    for room in (0, LARGE // 2, 0):
        with FaultyWrites(room=room, at_most=4096), pytest.raises(OSError, match="No space"):
            file.append(frame([bytes(LARGE)]))

    assert path.read_bytes() == framed(bytes(LARGE))


def test_an_interrupt_between_two_parts_of_a_record_leaves_no_part_of_it(
    path: Path, file: RecordFile
) -> None:
    file.append(frame([b"first"]))
    real = os.write
    with (
        mock.patch.object(append.os, "write", lambda descriptor, data: real(descriptor, data[:3])),
        mock.patch.object(append.os, "writev", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        file.append(frame([b"second"]))

    assert path.read_bytes() == framed(b"first")


def test_nothing_is_appended_behind_a_tear_that_could_not_be_cut(
    path: Path, file: RecordFile
) -> None:
    file.append(frame([b"first"]))
    with mock.patch.object(append.os, "ftruncate", side_effect=OSError(errno.EIO, "cannot cut")):
        with FaultyWrites(room=4), pytest.raises(OSError, match="No space"):
            file.append(frame([b"second"]))
        with pytest.raises(OSError, match="cannot cut"):
            file.append(frame([b"third"]))
    file.append(frame([b"fourth"]))

    assert path.read_bytes() == framed(b"first", b"fourth")


@pytest.mark.parametrize("size", [6, LARGE])
@pytest.mark.parametrize("left", [0, 7])
def test_a_failed_write_never_lengthens_a_file_that_somebody_has_cut(
    path: Path, file: RecordFile, size: int, left: int
) -> None:
    for _ in range(3):
        file.append(frame([b"whole"]))
    whole = path.read_bytes()
    os.truncate(path, left)
    for room, at_most in ((0, 9), (1, 9), (min(size, 70_000), LARGE), (14, 4)):
        with FaultyWrites(room, at_most=at_most), pytest.raises(OSError, match="No space"):
            file.append(frame([bytes(size)]))
        assert path.read_bytes() == whole[:left], room
    assert not file.is_intact()


def test_a_deleted_file_is_noticed(path: Path, file: RecordFile) -> None:
    assert file.is_intact()
    path.unlink()

    assert not file.is_intact()


def test_a_file_whose_path_leads_elsewhere_is_noticed_although_its_handle_works(
    path: Path, file: RecordFile
) -> None:
    file.begin(frame([b"format"]))
    file.append(frame([b"one"]))
    path.rename(path.with_name("elsewhere"))
    assert not file.is_intact()
    path.symlink_to("elsewhere")
    assert not file.is_intact()
    path.unlink()
    path.write_bytes(b"somebody's")
    assert not file.is_intact()

    assert not file.reopen()
    assert file.missing() == append.MissingRecords(1, is_removed=True)
    for theirs in (
        framed(b"theirs", b"one"),
        framed(b"format")[:9],
        b"",
    ):  # the first as long as ours
        path.write_bytes(theirs)
        assert not file.reopen()
        assert file.missing() == append.MissingRecords(1, is_removed=True)


def test_a_file_whose_first_record_is_not_known_is_told_by_its_inode_alone(
    path: Path, file: RecordFile
) -> None:
    file.append(frame([b"one"]))
    path.rename(path.with_name("elsewhere"))
    path.write_bytes(framed(b"two"))

    assert not file.reopen()


@pytest.mark.parametrize(
    "error", [errno.ETIMEDOUT, errno.EIO, errno.EACCES], ids=errno.errorcode.get
)
def test_a_path_that_does_not_answer_leaves_a_handle_that_works(
    path: Path, file: RecordFile, error: int
) -> None:
    with mock.patch.object(append.os, "stat", side_effect=OSError(error, "no answer")):
        assert file.is_intact()
    away = mock.patch.object(append.os, "stat", side_effect=OSError(errno.ETIMEDOUT, "away"))
    with away, pytest.raises(OSError, match="away"):
        file.reopen()
    file.append(frame([b"one"]))

    assert path.read_bytes() == framed(b"one")


@pytest.mark.parametrize("is_taken", [False, True])
def test_a_descriptor_that_other_code_closed_is_theirs_from_then_on(
    path: Path, file: RecordFile, is_taken: bool
) -> None:
    file.append(frame([b"one"]))
    (descriptor,) = open_handles(path.stat())
    with path.with_name("theirs").open("wb") as theirs:
        os.close(descriptor)
        if is_taken:
            os.dup2(theirs.fileno(), descriptor)
        assert not file.is_intact()
        with pytest.raises(OSError, match="Bad file descriptor"):
            file.append(frame([b"two"]))
        os.dup2(theirs.fileno(), descriptor)
    file.close()
    os.write(descriptor, b"theirs")
    os.close(descriptor)

    assert path.with_name("theirs").read_bytes() == b"theirs"
    assert path.read_bytes() == framed(b"one")


def test_a_closed_file_writes_nothing_into_the_file_that_has_its_descriptor_now(
    path: Path, file: RecordFile
) -> None:
    file.append(frame([b"one"]))
    (descriptor,) = open_handles(path.stat())
    file.close()
    theirs = os.open(path.with_name("theirs"), os.O_CREAT | os.O_WRONLY)
    os.dup2(theirs, descriptor)
    for size in (3, LARGE):
        with pytest.raises(OSError, match="Bad file descriptor"):
            file.append(frame([bytes(size)]))
    for each in {theirs, descriptor}:
        os.close(each)

    assert path.with_name("theirs").read_bytes() == b""
    assert path.read_bytes() == framed(b"one")


def test_a_copy_under_another_inode_goes_on_as_the_file(path: Path, file: RecordFile) -> None:
    file.begin(frame([b"format"]))
    file.append(frame([b"one"]))
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)
    assert not file.is_intact()
    assert file.reopen()
    file.append(frame([b"two"]))

    assert path.read_bytes() == framed(b"format", b"one", b"two")


def tear(file: RecordFile) -> None:
    """Fail to append a record, of which the first four bytes stay in the file."""
    with (
        mock.patch.object(append.os, "ftruncate", side_effect=OSError(errno.EIO, "dead")),
        FaultyWrites(room=4, error=errno.EIO, at_most=4),
        pytest.raises(OSError),
    ):
        file.append(frame([b"second"]))


def test_what_stands_behind_a_record_that_failed_is_cut_off_through_the_new_handle(
    path: Path, file: RecordFile
) -> None:
    file.append(frame([b"first"]))
    tear(file)
    assert path.read_bytes() != framed(b"first")
    assert file.reopen()
    file.append(frame([b"third"]))

    assert path.read_bytes() == framed(b"first", b"third")


@pytest.mark.parametrize(("left", "missing"), [(0, 3), (22, 3), (41, 2), (60, 1), (79, 0)])
def test_the_records_that_a_cut_file_lacks_are_counted(
    path: Path, file: RecordFile, left: int, missing: int
) -> None:
    file.begin(frame([b"format"]))  # 22 bytes
    for _ in range(3):
        file.append(frame([b"one"]))  # 19 bytes
    os.truncate(path, left)

    end = left if not missing else 22 + 19 * (3 - missing) if left else 0
    assert file.missing() == append.MissingRecords(missing, end=end if missing else 0)


def test_a_tear_of_which_a_part_is_lost_is_cut_off_and_no_record_before_it(
    path: Path, file: RecordFile
) -> None:
    file.append(frame([b"first"]))
    tear(file)
    os.truncate(path, file.size + 2)
    assert file.reopen()
    file.append(frame([b"third"]))

    assert path.read_bytes() == framed(b"first", b"third")


def test_of_a_file_that_is_continued_only_what_was_appended_can_be_missing(path: Path) -> None:
    path.write_bytes(framed(b"format", b"1", b"2"))
    file = RecordFile.existing(str(path), framed(b"format"))
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.append(frame([b"not open"]))
    assert (file.size, file.records) == (22 + 17 * 2, 0)
    assert file.missing() == append.MissingRecords()

    assert file.reopen()
    for payload in (b"3", b"4", b"5"):
        file.append(frame([payload]))
    assert (file.size, file.records) == (22 + 17 * 5, 3)
    assert path.read_bytes() == framed(b"format", b"1", b"2", b"3", b"4", b"5")
    for records, missing in ((4, 1), (3, 2), (2, 3), (1, 3)):
        os.truncate(path, 22 + 17 * records + 3)
        assert file.missing() == append.MissingRecords(missing, end=22 + 17 * records)
    path.unlink()
    assert file.missing() == append.MissingRecords(3, is_removed=True)


def test_a_file_that_grows_before_it_is_continued_is_left_as_it_is(path: Path) -> None:
    path.write_bytes(framed(b"format", b"1"))
    file = RecordFile.existing(str(path), framed(b"format"))
    with path.open("ab") as other:
        other.write(framed(b"theirs"))

    assert not file.reopen()
    assert path.read_bytes() == framed(b"format", b"1", b"theirs")


def test_a_closed_file_goes_on_where_it_was(path: Path, file: RecordFile) -> None:
    file.append(frame([b"one"]))
    file.close()
    file.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.append(frame([b"not open"]))
    assert file.reopen()
    file.append(frame([b"two"]))

    assert path.read_bytes() == framed(b"one", b"two")


@pytest.mark.parametrize("what_happened", ["deleted", "grown", "locked"])
def test_a_file_that_is_not_ours_any_more_is_not_reopened(
    path: Path, file: RecordFile, what_happened: str
) -> None:
    file.append(frame([b"one"]))
    with FaultyWrites(room=3), pytest.raises(OSError, match="No space"):
        file.append(frame([b"cut back"]))
    file.close()
    with path.open("ab", buffering=0) as other:
        if what_happened == "deleted":
            path.unlink()
        elif what_happened == "grown":
            other.write(b"x")
        else:
            assert try_lock(other.fileno())

        assert not file.reopen()


@pytest.mark.parametrize("way", ["discarded", "dropped"])
@pytest.mark.parametrize("what", ["empty", "a record", "somebody's"])
def test_a_file_that_is_given_up_is_closed_and_an_empty_one_deleted(
    path: Path, way: str, what: str
) -> None:
    file = RecordFile(str(path))
    status = path.stat()
    if what == "a record":
        file.append(frame([b"one"]))
    elif what == "somebody's":
        path.rename(path.with_name("elsewhere"))
        path.touch()
    if way == "discarded":
        file.discard()
        with pytest.raises(OSError, match="Bad file descriptor"):
            file.append(frame([b"two"]))
    del file

    assert path.exists() == (what != "empty")
    assert open_handles(status) == []


def test_a_record_may_have_more_parts_than_a_system_takes_at_once(
    path: Path, file: RecordFile
) -> None:
    parts = [bytes([number % 251]) for number in range(3000)]
    file.append(parts)

    assert (path.read_bytes(), file.size, file.records) == (b"".join(parts), 3000, 1)


def test_a_live_file_is_locked_and_a_closed_one_is_not(path: Path, file: RecordFile) -> None:
    with path.open("ab") as other:
        assert try_lock(other.fileno()) is False
        file.close()
        assert try_lock(other.fileno()) is True


def test_a_file_system_without_locks_is_told_from_a_lock_that_is_taken(path: Path) -> None:
    with (
        path.open("wb") as file,
        mock.patch.object(append.fcntl, "flock", side_effect=OSError(errno.ENOLCK, "none")),
    ):
        assert try_lock(file.fileno()) is None


def test_records_are_written_where_there_are_no_locks(path: Path) -> None:
    with mock.patch.object(append, "fcntl", None):
        RecordFile(str(path)).append(frame([b"one"]))

    assert path.read_bytes() == framed(b"one")
