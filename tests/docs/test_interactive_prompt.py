"""The pages' code can be pasted into Python's prompt, where an empty line ends a class."""

from __future__ import annotations

import codeop
from pathlib import Path

import pytest

from tests.docs.page_code import runnable
from tests.docs.pages import ROOT, pages

_SAVED_AS_A_FILE = "first-run.md"


def _refused_line(code: str) -> str | None:
    """The line at which a prompt would refuse what is pasted, with its reason; ``None`` if it takes
    everything.
    """
    pending: list[str] = []
    for line in [*code.splitlines(), ""]:
        pending.append(line)
        try:
            statement = codeop.compile_command("\n".join(pending), symbol="single")
        except SyntaxError as error:
            return f"{line!r}: {error}"
        if statement is not None:
            pending = []
    return None


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_line_of_a_block_is_refused_by_a_prompt(page: Path) -> None:
    for block in runnable(page.read_text(encoding="utf-8")):
        if (
            block.language == "python"
            and ">>> " not in block.code
            and page.name != _SAVED_AS_A_FILE
        ):
            refused = _refused_line(block.code)
            assert refused is None, f"{page}:{block.line}: {refused}"
