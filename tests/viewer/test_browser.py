from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote

import pytest

from mindsummary_lightning.viewer import browser
from mindsummary_lightning.viewer.browser import opened_in_browser

pytestmark = pytest.mark.skipif(os.name == "nt", reason="$BROWSER is a custom of POSIX")


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that were started."""
    commands: list[list[str]] = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(browser.subprocess, "Popen", lambda command, **_: commands.append(command))
    monkeypatch.setattr(browser.webbrowser, "_tryorder", None)  # read the variable again
    return commands


@pytest.mark.parametrize(
    ("name", "is_opened"),
    [("a-browser", True), ("lynx", False), ("w3m %s", False), ("/x/links", False)],
)
def test_a_browser_for_a_terminal_is_not_opened(
    name: str,
    is_opened: bool,
    started: list[list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = tmp_path / "bin" / os.path.basename(name.split()[0])
    program.parent.mkdir()
    program.touch(0o700)
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setenv("BROWSER", name.replace("/x", str(program.parent)))

    with opened_in_browser("http://127.0.0.1:8080/token/#/summary-manage"):
        pages = list((tmp_path / "mindsummary-lightning").glob("*.html"))
        assert (len(started), len(pages)) == (is_opened, is_opened)
    assert list(tmp_path.rglob("*.html")) == []


def test_an_address_is_escaped_in_the_page_that_redirects(
    started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROWSER", "a-browser")

    with opened_in_browser('http://x/"><script>'):
        place = unquote(started[0][-1].removeprefix("file://"))
        page = Path(place).read_text(encoding="utf-8")

    assert "<script" not in page
