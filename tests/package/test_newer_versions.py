"""The checks of the gate stay green when an upstream package publishes its next version."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.package.newer_versions import NEWER

ROOT = Path(__file__).parents[2]
# what reads versions, or states them; each package is trained with in it
_TESTS = (
    "tests/docs",
    "tests/package",
    "tests/contract/test_public_names.py",
    "tests/contract/test_sessions.py",
    "tests/contract/test_signatures.py",
    "tests/cli/test_doctor.py",
    "tests/trainer/test_trainer_info.py",
)


@pytest.mark.slow
def test_the_gate_stays_green_with_newer_versions(tmp_path: Path) -> None:
    plugin = ("-p", "tests.package.newer_versions")
    command = (sys.executable, "-m", "pytest", *plugin, "-m", "not slow", *_TESTS)
    ended = subprocess.run(
        [*command, f"--basetemp={tmp_path / 'tests'}"], cwd=ROOT, capture_output=True, text=True
    )

    assert f"stated versions: {NEWER}" in ended.stdout
    assert ended.returncode == 0, ended.stdout
