"""The page of promises names the tests of each; each of those is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

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
