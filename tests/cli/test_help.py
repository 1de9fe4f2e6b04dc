"""The help of the command and of each verb, and what the guides state about them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import mindsummary_lightning
from mindsummary_lightning.cli.verbs import GROUPS, VERBS, verb_module
from tests.cli.command import mindsummary
from tests.oracle.pins import PINS

_DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("columns", [80, 60])
def test_no_line_of_a_help_is_wider_than_the_terminal(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))

    helps = {verb: mindsummary(capsys, *verb.split(), "--help") for verb in ("", *VERBS)}

    assert {answer.code for answer in helps.values()} == {0}
    assert [
        line for answer in helps.values() for line in answer.out.splitlines() if len(line) > columns
    ] == []
    longest = max(len(line) for line in helps[""].out.splitlines())
    assert columns - 8 < longest <= columns


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_says_its_name_what_it_is_for_two_examples_and_a_page(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text, _, more = mindsummary(capsys, verb, "--help").out.partition("examples:\n")

    assert callable(verb_module(verb).run)
    explained = " ".join(text.split()).replace("- ", "-")
    for names, options in verb_module(verb).ARGUMENTS:
        assert names[-1] in explained or options["metavar"] in explained
        begin = options["help"].partition("(")[0].partition("%")[0][:30]
        assert begin
        assert " ".join(begin.split()).replace("- ", "-") in explained
    assert text.startswith(f"usage: mindsummary {verb} ")
    assert " ".join(VERBS[verb].split())[:50] in " ".join(text.split())
    assert more.count(f"  mindsummary {verb}") == 2
    (page,) = re.findall("^more: (.*)", more, re.MULTILINE)
    assert (_DOCS / Path(page).name).is_file()


def test_help_and_version_are_words_too(capsys: pytest.CaptureFixture[str]) -> None:
    version, overview = (mindsummary(capsys, option) for option in ("--version", "--help"))

    assert version.out == f"mindsummary {mindsummary_lightning.__version__}\n"
    assert mindsummary(capsys, "-V") == mindsummary(capsys, "version") == version
    assert mindsummary(capsys, "help", "list") == mindsummary(capsys, "list", "--help")
    assert mindsummary(capsys, "help") == mindsummary(capsys) == overview
    assert "Exit codes" in overview.out
    assert [
        verb for verb in VERBS if not re.search(rf"^ +{verb}\b", overview.out, re.MULTILINE)
    ] == []
    groups = overview.out[overview.out.index("  --debug") :].split("\n\n")[1]
    listed: dict[str, list[str]] = {}
    for line in groups.splitlines():
        if not line.startswith(" "):
            listed[line.removesuffix(":")] = words = []
        elif not line.startswith("   "):
            words.append(line.split()[0])
    assert listed == {group: list(verbs) for group, verbs in GROUPS.items()}
    assert "Show, check, repair and convert MindInsight run directories." in overview.out


def test_the_guides_list_every_verb_and_name_the_versions_that_are_installed() -> None:
    listed = re.findall(
        r"^\| \[?`(\w+)", (_DOCS / "command-line.md").read_text(encoding="utf-8"), re.MULTILINE
    )

    assert [verb for verb in listed if verb in VERBS][: len(VERBS)] == list(VERBS)
    limits = (_DOCS / "reference" / "mindinsight-limits.md").read_text(encoding="utf-8")
    assert limits.count(" ".join(PINS)) == 1
