from __future__ import annotations

from pathlib import Path

import pytest

from mindsummary_lightning.viewer.api import ApiError, PageError
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from tests.porting.comparison.test_verdict import write_run
from tests.viewer.pages.asking import ask


def test_two_runs_of_the_table_are_compared(tmp_path: Path) -> None:
    write_run(tmp_path / "a")
    write_run(tmp_path / "b", lambda step, name, tensor: tensor * (1.01 if step > 6 else 1.0))

    answer = ask(LoadedRuns(str(tmp_path)), "comparison", a="./a", b="./b")

    assert answer.content_type == "text/html; charset=utf-8"
    page = answer.content.decode()
    assert "from step 7, the loss agrees, tensors differ by up to" in page
    assert '<a href="../../runs#tick=.%2Fa&amp;tick=.%2Fb">' in page
    assert '<html lang="en"' in page
    in_chinese = ask(LoadedRuns(str(tmp_path)), "comparison", a="./a", b="./b", language="zh")
    assert '<html lang="zh-CN"' in in_chinese.content.decode()


@pytest.mark.parametrize(("a", "b"), [("./a", "./c"), ("./../a", "./a")])
def test_only_runs_of_the_list_are_compared(tmp_path: Path, a: str, b: str) -> None:
    write_run(tmp_path / "a")

    with pytest.raises(PageError, match="is not a run") as refused:
        ask(LoadedRuns(str(tmp_path)), "comparison", a=a, b=b, language="zh")
    side, wrong = ("a", a) if a != "./a" else ("b", b)
    assert str(refused.value) == f"Invalid parameter value. {side!r} is not a run."
    page = refused.value.page.decode()
    assert f"<h1>{wrong} " in page
    assert '<html lang="zh-CN">' in page
    with pytest.raises(ApiError, match="'b' is required"):
        ask(LoadedRuns(str(tmp_path)), "comparison", a="./a")


def test_a_damaged_run_is_named(tmp_path: Path) -> None:
    write_run(tmp_path / "a")
    (path,) = write_run(tmp_path / "b").iterdir()
    content = bytearray(path.read_bytes())
    content[200] ^= 1
    path.write_bytes(content)

    for language, shown in (("en", "The runs cannot be read: "), ("zh", '<html lang="zh-CN">')):
        with pytest.raises(PageError, match=r"cannot be compared.*summary") as refused:
            ask(LoadedRuns(str(tmp_path)), "comparison", a="./a", b="./b", language=language)
        assert refused.value.status == 400
        assert shown in refused.value.page.decode()
