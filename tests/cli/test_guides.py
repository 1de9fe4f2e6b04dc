"""Facts that the guides state about the command line."""

from __future__ import annotations

import re
from pathlib import Path

_DOCS = Path(__file__).parents[2] / "docs"


def test_the_guide_lists_every_verb() -> None:
    from mindsummary_lightning.cli.verbs import VERBS

    text = (_DOCS / "command-line.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[?`(\w+)", text, re.MULTILINE)

    assert [verb for verb in listed if verb in VERBS][: len(VERBS)] == list(VERBS)


def test_the_guide_names_the_versions_that_are_installed() -> None:
    from tests.oracle.pins import PINS

    text = (_DOCS / "viewer.md").read_text(encoding="utf-8")

    assert text.count(" ".join(PINS)) == 1
