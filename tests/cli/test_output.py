"""What a text takes on a terminal, and what is said beside the answer."""

from __future__ import annotations

import errno
import logging
import math
import re
import sys
from datetime import datetime
from pathlib import Path

import pytest

from mindsummary_lightning.cli.output import (
    Heading,
    cells,
    cut,
    error_line,
    escaped_log,
    progress_bar,
    readable_time,
    say,
    say_step,
    short_number,
    table_lines,
    width,
)
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
    ("most", "shown"),
    [(4, "loss"), (3, "lo\u2026"), (2, "l\u2026"), (1, "\u2026"), (0, "\u2026")],
)
def test_a_text_is_cut_to_the_columns_there_are(most: int, shown: str) -> None:
    assert cut("loss", most) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("net.12.weight", "net.\u2026ght"),
        ("net.weig", "net.weig"),
        ("\u635f\u5931\u635f\u5931abc", "\u635f\u5931\u2026abc"),
        ("abcd\u635f\u5931\u635f", "a\u2026\u635f\u5931\u635f"),
    ],
)
def test_a_cut_text_keeps_its_end(text: str, shown: str) -> None:
    assert cut(text, 8, end=3) == shown


@pytest.mark.parametrize(
    ("columns", "least", "lines"),
    [
        (6, 99, ["a", "cc", "not shown because the terminal is too narrow: bbb"]),
        (7, 99, ["a   bbb", "cc  d"]),
        (6, 2, ["a   b\u2026", "cc  d"]),
        (6, 3, ["a", "cc", "not shown because the terminal is too narrow: bbb"]),
        (1, 99, ["a", "\u2026", "not shown because the terminal is too narrow: bbb"]),
    ],
)
def test_a_table_has_the_columns_that_a_terminal_has_room_for(
    columns: int, least: int, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_a_terminal(monkeypatch, columns)

    assert list(table_lines([["a", "bbb"], ["cc", "d"]], least=least)) == lines


def test_numbers_and_times_that_are_missing_are_dashes() -> None:
    assert [short_number(number) for number in (None, 0.12345678, 1e-9, 3)] == [
        *("-", "0.123457", "1e-09", "3"),
    ]
    assert [readable_time(seconds) for seconds in (0.0, -1.0, 1e300, math.nan)] == ["-"] * 4
    assert readable_time(1.5) == f"{datetime.fromtimestamp(1):%Y-%m-%d %H:%M:%S}"


def test_a_heading_is_bold_on_a_terminal_that_can(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def said() -> list[str]:
        say(Heading("Scalars"))
        say("loss")
        return capsys.readouterr().out.splitlines()

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert said() == ["Scalars", "loss"]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert said() == ["\x1b[1mScalars\x1b[0m", "loss"]
    monkeypatch.setenv("TERM", "dumb")
    assert said() == ["Scalars", "loss"]
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert said() == ["Scalars", "loss"]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        (None, "no such file or directory"),
        ("{0}/none", "{0}/none: no such file or directory"),
        ("{0}/none/a", "{0}/none/a: there is no directory {0}/none"),
        ("c:/none/a", "c:/none/a: there is no directory c:/none"),
        ("s3://a/b", "s3://a/b must be a local path, got the address of a remote store"),
        (
            "ftp://me:pass@h/b",
            "ftp://***@h/b must be a local path, got the address of a remote store",
        ),
    ],
)
def test_a_missing_file_is_said_with_what_is_missing(
    name: str | None, line: str, tmp_path: Path
) -> None:
    named = () if name is None else (name.format(tmp_path),)
    error = FileNotFoundError(errno.ENOENT, "No such file or directory", *named)

    assert error_line(error) == line.format(tmp_path)
    assert error_line(FileNotFoundError("no run in x")) == "no run in x"


@pytest.mark.parametrize(
    ("unit", "meter"),
    [
        ("B", r"reading:  25%\|.*\| 25\.0/100 \[.*B/s\]"),
        (" runs", r"reading:  25%\|.*\| 25/100 \[.*runs.*\]"),
        ("%", r"reading: 25%\|[^|]*\| \[[\d:]+<[\d:?]+\]"),
    ],
)
def test_a_bar_shows_how_much_is_done(
    unit: str, meter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tqdm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)

    with progress_bar("reading", 100, unit) as advance:
        advance(10)
        advance(15)
        bar = advance.__self__  # type: ignore[attr-defined]

    assert re.fullmatch(meter, str(bar))
    assert not bar.leave


def test_without_tqdm_or_a_terminal_there_is_no_bar(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with progress_bar("reading", 100) as advance:
        assert advance(1) is None
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with progress_bar("reading", 100) as advance:
        assert advance(1) is None
    assert capsys.readouterr() == ("", "")


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
