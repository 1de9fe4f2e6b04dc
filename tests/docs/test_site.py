"""The site builds, and nothing in it is a dead reference."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

pytestmark = pytest.mark.slow

pytest.importorskip("sphinx", reason="the dependency group 'docs' is not installed")


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-n", "-W", "--keep-going", "-q", "-d", str(tmp_path / "trees")]

    done = subprocess.run([*command, "docs", str(tmp_path / "site")], cwd=ROOT, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    changelog = (tmp_path / "site" / "changelog.html").read_text(encoding="utf-8")
    assert changelog.index(">Added<") < changelog.index(">Changed<") < changelog.index(">Fixed<")
    logger = (tmp_path / "site" / "reference" / "MindInsightLogger.html").read_text(encoding="utf-8")
    assert "0o600" in logger  # defaults as they are written
