from __future__ import annotations

import multiprocessing
import os
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


def test_a_viewer_keeps_what_another_one_has_saved_since_it_read(tmp_path: Path) -> None:
    one, other = (Remarks("/runs", str(tmp_path / "x.json")) for _ in range(2))
    one.update("./a", {"tag": 1})
    other.update("./b", {"remark": "of the other"})

    one.update("./a", {"remark": "of the one"})

    expected = {"./a": {"tag": 1, "remark": "of the one"}, "./b": {"remark": "of the other"}}
    assert one.all() == expected
    assert other.all() == expected
