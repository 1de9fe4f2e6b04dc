"""The pages that promise something name the tests of it; each of those is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_PROJECT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["reliability", "security"])
def test_each_test_that_a_page_names_is_there(page: str) -> None:
    text = (_PROJECT / "docs" / f"{page}.md").read_text()
    named = re.findall(r"`([\w/]*test_\w+\.py)`", text)

    assert len(named) > 5
    assert [name for name in named if not any((_PROJECT / at / name).is_file() for at in ("", "tests/faults"))] == []
