"""The rows of the house: who may import whom, as pyproject.toml states it for import-linter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

_PROJECT = Path(__file__).parents[2]


def test_every_import_contract_is_kept() -> None:
    # In a process of its own: import-linter turns off every logger there is, and later tests listen
    # to ours.
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(command, cwd=_PROJECT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
