"""The page of promises, and the pages of rules, name the tests of each; each of those is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import pages

_PROJECT = Path(__file__).parents[2]
_PAGE = (_PROJECT / "docs" / "development" / "promises.md").read_text(encoding="utf-8")


_NAMED = re.compile(r"`([\w/]*test_\w+\.py)`")


def test_each_test_that_the_page_names_is_there() -> None:
    named = _NAMED.findall(_PAGE)

    assert len(named) > 40
    assert [
        name
        for name in named
        if not any((_PROJECT / at / name).is_file() for at in ("", "tests/faults"))
    ] == []


@pytest.mark.parametrize("promises", ["Reliability", "Security"])
def test_each_promise_of_the_page_names_a_test(promises: str) -> None:
    section = re.split(r"^How |^## ", _PAGE.partition(f"\n## {promises}\n")[2], flags=re.M)[0]
    parts = re.split(r"^\d+\. ", section, flags=re.M)[1:]

    assert len(parts) > 8
    assert [part.splitlines()[0] for part in parts if not _NAMED.search(part)] == []


def test_each_promise_of_the_guide_is_on_the_page_of_tests() -> None:
    guide = (_PROJECT / "docs" / "reliability.md").read_text(encoding="utf-8")
    promised = re.findall(r"^\d+\. ", guide, re.M)

    assert promised
    assert promised == re.findall(r"^\d+\. ", _PAGE.partition("\n## Security")[0], re.M)


# Pages that state rules: those of a section end with a line "Tests: `tests/...`."
_PAGES_OF_RULES = (
    "resume",
    "reference/comparison",
    "reference/export",
    "reference/file-format",
    "reference/graphs",
    "reference/json",
    "reference/lineage-fields",
    "reference/mindinsight-limits",
    "reference/mindspore-callbacks",
    "reference/mindspore-classes",
    "reference/output-statistics",
    "reference/port-check-report",
    "reference/query-language",
    "reference/tensorboard",
    "reference/values",
)
_TESTS_OF_A_SECTION = re.compile(r"^(?:Tests: |测试：)((?:`[^`]*`[,.、。]\s*)+)$", re.MULTILINE)


def _named_tests(page: Path) -> list[list[str]]:
    """The tests that each section of a page names at its end."""
    lines = _TESTS_OF_A_SECTION.findall(page.read_text(encoding="utf-8"))
    return [re.findall(r"`([^`]*)`", line) for line in lines]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(_PROJECT).as_posix())
def test_each_test_that_any_page_names_by_its_path_is_there(page: Path) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)`", page.read_text(encoding="utf-8"))

    assert [name for name in named if not (_PROJECT / name).is_file()] == []


@pytest.mark.parametrize("name", _PAGES_OF_RULES)
def test_a_page_of_rules_names_their_tests_in_both_languages(name: str) -> None:
    page, translation = (_PROJECT / "docs" / part / f"{name}.md" for part in ("", "zh"))
    named = _named_tests(page)

    assert named
    assert all(re.fullmatch(r"tests/[\w/]+\.py", test) for tests in named for test in tests)
    if translation.exists():
        assert _named_tests(translation) == named
