"""Questions of a new user, each answered near the top of a page that the README links to."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import ROOT

_MOST_WORDS = 150
_ANSWERS = {  # words of the answer, by the page that gives it
    "resume": "ckpt_path=",
    "record-only-what-you-need": "collect_freq=100",
    "find-and-copy-files": "rsync -av",
    "choose-the-best-run": "--best val/loss",
    "find-the-mistakes-in-a-port": "PortCheck(",
}


@pytest.mark.parametrize(("page", "answer"), _ANSWERS.items())
def test_the_page_answers_at_its_top(page: str, answer: str) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    shown = re.sub(r"<!--[^>]*-->|\[中文\]\([^)]*\)", "", text)

    before, found, _ = shown.partition(answer)

    assert found
    assert len(before.split()) <= _MOST_WORDS


@pytest.mark.parametrize("page", _ANSWERS)
@pytest.mark.parametrize(("readme", "folder"), [("README.md", "docs"), ("README_CN.md", "docs/zh")])
def test_the_readme_links_to_it(page: str, readme: str, folder: str) -> None:
    assert f"]({folder}/{page}.md)" in (ROOT / readme).read_text(encoding="utf-8")
