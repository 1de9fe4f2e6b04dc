"""``EventFiles``: a new file is later than every file of its directory, whoever made those."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindsummary_lightning.fileformat.file_names import (
    MAX_TIMESTAMP,
    is_lineage_name,
    is_summary_name,
    timestamp_of,
)
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
