"""Open the viewer's pages in a browser, without the token on a command line.

Every user of a machine can read the arguments of a process.

The browser is given a file that only this user may read, which redirects to the pages. The browser
starts in a separate process without a terminal: some browsers wait until they are closed, or fall
back to a browser that draws in the terminal.
"""

from __future__ import annotations

import contextlib
import html
import os
import subprocess
import sys
import webbrowser
from collections.abc import Iterator
from pathlib import Path

from mindsummary_lightning.fileio.replace import replace_file
from mindsummary_lightning.viewer.user_directories import cache_directory

_TEXT_BROWSERS = {
    "www-browser",
    "lynx",
    "links",
    "links2",
    "elinks",
    "w3m",
    "browsh",
    "netrik",
    "retawq",
}
_PAGE = (
    '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>MindInsight</title>'
    '<meta http-equiv="refresh" content="0; url={0}"><a href="{0}">{0}</a></html>\n'
)


@contextlib.contextmanager
def opened_in_browser(address: str) -> Iterator[None]:
    """Open an address in the user's graphical browser, for a ``with`` block.

    Nothing is opened if the default browser draws in a terminal. The redirecting file is deleted at
    the end of the block.

    Raises:
        OSError: the file cannot be written.
    """
    if not _has_browser():
        yield
        return
    path = os.path.join(cache_directory(), f"open-{os.getpid()}.html")
    replace_file(path, _PAGE.format(html.escape(address)).encode())
    try:
        subprocess.Popen(
            [sys.executable, "-I", "-m", "webbrowser", Path(path).as_uri()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C ends the viewer and not the browser
        )
        yield
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)


def _has_browser() -> bool:
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return False
    return os.path.basename(getattr(browser, "name", "")) not in _TEXT_BROWSERS
