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

from mindsummary_lightning.cli.output import redraw
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
            shutil, "get_terminal_size", lambda fallback=(80, 24): os.terminal_size((80, 24))
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


@pytest.mark.parametrize(("took_s", "waits_s"), [(0.25, 2.0), (0.5, 2.5), (3.0, 15.0)])
def test_what_takes_long_is_drawn_more_seldom(
    took_s: float, waits_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, waited = 1000.0, []

    def work() -> list[str]:
        nonlocal now
        now += took_s
        return ["line"]

    def wait(seconds: float) -> None:
        nonlocal now
        now += seconds
        waited.append(seconds)
        if len(waited) == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sys.stdout, "isatty", lambda: True)
        patch.setattr(time, "monotonic", lambda: now)
        patch.setattr(time, "sleep", wait)
        answer = redraw(work, is_json=False)

    assert answer.code == 0
    assert waited == [waits_s] * 2


def test_a_terminal_of_another_size_is_cleared_and_filled_anew(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    heights, drawn = [4, 4, 4, 6], []

    def wait(seconds: float) -> None:
        drawn.append(capsys.readouterr().out)
        if not heights:
            raise KeyboardInterrupt

    def size(fallback: tuple[int, int] = (80, 24)) -> os.terminal_size:
        return os.terminal_size((80, heights.pop(0)))

    with monkeypatch.context() as patch:
        patch.setattr(sys.stdout, "isatty", lambda: True)
        patch.setattr(shutil, "get_terminal_size", size)
        patch.setattr(time, "sleep", wait)
        redraw(lambda: [str(number) for number in range(9)], is_json=False)

    three, five = ("".join(f"{number}\x1b[K\n" for number in range(most)) for most in (3, 5))
    assert drawn == [
        f"\x1b[?7l{three}\x1b[J",
        f"\x1b[3F{three}\x1b[J",
        f"\x1b[H\x1b[2J{five}\x1b[J",
    ]
    assert capsys.readouterr().out == "\x1b[?7h"


def test_damage_does_not_end_it(tmp_path: Path, follow: Follow) -> None:
    path = write_summary(tmp_path, [values_at(step, {"loss": 1.0}) for step in (1, 2, 3)])
    data = bytearray(path.read_bytes())
    data[-60] ^= 1
    path.write_bytes(data)

    code, screens = follow("show", tmp_path, actions=[])

    assert code == 0
    assert any("loss" in line for line in screens[0])
