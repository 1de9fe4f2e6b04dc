"""The project's pages and the code blocks in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

# An HTML comment just before the fence keeps a block from running and says why; readers do not see
# it.
_BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>not run): [^\n]* -->\n)?```(?P<language>\w+)[^\n]*\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        language: what follows the fence.
        code: its lines.
        line: of the page, where the code begins.
        mark: ``not run``, if a comment before it says so.
    """

    language: str
    code: str
    line: int
    mark: str | None


def pages() -> list[Path]:
    """Every page that is read on its own; a fragment of the changelog is not."""
    at_the_root = [ROOT / name for name in ("README.md", "README_CN.md", "CONTRIBUTING.md")]
    below = [
        page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name != "changes"
    ]
    return at_the_root + below


def english_pages() -> list[Path]:
    """Every page but the translations, whose code is compared with the originals'."""
    return [
        page
        for page in pages()
        if page.name != "README_CN.md" and "zh" not in page.relative_to(ROOT).parts
    ]


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    return [
        Block(
            match["language"],
            match["code"],
            text.count("\n", 0, match.start("code")) + 1,
            match["mark"],
        )
        for match in _BLOCK.finditer(text)
    ]


def headings(text: str) -> list[int]:
    """The levels of a page's headings, in order."""
    without_code = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return [len(marks) for marks in re.findall(r"^(#+) ", without_code, re.MULTILINE)]
