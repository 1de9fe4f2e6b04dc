"""``--follow``: what stands on the terminal is drawn again in its place."""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.cli.command import mindsummary
from tests.reading.runs import values_at, write_summary

Follow: TypeAlias = "Callable[..., tuple[int, list[list[str]]]]"


def _screen(text: str) -> list[str]:
    """The lines that stand on a terminal of any height, below the command, after a text."""
    lines, row = ["$ mindsummary", ""], 1
    for part in re.split(r"(\x1b\[\??\d*[A-Za-z]|\n)", text):
        if part == "\n":
            row += 1
            lines += [""] * (row == len(lines))
        elif up := re.fullmatch(r"\x1b\[(\d+)F", part):
            row -= max(1, int(up[1]))  # a terminal takes 0 for 1
        elif part == "\x1b[J":
            lines = [*lines[:row], ""]
        elif part and not part.startswith("\x1b"):
            lines[row] = part
    assert lines[0] == "$ mindsummary"
    return lines[1:]


@pytest.fixture
def follow(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Follow:
    """Run a verb with ``--follow`` while things happen; the screen as it is before each of them."""

    def run(*words: object, actions: list[Callable[[], object]]) -> tuple[int, list[list[str]]]:
        text, screens = "", []

        def wait(seconds: float) -> None:
            nonlocal text
            text += capsys.readouterr().out
            screens.append(_screen(text))
            if not actions:
                raise KeyboardInterrupt
            actions.pop(0)()

        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setattr(
            shutil, "get_terminal_size", lambda default=(80, 24): os.terminal_size((80, 24))
        )
        monkeypatch.setattr(time, "sleep", wait)
        monkeypatch.setenv("NO_COLOR", "1")
        answer = mindsummary(capsys, *words, "--follow")
        assert answer.out.endswith("\x1b[?7h")  # long lines wrap again
        return answer.code, screens

    return run


def test_a_list_grows_in_its_place(tmp_path: Path, follow: Follow) -> None:
    def begin() -> None:
        write_summary(tmp_path / "a", [values_at(1, {"loss": 1.0})])

    def begin_another() -> None:
        write_summary(tmp_path / "b", [values_at(1, {"loss": 1.0, "acc": 1.0})])

    code, screens = follow("list", tmp_path, actions=[begin, begin_another])

    assert code == 0
    assert screens[0][0].startswith("no run in ")
    assert [len(screen) for screen in screens] == [2, 3, 4]  # with the line of the cursor
    assert [line.split("  ")[0] for line in screens[2][:3]] == ["run", "a", "b"]
    assert screens[2][2].endswith("2 scalar")


def test_a_page_shows_the_newest_values_and_is_no_longer_than_the_terminal(
    tmp_path: Path, follow: Follow
) -> None:
    path = write_summary(
        tmp_path, [values_at(1, {f"loss{number:02d}": 9.0 for number in range(40)})]
    )

    def grow() -> None:
        with path.open("ab") as file:
            file.write(values_at(2, {f"loss{number:02d}": 1.0 for number in range(40)}))

    code, screens = follow("show", tmp_path, actions=[grow])

    assert code == 0
    first, second = ([line for line in screen if "loss00" in line] for screen in screens)
    assert (first[0].split()[1:4], second[0].split()[1:4]) == (["1", "1", "9"], ["2", "2", "1"])
    assert second[0].endswith("█▁")
    assert [len(screen) for screen in screens] == [24, 24]


def test_damage_does_not_end_it(tmp_path: Path, follow: Follow) -> None:
    path = write_summary(tmp_path, [values_at(step, {"loss": 1.0}) for step in (1, 2, 3)])
    data = bytearray(path.read_bytes())
    data[-60] ^= 1
    path.write_bytes(data)

    code, screens = follow("show", tmp_path, actions=[])

    assert code == 0
    assert any("loss" in line for line in screens[0])
