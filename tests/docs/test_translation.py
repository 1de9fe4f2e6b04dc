"""The Chinese pages keep step with the English ones: the same headings, the same code, the same pictures and links."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

import pytest

from tests.docs.pages import ROOT, blocks, headings

TRANSLATIONS = {
    "README.md": "README_CN.md",
    "docs/install.md": "docs/zh/install.md",
    "docs/first-run.md": "docs/zh/first-run.md",
    "docs/logger.md": "docs/zh/logger.md",
    "docs/collector.md": "docs/zh/collector.md",
    "docs/lineage.md": "docs/zh/lineage.md",
    "docs/accelerators.md": "docs/zh/accelerators.md",
    "docs/is-my-port-right.md": "docs/zh/is-my-port-right.md",
    "docs/offline.md": "docs/zh/offline.md",
    "docs/operators.md": "docs/zh/operators.md",
    "docs/resume.md": "docs/zh/resume.md",
    "docs/which-layer.md": "docs/zh/which-layer.md",
    "docs/graphs.md": "docs/zh/graphs.md",
    "docs/reading.md": "docs/zh/reading.md",
    "docs/coming-from-mindspore.md": "docs/zh/coming-from-mindspore.md",
    "docs/viewer.md": "docs/zh/viewer.md",
    "docs/tensorboard.md": "docs/zh/tensorboard.md",
    "docs/recipes.md": "docs/zh/recipes.md",
    "docs/versions.md": "docs/zh/versions.md",
    "docs/remote.md": "docs/zh/remote.md",
    "docs/landscape.md": "docs/zh/landscape.md",
    "docs/command-line.md": "docs/zh/command-line.md",
}
PICTURES = {f"docs/images/{name}.png": f"docs/images/{name}-zh.png" for name in ("first-block", "first-run-dashboard")}

pytestmark = pytest.mark.parametrize(("original", "translation"), TRANSLATIONS.items())


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def _targets(name: str) -> set[str]:
    """Files that a page shows or links to, seen from the root, by their English names, without each other."""
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


def test_a_translation_has_the_headings_of_its_original(original: str, translation: str) -> None:
    assert headings(_text(translation)) == headings(_text(original))


def test_a_translation_has_the_code_of_its_original(original: str, translation: str) -> None:
    assert _code(translation) == _code(original)


def test_a_translation_leads_to_the_pages_of_its_original(original: str, translation: str) -> None:
    assert _targets(translation) == _targets(original)


def test_a_translation_has_the_tables_of_its_original(original: str, translation: str) -> None:
    assert _rows(translation) == _rows(original)


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
    indented = re.findall(r"^    (\S.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL), re.M)
    return [*(block.code for block in blocks(text)), *indented]
