"""``EventFiles``: a new file is later than every file of its directory, whoever made those."""

from __future__ import annotations

from pathlib import Path

from mindsummary_lightning.fileformat.file_names import timestamp_of
from mindsummary_lightning.recording.event_files import EventFiles, FileOptions
from tests.support import Clock

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
