"""The frame of our own pages: their language, the way back, and answers without a run."""

from __future__ import annotations

from mindsummary_lightning.values.text import Phrase
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


def test_texts_and_the_phrases_in_them_are_translated_and_escaped() -> None:
    text = "Output statistics of step {}"

    assert ENGLISH.phrase(text) == ENGLISH(text) == text
    assert ENGLISH(text, "<1>") == "Output statistics of step &lt;1&gt;"
    assert ENGLISH(text, Phrase("gradient")) == "Output statistics of step gradient"
    assert CHINESE.phrase("gradient") == CHINESE("gradient") == "\u68af\u5ea6"
    in_chinese = CHINESE(text, "<1>")
    assert in_chinese.replace("&lt;1&gt;", "{}") == CHINESE(text, "{}") != text
    assert CHINESE.phrase(Phrase(text, Phrase("gradient"))) == CHINESE(text, "\u68af\u5ea6")


def test_a_page_says_its_language_and_its_title_cannot_become_markup() -> None:
    page = page_of("<b>", "<main>\u8bad</main>", CHINESE).decode()

    assert page == (
        '<!DOCTYPE html>\n<html lang="zh-CN"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<title>&lt;b&gt;</title><link rel="stylesheet" href="../../page.css">'
        '<link rel="icon" href="data:,"></head><body><main>\u8bad</main></body></html>\n'
    )
    assert '<html lang="en">' in page_of("runs", "", ENGLISH).decode()


def test_the_way_back_ticks_the_runs_of_the_page() -> None:
    link = back_link(["./a&b", "./c"], ENGLISH)

    assert 'href="../../runs#tick=.%2Fa%26b&amp;tick=.%2Fc"' in link
    assert 'href="../../runs"' in back_link([], ENGLISH)
    assert "table of runs" in link
    assert "训练表" in back_link([], CHINESE)


def test_a_page_of_others_gets_the_way_back_at_its_beginning() -> None:
    rest = "<h1>different</h1><script>let page = '</head><body>';</script></body></html>"
    page = f"<html><head><title>x</title></head><body class='x'>{rest}"

    framed = with_back_link(page, ["./a"], ENGLISH)

    before, style, after = framed.partition("<style>")
    assert (before, after.partition("</style>")[2]) == (
        "<html><head><title>x</title>",
        f"</head><body class='x'>{back_link(['./a'], ENGLISH)}{rest}",
    )
    assert style


def test_a_run_that_is_gone_is_a_page_that_leads_back() -> None:
    error = missing_run("train_id", "./<i>", ENGLISH)

    assert (error.status, error.code) == (404, "50540002")
    assert str(error) == "Invalid parameter value. 'train_id' is not a run."
    assert error.page.startswith(b'<!DOCTYPE html>\n<html lang="en">')
    assert (
        b"<title>Invalid parameter value. &#x27;train_id&#x27; is not a run.</title>" in error.page
    )
    assert b"./&lt;i&gt; is not a run of this directory" in error.page
    assert b"../../runs" in error.page


def test_a_run_that_cannot_be_read_is_a_page_with_the_reason() -> None:
    error = unreadable_run("no permission", ENGLISH)

    assert (error.status, str(error)) == (400, "The runs cannot be compared: no permission")
    assert b"../../runs" in error.page
    assert b"The runs cannot be read: no permission" in error.page
