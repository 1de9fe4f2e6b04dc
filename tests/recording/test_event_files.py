"""``EventFiles``: a new file is later than every file of its directory, whoever made those."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mindsummary_lightning.fileformat.file_names import (
    MAX_TIMESTAMP,
    is_lineage_name,
    is_summary_name,
    timestamp_of,
)
from mindsummary_lightning.recording.event_files import EventFiles, FileOptions
from mindsummary_lightning.values import TrainInfo
from tests.reading.runs import values_at, write_lineage, write_summary
from tests.support import Clock, append_bytes, lineage_paths, whole_payloads

_NOW = 1_700_000_000


def _name(second: int, host: str = "elsewhere") -> str:
    return f"events.out.events.summary.{second}.{host}_MS"


def _created(files: EventFiles) -> int | None:
    file = files.create()
    second = timestamp_of(Path(file.path).name)
    file.close()
    return second


def test_a_file_of_another_host_in_this_second_makes_ours_a_second_later(tmp_path: Path) -> None:
    (tmp_path / _name(_NOW)).touch()

    files = EventFiles(str(tmp_path), FileOptions(), Clock(_NOW))

    assert timestamp_of(Path(files.expected_path()).name) == _NOW + 1
    assert _created(files) == _NOW + 1


def test_a_file_that_another_host_makes_after_our_second_was_chosen_makes_ours_later(
    tmp_path: Path,
) -> None:
    files = EventFiles(str(tmp_path), FileOptions(), Clock(_NOW))
    assert timestamp_of(Path(files.expected_path()).name) == _NOW
    (tmp_path / _name(_NOW)).touch()

    assert _created(files) == _NOW + 1


def test_the_path_that_is_expected_is_that_of_the_file_of_its_kind(tmp_path: Path) -> None:
    files = EventFiles(str(tmp_path), FileOptions(), Clock(_NOW))
    summary, lineage = files.expected_path(), files.expected_path(is_lineage=True)

    assert is_summary_name(Path(summary).name)
    assert is_lineage_name(Path(lineage).name)
    for path, is_lineage in ((summary, False), (lineage, True)):
        file = files.create(is_lineage)
        file.close()
        assert file.path == path


@pytest.mark.parametrize("second", [MAX_TIMESTAMP - 1, MAX_TIMESTAMP])
def test_a_clock_may_go_up_to_the_last_time_that_mindinsight_shows(
    tmp_path: Path, second: int
) -> None:
    assert _created(EventFiles(str(tmp_path), FileOptions(), Clock(second))) == second


@pytest.mark.parametrize(("second", "is_told"), [(_NOW + 100, False), (MAX_TIMESTAMP, True)])
def test_a_file_that_hides_all_new_ones_is_told_and_they_have_the_time_of_the_clock(
    tmp_path: Path, second: int, is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / _name(second)).touch()

    created = _created(EventFiles(str(tmp_path), FileOptions(), Clock(_NOW)))

    assert created == (_NOW if is_told else second + 1)
    assert ["MindInsight shows no new values" in line for line in caplog.messages] == (
        [True] * is_told
    )


def test_a_directory_whose_seconds_run_out_takes_no_new_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="the time in a file name must be at most") as raised:
        _created(EventFiles(str(tmp_path), FileOptions(), Clock(MAX_TIMESTAMP + 1)))

    assert raised.value.filename == str(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_names_of_new_files_have_their_options(tmp_path: Path) -> None:
    options = FileOptions(prefix="pre", suffix="_suf", mode=0o640)
    files = EventFiles(str(tmp_path / "deep" / "run"), options, Clock(_NOW))

    made = []
    for is_lineage in (False, True, False):
        file = files.create(is_lineage)
        file.append([b"content"])
        file.close()
        made.append(Path(file.path))
    host = socket.gethostname()
    assert [path.name for path in made] == [
        f"pre.out.events.summary.{_NOW}.0.{host}_suf",
        f"pre.out.events.summary.{_NOW}.0.{host}_lineage",
        f"pre.out.events.summary.{_NOW + 1}.0.{host}_suf",
    ]
    assert {path.stat().st_mode & 0o777 for path in made} == {0o640}
    assert {path.parent for path in made} == {tmp_path / "deep" / "run"}
    assert FileOptions().mode == 0o600


def test_the_newest_summary_file_is_given_if_it_is_one_of_ours(tmp_path: Path) -> None:
    files = EventFiles(str(tmp_path / "run"), FileOptions(), Clock(_NOW))
    assert files.newest_summary_file() is None
    assert (tmp_path / "run").is_dir()

    content = values_at(1, {"a": 1.0})
    older = write_summary(tmp_path / "run", [content], second=_NOW + 5)
    newer = write_summary(tmp_path / "run", [content, content], second=_NOW + 10)
    write_lineage(tmp_path / "run", [TrainInfo()], second=_NOW + 20)
    found = files.newest_summary_file()
    assert found is not None
    assert (found.path, found.size, found.records) == (str(newer), newer.stat().st_size, 0)
    newer.unlink()
    found = files.newest_summary_file()
    assert found is not None
    assert found.path == str(older)
    (tmp_path / "run" / _name(_NOW + 30)).write_bytes(b"theirs")
    assert files.newest_summary_file() is None


def test_unfinished_records_of_older_files_are_cut_once_for_each_directory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = tmp_path / "run"
    torn = [
        write_summary(run, [values_at(1, {"a": 1.0}), b"torn"], second=5),
        write_lineage(run, [TrainInfo(epoch=1)], second=6),
    ]
    append_bytes(torn[1], b"also torn")
    theirs, copy = run / _name(7), run / "copy_of_a_lineage_file"
    theirs.write_bytes(b"theirs")
    copy.write_bytes(torn[1].read_bytes())
    files = EventFiles(str(run), FileOptions(), Clock(_NOW))
    files.prepare()

    assert sorted(caplog.messages) == [
        f"cut {size} bytes of an unfinished record off the end of {path}. They are kept in the "
        "directory .damaged next to it"
        for size, path in sorted([(4, torn[0]), (9, torn[1])])
    ]
    assert len(whole_payloads(torn[0])) == 2
    assert len(whole_payloads(torn[1])) == 1
    assert theirs.read_bytes() == b"theirs"
    assert copy.read_bytes().endswith(b"also torn")
    append_bytes(torn[0], b"torn again")
    files.prepare()
    assert torn[0].read_bytes().endswith(b"torn again")
    files.check_again()
    files.prepare()
    assert len(whole_payloads(torn[0])) == 2
    assert len(caplog.messages) == 3


def test_a_lineage_file_of_the_second_counts_for_the_first_file_of_a_summary(
    tmp_path: Path,
) -> None:
    write_lineage(tmp_path, [TrainInfo()], second=_NOW + 9)
    write_summary(tmp_path, [], second=_NOW + 4)
    files = EventFiles(str(tmp_path), FileOptions(), Clock(_NOW))

    assert files.lineage_paths() == [str(path) for path in lineage_paths(tmp_path)]
    assert [_created(files), _created(files)] == [_NOW + 10, _NOW + 11]
    (tmp_path / _name(_NOW + 20)).touch()
    assert _created(files) == _NOW + 21
    files.reset_second()
    assert _created(files) == _NOW + 22


def test_where_a_directory_has_a_time_of_full_seconds_a_file_of_another_host_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def in_full_seconds(path: str, **options: Any) -> Any:
        found = real(path, **options)
        if path != str(tmp_path):
            return found
        facts = {name: getattr(found, name) for name in dir(found) if name.startswith("st_")}
        return SimpleNamespace(**{**facts, "st_mtime_ns": _NOW * 1_000_000_000})

    real = os.stat
    files = EventFiles(str(tmp_path), FileOptions(), Clock(_NOW))
    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", in_full_seconds)
        seconds = [_created(files)]
        for second in (_NOW + 50, _NOW + 60):
            (tmp_path / _name(second)).touch()
            files.reset_second()
            seconds.append(_created(files))

    assert seconds == [_NOW, _NOW + 51, _NOW + 61]
