"""The Chinese pages keep step with the English ones: the same headings, the same code, the same
pictures and links.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

import pytest

from tests.docs.pages import ROOT, blocks, headings


def _contents(name: str) -> dict[str, list[str]]:
    """The pages of each table of contents in an index, by its caption."""
    found = re.findall(
        r"^```\{toctree\}\n:caption: ([^\n]*)\n:maxdepth: 1\n\n(.*?)^```$", _text(name), re.M | re.S
    )
    return {caption: pages.split() for caption, pages in found}


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


# The rule: every page has a Chinese sibling, but those under "Reference", which are for developers.
CONTENTS = {
    caption: pages
    for caption, pages in _contents("docs/index.md").items()
    if caption != "Reference"
}
GUIDES = ["index", *(page for pages in CONTENTS.values() for page in pages if page != "zh/index")]
TRANSLATIONS = {
    "README.md": "README_CN.md",
    **{f"docs/{page}.md": f"docs/zh/{page}.md" for page in GUIDES},
}
PICTURES = {
    f"docs/images/{name}.png": f"docs/images/{name}-zh.png"
    for name in ("first-block", "first-run-dashboard")
}

of_each = pytest.mark.parametrize(("original", "translation"), TRANSLATIONS.items())


def _targets(name: str) -> set[str]:
    """Files that a page shows or links to, seen from the root, by their English names, without each
    other.
    """
    found = re.findall(r"\]\(([^)\s#:]+)(?:#[^)]*)?\)", _text(name))
    same = {chinese: english for english, chinese in (TRANSLATIONS | PICTURES).items()}
    paths = [_normal(PurePosixPath(name).parent / target) for target in found]
    return {same.get(path, path) for path in paths} - set(TRANSLATIONS)


def _normal(path: PurePosixPath) -> str:
    parts: list[str] = []
    for part in path.parts:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


def test_the_chinese_index_lists_the_guides_of_the_english_one() -> None:
    assert list(_contents("docs/zh/index.md").values()) == [
        [page for page in pages if page != "zh/index"] for pages in CONTENTS.values()
    ]


@of_each
def test_a_page_and_its_translation_lead_to_each_other(original: str, translation: str) -> None:
    for name, language, other in (
        (original, "中文", translation),
        (translation, "English", original),
    ):
        link = re.search(rf"^\[{language}\]\((.*)\)$", _text(name), re.MULTILINE)
        assert link, f"{name} has no line with a link to {other}"
        assert _normal(PurePosixPath(name).parent / link[1]) == other


@of_each
def test_a_translation_has_the_headings_of_its_original(original: str, translation: str) -> None:
    assert headings(_text(translation)) == headings(_text(original))


@of_each
def test_a_translation_has_the_code_of_its_original(original: str, translation: str) -> None:
    assert _code(translation) == _code(original)


@of_each
def test_a_translation_leads_to_the_pages_of_its_original(original: str, translation: str) -> None:
    assert _targets(translation) == _targets(original)


@of_each
def test_a_translation_has_the_tables_of_its_original(original: str, translation: str) -> None:
    assert _rows(translation) == _rows(original)


@of_each
def test_a_translation_has_the_inline_code_of_its_original(original: str, translation: str) -> None:
    assert _inline_code(translation) == _inline_code(original)


def _prose(name: str) -> str:
    return re.sub(r"^```.*?^```$", "", _text(name), flags=re.MULTILINE | re.DOTALL)


def _rows(name: str) -> int:
    return len(re.findall(r"^\|", _prose(name), re.MULTILINE))


def _inline_code(name: str) -> set[str]:
    return set(re.findall(r"`([^`\n]+)`", _prose(name).replace("\n", " ")))


def _code(name: str) -> list[str]:
    text = _text(name)
    indented = re.findall(
        r"^    (\S.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL), re.M
    )
    return [*(block.code for block in blocks(text)), *indented]
