"""The words of the package's own pages."""

from __future__ import annotations

import pytest

from mindsummary_lightning.cli import arguments
from mindsummary_lightning.values.page_words import HTML_LANGUAGES, page_words

_REPORT = "mindsummary_lightning.export.report", "report_zh.json"


def test_english_needs_no_words_as_templates_are_english() -> None:
    assert page_words("en", *_REPORT) == {}


def test_chinese_words_are_read_from_the_package() -> None:
    assert page_words("zh", *_REPORT)["Lineage"] == "溯源"


def test_another_language_is_refused() -> None:
    with pytest.raises(ValueError, match="language must be 'en' or 'zh', got 'fr'"):
        page_words("fr", *_REPORT)


def test_the_shell_offers_the_languages_that_pages_have() -> None:
    assert arguments.LANGUAGE[1]["choices"] == tuple(HTML_LANGUAGES)
