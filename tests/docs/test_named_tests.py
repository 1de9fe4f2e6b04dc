"""The pages that promise something name the tests of it; each of those is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_PROJECT = Path(__file__).parents[2]


_NAMED = re.compile(r"`([\w/]*test_\w+\.py)`")


@pytest.mark.parametrize("page", ["reliability", "security"])
def test_each_test_that_a_page_names_is_there(page: str) -> None:
    named = _NAMED.findall((_PROJECT / "docs" / f"{page}.md").read_text(encoding="utf-8"))

    assert len(named) > 5
    assert [
        name
        for name in named
        if not any((_PROJECT / at / name).is_file() for at in ("", "tests/faults"))
    ] == []


@pytest.mark.parametrize(
    ("page", "start", "promises"),
    [("reliability", r"^\d+\. ", "Promises"), ("security", "^##+ ", "")],
)
def test_each_promise_of_a_page_names_a_test(page: str, start: str, promises: str) -> None:
    text = (
        (_PROJECT / "docs" / f"{page}.md")
        .read_text(encoding="utf-8")
        .partition(f"## {promises}")[2]
    )
    parts = re.split(
        start,
        text.partition("\n## What is not promised" if promises else "\n## Reporting")[0],
        flags=re.M,
    )

    assert len(parts) > 8
    assert [
        part.splitlines()[0] for part in parts[bool(promises) :] if not _NAMED.search(part)
    ] == []
