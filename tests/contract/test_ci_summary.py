"""The closing words of a CI run: one line that adds up all sessions, and before it what failed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

_SUMMARY = Path(__file__).parents[2] / ".ci" / "summary"
_GREEN = """\
119 passed in 4.84s
nox > Session protobuf_matrix was successful.
========== 3203 passed, 19 skipped, 166 warnings in 204.28s (0:03:24) ==========
"""
_RED = """\
119 passed in 4.84s
FAILED tests/a.py::test_b - AssertionError: 1 failed
=== 2 failed, 30 passed, 1 error in 3.20s ===
nox > * tests: failed, took 3 seconds
"""
_NO_TEST_RAN = "nox > * lint: failed, took 3 seconds\n"


@pytest.mark.parametrize(
    ("log", "status", "lines"),
    [
        (_GREEN, 0, ["3322 passed, 0 failed"]),
        (
            _RED,
            1,
            [
                "FAILED tests/a.py::test_b - AssertionError: 1 failed",
                "nox > * tests: failed, took 3 seconds",
                "149 passed, 3 failed",
            ],
        ),
        (_NO_TEST_RAN, 1, ["nox > * lint: failed, took 3 seconds", "0 passed, 1 failed"]),
    ],
    ids=["all passed", "some failed", "failed without a test"],
)
def test_the_last_line_adds_up_every_session(
    tmp_path: Path, log: str, status: int, lines: list[str]
) -> None:
    (tmp_path / "log").write_text(log, encoding="utf-8")
    command = ["bash", str(_SUMMARY), str(tmp_path / "log"), str(status)]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == lines
