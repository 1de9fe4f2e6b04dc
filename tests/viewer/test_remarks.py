from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import threading
from pathlib import Path

import pytest

from mindsummary_lightning.viewer import remarks
from mindsummary_lightning.viewer.remarks import Remarks


def _note(path: str, first: int, count: int) -> None:
    noted = Remarks("/runs", path)
    for number in range(first, first + count):
        noted.update(f"./{number}", {"remark": str(number)})


@pytest.mark.slow
def test_two_viewers_that_save_at_one_moment_lose_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "remarks" / "x.json")
    context = multiprocessing.get_context("spawn")
    viewers = [context.Process(target=_note, args=(path, first, 30)) for first in (0, 30)]
    for viewer in viewers:
        viewer.start()
    for viewer in viewers:
        viewer.join(60)

    assert {
        train_id: added["remark"] for train_id, added in Remarks("/runs", path).all().items()
    } == {f"./{number}": str(number) for number in range(60)}


@pytest.mark.skipif(os.name == "nt", reason="files have locks elsewhere")
def test_a_viewer_that_holds_the_lock_for_too_long_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remarks, "LOCK_LIMIT_S", 0.0)
    noted = Remarks("/runs", str(tmp_path / "x.json"))
    with (
        remarks._file_lock(str(tmp_path / ".lock")),
        pytest.raises(TimeoutError, match=r"another viewer has locked .*\.lock"),
    ):
        noted.update("./a", {"tag": 1})
    assert noted.all() == {}


@pytest.mark.skipif(os.name == "nt", reason="files have locks elsewhere")
def test_a_viewer_waits_while_another_one_saves(tmp_path: Path) -> None:
    noted = Remarks("/runs", str(tmp_path / "x.json"))
    saving = threading.Thread(target=noted.update, args=("./a", {"tag": 1}))
    with remarks._file_lock(str(tmp_path / ".lock")):
        saving.start()
        saving.join(0.03)
        assert not (tmp_path / "x.json").exists()
    saving.join(30)

    assert noted.all() == {"./a": {"tag": 1}}


def test_a_viewer_keeps_what_another_one_has_saved_since_it_read(tmp_path: Path) -> None:
    one, other = (Remarks("/runs", str(tmp_path / "x.json")) for _ in range(2))
    one.update("./a", {"tag": 1})
    other.update("./b", {"remark": "of the other"})

    one.update("./a", {"remark": "of the one"})

    expected = {"./a": {"tag": 1, "remark": "of the one"}, "./b": {"remark": "of the other"}}
    assert one.all() == expected
    assert other.all() == expected


def test_the_file_of_a_directory_keeps_its_name_so_that_later_versions_find_the_remarks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remarks, "state_directory", lambda: str(tmp_path))
    remarks.remarks_of.cache_clear()

    remarks.remarks_of("/runs/ä").update("./a", {"tag": 1, "remark": "ü"})
    remarks.remarks_of("/runs/other").update("./a", {"tag": 2})
    remarks.remarks_of.cache_clear()

    name = hashlib.sha256("/runs/ä".encode()).hexdigest()[:32]
    file = tmp_path / "remarks" / f"{name}.json"
    saved = {"base_dir": "/runs/ä", "runs": {"./a": {"tag": 1, "remark": "ü"}}}
    assert json.loads(file.read_text(encoding="utf-8")) == saved
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"runs": 3}', '{"runs": {"./a": 3}}'])
def test_a_file_that_cannot_be_read_is_said_once_and_replaced_by_what_is_saved_next(
    content: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "x.json"
    file.write_text(content, encoding="utf-8")
    noted = Remarks("/runs", str(file))

    assert (noted.all(), noted.all()) == ({}, {})
    (said,) = caplog.messages
    assert said.startswith(f"the tags and remarks in {file} cannot be read: ")
    noted.update("./b", {"tag": 2})
    assert Remarks("/runs", str(file)).all() == {"./b": {"tag": 2}}


def test_a_file_that_is_deleted_or_changed_by_hand_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    noted = Remarks("/runs", str(file))
    noted.update("./a", {"tag": 1})
    saved = file.read_text(encoding="utf-8")

    file.unlink()
    assert noted.all() == {}
    file.write_text(saved.replace("./a", "./other"), encoding="utf-8")
    assert noted.all() == {"./other": {"tag": 1}}
