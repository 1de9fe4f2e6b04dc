"""The file that names the rows of a table which grows."""

from __future__ import annotations

import json
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

from mindsummary_lightning.recording.event_files import FileOptions
from mindsummary_lightning.recording.row_descriptions import RowDescriptions
from mindsummary_lightning.recording.run_recorder import RunRecorder


def _encode(rows: Sequence[str]) -> bytes:
    return json.dumps([*rows]).encode()


def _descriptions(run: Path, *recorded: str, raises: bool = False) -> RowDescriptions[str]:
    recorder = RunRecorder(str(run), FileOptions(mode=0o640), raise_exception=raises)
    return RowDescriptions(recorder, "rows.json", _encode, recorded)


def test_the_file_is_written_again_with_all_rows_and_only_if_there_are_more(
    tmp_path: Path,
) -> None:
    path = tmp_path / "run" / "rows.json"
    rows = _descriptions(tmp_path / "run", "a", "b")

    rows.add(["a", "b"])
    assert (rows.recorded, path.parent.exists()) == (["a", "b"], False)
    rows.add(["a", "b", "c"])
    assert (rows.recorded, json.loads(path.read_bytes())) == (["a", "b", "c"], ["a", "b", "c"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    before = path.stat().st_ino
    rows.add(["a", "b", "c"])
    rows.add(["a"])
    assert (rows.recorded, path.stat().st_ino) == (["a", "b", "c"], before)
    rows.add(["a", "b", "c", "d", "e"])
    assert json.loads(path.read_bytes()) == ["a", "b", "c", "d", "e"]


def test_rows_are_kept_as_they_were_when_they_were_added(tmp_path: Path) -> None:
    rows, given = _descriptions(tmp_path), ["a"]
    rows.add(given)
    given.append("b")
    rows.add(given)

    assert json.loads((tmp_path / "rows.json").read_bytes()) == ["a", "b"]


def test_a_file_that_cannot_be_written_is_logged_by_its_name_and_raised_if_asked_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "run").touch()
    _descriptions(tmp_path / "run").add(["a"])

    (message,) = caplog.messages
    assert message.startswith(
        f"the rows in rows.json could not be recorded in {tmp_path / 'run'}: "
    )
    with pytest.raises(FileExistsError):
        _descriptions(tmp_path / "run", raises=True).add(["a"])
