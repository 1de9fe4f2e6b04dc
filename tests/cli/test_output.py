"""What a text takes on a terminal, and what is said beside the answer."""

from __future__ import annotations

import logging
import sys

import pytest

from mindsummary_lightning.cli.output import cells, cut, escaped_log, say_step, width
from tests.cli.command import on_a_terminal


@pytest.mark.parametrize(
    ("text", "columns"),
    [("", 0), ("loss", 4), ("\u00e9", 1), ("e\u0301", 1), ("\u635f\u5931", 4), ("\uff21", 2)],
    ids=["empty", "ascii", "accent", "combining accent", "wide", "full width"],
)
def test_a_wide_character_takes_two_columns_and_a_combining_one_none(
    text: str, columns: int
) -> None:
    assert cells(text) == columns


@pytest.mark.parametrize(
    ("most", "shown"), [(4, "loss"), (3, "lo\u2026"), (2, "l\u2026"), (1, "\u2026")]
)
def test_a_text_is_cut_to_the_columns_there_are(most: int, shown: str) -> None:
    assert cut("loss", most) == shown


def test_lines_are_as_wide_as_the_terminal_and_100_columns_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "61")
    assert width() == 100
    on_a_terminal(monkeypatch, 61)
    assert width() == 61


def test_a_step_is_said_to_a_terminal_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    say_step("reading")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    say_step("importing")

    assert capsys.readouterr() == ("", "importing ...\n")


def test_warnings_of_this_package_are_lines_without_control_characters(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    package = logging.getLogger("mindsummary_lightning")
    monkeypatch.setattr(package, "propagate", False)  # to the handlers of pytest
    before = list(package.handlers)

    with escaped_log():
        package.getChild("reading").warning("skipped %s", "a\x1b[2J\nb")
        package.getChild("reading").info("all is well")

    assert capsys.readouterr() == ("", "skipped a\\u001b[2J\\u000ab\n")
    assert package.handlers == before
