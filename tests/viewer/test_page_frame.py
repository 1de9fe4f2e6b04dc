"""The frame of our own pages: their language, the way back, and answers without a run."""

from __future__ import annotations

from mindsummary_lightning.viewer.api import ApiRequest
from mindsummary_lightning.viewer.page_frame import (
    PageWords,
    back_link,
    is_chinese,
    missing_run,
    page_of,
    unreadable_run,
    with_back_link,
)

ENGLISH, CHINESE = PageWords(False), PageWords(True)


def test_a_page_is_chinese_only_if_it_is_asked_for() -> None:
    assert is_chinese(ApiRequest({"language": ["zh"]}))
    assert not is_chinese(ApiRequest({"language": ["en"]}))
    assert not is_chinese(ApiRequest())


def test_a_page_says_its_language_and_its_title_cannot_become_markup() -> None:
    page = page_of("<b>", "<main></main>", CHINESE).decode()

    assert '<html lang="zh-CN">' in page
    assert "<title>&lt;b&gt;</title>" in page
    assert '<html lang="en">' in page_of("runs", "", ENGLISH).decode()


def test_the_way_back_ticks_the_runs_of_the_page() -> None:
    link = back_link(["./a&b", "./c"], ENGLISH)

    assert 'href="../../runs#tick=.%2Fa%26b&amp;tick=.%2Fc"' in link
    assert 'href="../../runs"' in back_link([], ENGLISH)
    assert "table of runs" in link
    assert "训练表" in back_link([], CHINESE)


def test_a_page_of_others_gets_the_way_back_at_its_beginning() -> None:
    page = "<html><head></head><body class='x'><h1>different</h1></body></html>"

    framed = with_back_link(page, ["./a"], ENGLISH)

    assert framed.index("<body class='x'><nav") < framed.index("<h1>")
    assert framed.index("<style>") < framed.index("</head>")


def test_a_run_that_is_gone_is_a_page_that_leads_back() -> None:
    error = missing_run("train_id", "./<i>", ENGLISH)

    assert error.status == 404
    assert b"./&lt;i&gt; is not a run of this directory" in error.page
    assert b"../../runs" in error.page


def test_a_run_that_cannot_be_read_is_a_page_with_the_reason() -> None:
    error = unreadable_run("no permission", ENGLISH)

    assert error.status == 400
    assert b"The runs cannot be read: no permission" in error.page
