from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from mindsummary_lightning.viewer.api import ApiError, PageError
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from mindsummary_lightning.viewer.pages import what_went_wrong
from tests.porting.comparison.test_output_statistics import ORIGINAL, train
from tests.reading.runs import values_at, write_parameter_run, write_summary
from tests.viewer.pages.asking import ask


def _page(base: Path, **query: str) -> str:
    answer = ask(LoadedRuns(str(base)), "what-went-wrong", **query)
    assert answer.content_type == "text/html; charset=utf-8"
    content: bytes = answer.content
    return content.decode()


def test_the_first_gradient_that_is_not_finite_is_named_and_marked(tmp_path: Path) -> None:
    write_parameter_run(tmp_path / "a")

    page = _page(tmp_path, train_id="./a")

    assert "First not finite: gradient of last.weight at step 30." in page
    assert "The loss of that step is 0.0333333." in page
    marked = re.findall(r'<td class="(\w+)"[^>]*title="([^"]*)">([^<]*)', page)
    assert marked == [
        ("zero", "first.bias, 20: zero", "0"),
        ("lost", "last.weight, 30: not finite", "\u00d7"),
        ("lost", "last.weight, 40: not finite", "\u00d7"),
    ]
    assert 'title="first.weight, 10: 0.1"' in page


def test_the_first_module_that_is_not_finite_is_marked_in_its_step(tmp_path: Path) -> None:
    train(tmp_path / "a", ORIGINAL, {"active": lambda tensor: np.where(tensor > 0, np.nan, tensor)})

    page = _page(tmp_path, train_id="./a")

    assert "First value that is not finite: " in page
    (line,) = re.findall(r'<tr class="origin">.*?</tr>', page)
    assert "net.relu output" in line
    assert "Output statistics of step 1" in page
    assert "Output statistics of step 3" in _page(tmp_path, train_id="./a", step="3")


def test_a_run_in_which_all_is_finite_says_so(tmp_path: Path) -> None:
    train(tmp_path / "a", ORIGINAL)
    write_summary(tmp_path / "b", [values_at(1, {"loss": 1.0})])

    assert "All values of the recorded steps are finite." in _page(tmp_path, train_id="./a")
    assert "no recorded step" in _page(tmp_path, train_id="./b")


def test_rows_around_the_first_failure_of_a_large_step_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(what_went_wrong, "MAX_MODULES", 4)
    train(tmp_path / "a", ORIGINAL, {"out": lambda tensor: tensor * np.inf})

    page = _page(tmp_path, train_id="./a")

    assert re.search(r"4 of \d+ rows are shown.", page)
    assert page.count('class="origin"') == 1


def test_the_page_speaks_chinese_and_escapes_names(tmp_path: Path) -> None:
    write_parameter_run(tmp_path / "<b>", ("<i>", "x", "y"))

    page = _page(tmp_path, train_id="./<b>", language="zh")

    assert '<html lang="zh-CN">' in page
    assert "y" in page
    assert "\u68af\u5ea6" in page
    assert "<i>" not in page
    assert "<b>" not in page


def test_a_run_that_is_gone_is_answered_with_a_page(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    runs = LoadedRuns(str(tmp_path))

    with pytest.raises(PageError) as refused:
        ask(runs, "what-went-wrong", train_id="./gone")
    assert refused.value.status == 404
    assert b'<a href="../../runs">' in refused.value.page
    with pytest.raises(ApiError, match="'train_id' is required"):
        ask(runs, "what-went-wrong")
