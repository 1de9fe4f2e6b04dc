"""The site builds, and nothing in it is a dead reference."""

from __future__ import annotations

import importlib.util
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.docs.pages import ROOT
from tests.warm_processes import run_warm

pytestmark = pytest.mark.slow

pytest.importorskip("sphinx", reason="the dependency group 'docs' is not installed")


def build_site(words: list[str]) -> None:
    from sphinx.cmd.build import main

    sys.exit(main(words))


def test_the_site_builds_without_a_warning(tmp_path: Path, is_full: bool) -> None:
    builder = "html" if is_full else "text"  # in half of the time, with the same references
    options = ["-n", "-W", "--keep-going", "-q", "-b", builder, "-d", str(tmp_path / "trees")]

    done = run_warm(build_site, [*options, str(ROOT / "docs"), str(tmp_path / "site")])

    assert done.returncode == 0, done.stderr
    suffix = {"html": "html", "text": "txt"}[builder]
    changelog = (tmp_path / "site" / f"changelog.{suffix}").read_text(encoding="utf-8")
    assert "The first release" in changelog
    logger = (tmp_path / "site" / "reference" / f"MindInsightLogger.{suffix}").read_text(
        encoding="utf-8"
    )
    assert "0o600" in logger  # defaults as they are written


def test_fragments_of_changes_come_newest_first_above_the_last_release(tmp_path: Path) -> None:
    gather_changes = runpy.run_path(str(ROOT / "docs" / "conf.py"))["gather_changes"]
    (tmp_path / "changes").mkdir()
    for name, text in (
        ("0001.fixed", "old"),
        ("0002.fixed", "[new](../viewer.md)\nof two lines"),
        ("0003.added", "more"),
    ):
        (tmp_path / "changes" / f"{name}.md").write_text(f"{text}\n", encoding="utf-8")
    source = [(ROOT / "docs" / "changelog.md").read_text(encoding="utf-8")]

    gather_changes(SimpleNamespace(srcdir=tmp_path), "changelog", source)

    added = "## Since the last release\n\n### Added\n\n- more\n\n"
    assert f"{added}### Fixed\n\n- [new](viewer.md)\n  of two lines\n- old\n" in source[0]
    assert source[0].index("### Fixed") < source[0].index("## 0.1.0")


def test_without_pytorch_the_site_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    from sphinx.errors import ConfigError

    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "torch" else find(name)
    )

    with pytest.raises(
        ConfigError, match=r"need torch, which is not installed here: run .* install -e \."
    ):
        runpy.run_path(str(ROOT / "docs" / "conf.py"))
