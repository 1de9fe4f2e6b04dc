"""The languages of our own pages, and their words."""

from __future__ import annotations

import json
from importlib.resources import files

HTML_LANGUAGES = {"en": "en", "zh": "zh-CN"}
"""The languages of a page, and their names in HTML."""


def page_words(language: str, package: str, chinese: str) -> dict[str, str]:
    """Return the words of a page by their templates.

    There are none for English, in which the templates are written.

    Args:
        language: ``"en"`` or ``"zh"``.
        package: the package whose page it is.
        chinese: JSON file of the Chinese words, in the package.

    Raises:
        ValueError: ``language`` has a different value.
    """
    if language not in HTML_LANGUAGES:
        raise ValueError(f"language must be 'en' or 'zh', got {language!r}")
    if language == "en":
        return {}
    words: dict[str, str] = json.loads((files(package) / chinese).read_text(encoding="utf-8"))
    return words
