"""Whole screens at the widths of two terminals, of runs that a real MindSpore wrote, as text in
``screens/``.

A change of a verb's output shows there as a difference to read; what it prints now is in the
failing test's message.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import mindsummary, on_a_terminal

_SCREENS = Path(__file__).with_name("screens")
_RUNS = Path(__file__).parents[1] / "oracle" / "mindspore_runs"
_COMMANDS = {
    "list": ("list", "runs"),
    "show": ("show", "runs/momentum_0.01"),
    "lineage": ("lineage", "runs", "--sort", "loss"),
    "compare": ("compare", "runs/momentum_0.01", "runs/momentum_0.05"),
}


@pytest.fixture(autouse=True)
def _runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for run in sorted(path for path in _RUNS.iterdir() if path.is_dir()):
        shutil.copytree(run, tmp_path / "runs" / run.name)
    for path in (tmp_path / "runs").rglob("*"):
        os.utime(path, (1700000000, 1700000000))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TZ", "UTC")
    if hasattr(time, "tzset"):
        time.tzset()
    yield
    monkeypatch.undo()
    if hasattr(time, "tzset"):
        time.tzset()


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the time zone cannot be set")
@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("verb", _COMMANDS)
def test_a_screen_is_as_it_was(
    verb: str, columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_a_terminal(monkeypatch, columns)

    printed = mindsummary(capsys, *_COMMANDS[verb]).out

    assert printed == (_SCREENS / f"{verb}-{columns}.txt").read_text(encoding="utf-8")
    if verb in ("list", "show"):  # the others end with a sentence
        assert max(map(len, printed.splitlines())) <= columns
