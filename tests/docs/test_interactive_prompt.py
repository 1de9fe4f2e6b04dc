"""The pages' code can be pasted into Python's prompt, where an empty line ends a class."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.interactive_prompt import refused_line
from tests.docs.page_code import runnable
from tests.docs.pages import ROOT, pages

_SAVED_AS_A_FILE = "first-run.md"


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_line_of_a_block_is_refused_by_a_prompt(page: Path) -> None:
    for block in runnable(page.read_text(encoding="utf-8")):
        if block.language == "python" and ">>> " not in block.code and page.name != _SAVED_AS_A_FILE:
            refused = refused_line(block.code)
            assert refused is None, f"{page}:{block.line}: {refused}"
