from __future__ import annotations

import re
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mindsummary_lightning.viewer import notebook, show
from tests.reading.runs import write_lineage, write_summary
from tests.viewer.small_frontend import SMALL_WHEEL


@pytest.fixture(autouse=True)
def _frontend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(notebook, "available_frontend", lambda say: SMALL_WHEEL)
    monkeypatch.delenv("JUPYTERHUB_SERVICE_PREFIX", raising=False)
    yield
    for shown in notebook._running.values():
        shown.close()


def _get(address: str) -> bytes:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(address) as answer:
        content: bytes = answer.read()
    return content


def test_a_cell_frames_the_pages_as_wide_as_they_need_and_links_to_them(tmp_path: Path) -> None:
    source = re.fullmatch(
        r'<a href="(\S+)#/summary-manage" target="_blank" rel="noopener">open in a tab</a>'
        r'<div style="overflow-x: auto"><iframe src="\1#/summary-manage" height="600" '
        r'style="border: 0; width: 100%; min-width: 1260px"></iframe></div>',
        show(tmp_path, height=600)._repr_html_(),
    )

    assert source is not None
    assert repr(show(tmp_path)) == f"Shown({source[1]!r})"
    assert b"MindInsight" in _get(source[1])
    assert b"enable_debugger" in _get(f"{source[1]}v1/mindinsight/ui-config")


@pytest.mark.parametrize("write", [write_summary, write_lineage])
def test_the_frame_of_one_run_opens_its_dashboard(
    write: Callable[..., Path], tmp_path: Path
) -> None:
    write(tmp_path, [])

    assert (
        "#/train-manage/training-dashboard?id=.%2F&amp;summaryPath=.%2F"
        in show(tmp_path)._repr_html_()
    )


def test_without_the_front_end_the_frame_shows_the_table_of_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notebook, "available_frontend", lambda say: None)
    write_summary(tmp_path, [])

    shown = show(tmp_path)

    assert f'src="{shown.address}runs"' in shown._repr_html_()
    assert b'src="runs.js"' in _get(f"{shown.address}runs")


def test_the_frame_is_of_no_use_without_its_token(tmp_path: Path) -> None:
    address = show(tmp_path).address

    for other in (address.rsplit("/", 2)[0], address.replace(address.split("/")[-2], "guess")):
        with pytest.raises(urllib.error.HTTPError, match="403"):
            _get(other)


def test_a_directory_that_is_shown_again_keeps_its_server(tmp_path: Path) -> None:
    assert show(tmp_path) is show(str(tmp_path))
    assert show(tmp_path).height == 800
    assert show(tmp_path, height=300).height == 300
    assert show(tmp_path).height == 800
    (tmp_path / "other").mkdir()
    assert show(tmp_path / "other").address != show(tmp_path).address


def test_close_ends_the_server_and_its_thread(tmp_path: Path) -> None:
    shown, between_threads = show(tmp_path), sys.getswitchinterval()
    started = [thread for thread in threading.enumerate() if thread.name == "mindsummary-view"]
    assert [thread.daemon for thread in started] == [True]  # it ends with the kernel
    shown.close()
    shown.close()

    assert not shown.is_running
    assert sys.getswitchinterval() == between_threads
    assert not [thread for thread in threading.enumerate() if thread.name == "mindsummary-view"]
    with pytest.raises(OSError, match="refused"):
        _get(shown.address)
    assert show(tmp_path).is_running


def test_under_jupyterhub_the_frame_goes_through_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTERHUB_SERVICE_PREFIX", "/user/me/")

    shown = show(tmp_path)

    assert re.fullmatch(r"/user/me/proxy/\d+/[\w-]{32}/", shown.address)
    shown.address = '/user/"me"/'
    assert shown._repr_html_().count("/user/&quot;me&quot;/#/summary-manage") == 2


def test_a_directory_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotADirectoryError, match="nowhere is not a directory"):
        show(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="height must be at least 1, not 0"):
        show(tmp_path, height=0)
    assert str(tmp_path) not in notebook._running
