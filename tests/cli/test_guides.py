"""Facts that the guides state about the command line."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import mindsummary

_DOCS = Path(__file__).parents[2] / "docs"


def _blocks(guide: str, language: str) -> list[str]:
    text = (_DOCS / guide).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def test_the_guide_lists_every_verb() -> None:
    from mindsummary_lightning.cli.arguments import VERBS

    text = (_DOCS / "command-line.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[?`(\w+)", text, re.MULTILINE)

    assert [verb for verb in listed if verb in VERBS][: len(VERBS)] == list(VERBS)


def test_the_guide_names_the_versions_that_are_installed() -> None:
    from tests.oracle.pins import PINS

    text = (_DOCS / "viewer.md").read_text(encoding="utf-8")

    assert text.count(" ".join(PINS)) == 1


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="needs a shell")
def test_completion_knows_the_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    from mindsummary_lightning.cli.arguments import VERBS

    (line,) = _blocks("command-line.md", "bash")
    found = re.search(r"\$\(mindsummary --help \| (awk '.*')\)", line)
    assert found is not None
    words = subprocess.run(
        found.group(1), shell=True, check=True, capture_output=True, text=True, input=mindsummary(capsys, "--help").out
    ).stdout.split()

    assert words == list(VERBS)
