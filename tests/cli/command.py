"""The command as a user runs it, in this process."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import pytest

from mindsummary_lightning.cli import main


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str


def mindsummary(capsys: pytest.CaptureFixture[str], *words: object) -> Answer:
    code = main([str(word) for word in words])
    captured = capsys.readouterr()
    return Answer(code, captured.out, captured.err)


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """Standard output is a terminal of so many columns and without colours."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
