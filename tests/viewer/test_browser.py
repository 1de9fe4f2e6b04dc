from __future__ import annotations

import os
import sys
from pathlib import Path
from subprocess import DEVNULL
from urllib.parse import unquote

import pytest

from mindsummary_lightning.viewer import browser
from mindsummary_lightning.viewer.browser import opened_in_browser

pytestmark = pytest.mark.skipif(os.name == "nt", reason="$BROWSER is a custom of POSIX")


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that were started."""
    commands: list[list[str]] = []
    # Ctrl-C ends the viewer and not the browser, which has no terminal to write to
    apart = {"start_new_session": True, **dict.fromkeys(("stdin", "stdout", "stderr"), DEVNULL)}

    def start(command: list[str], **options: object) -> None:
        assert options == apart
        commands.append(command)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(browser.subprocess, "Popen", start)
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


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS always has a browser")
def test_where_there_is_no_browser_nothing_is_opened(
    started: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BROWSER", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    with opened_in_browser("http://127.0.0.1:8080/"):
        assert (started, list(tmp_path.rglob("*"))) == ([], [])


def test_an_address_is_escaped_in_the_page_that_redirects(
    started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROWSER", "a-browser")

    with opened_in_browser('http://x/"><script>'):
        *command, place = started[0]
        file = Path(unquote(place.removeprefix("file://")))
        page, mode = file.read_text(encoding="utf-8"), file.stat().st_mode & 0o777

    assert command == [sys.executable, "-I", "-m", "webbrowser"]
    assert "<script" not in page
    address = "http://x/&quot;&gt;&lt;script&gt;"
    assert f'content="0; url={address}"><a href="{address}">{address}</a>' in page
    assert mode == 0o600  # it holds the token


def test_the_page_that_redirects_is_deleted_after_an_error(
    started: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROWSER", "a-browser")

    with pytest.raises(KeyError), opened_in_browser("http://x/"):
        raise KeyError

    assert len(started) == 1
    assert list(tmp_path.rglob("*.html")) == []
