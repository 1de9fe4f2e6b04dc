"""``mindsummary view`` as a user runs it: every page in a browser, with data on each, and nothing left after Ctrl-C.

Three directories are looked at: the ``save_dir`` of the first-run page's own script, trained twice as the page says;
runs that a real MindSpore 2.7.0 wrote (``mindspore_runs/``, made by the script there; on a CPU it wrote something for
every page); and one run passed directly.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from mindsummary_lightning.mindinsight.process import running_servers
from tests.cli.command import mindsummary
from tests.cli.demo_run import write_demo_run
from tests.docs.pages import ROOT, blocks
from tests.mindinsight.view_process import View, viewing
from tests.oracle.browser import DASHBOARD_CARDS, PAGES, Browser, find_chromium, running_browser
from tests.oracle.mindinsight_server import PYTHON_VARIABLE, MindInsight, wait_until

_MINDSPORE_RUNS = Path(__file__).with_name("mindspore_runs")
_SECOND = ("model = Digits()", "model = Digits(hidden=16, learning_rate=0.3)")  # the first-run page's own change
_PRINTED = {
    "runs": "summary list",
    "model lineage": "model lineage",
    "data lineage": "data lineage",
    "dashboard": "dashboard",
    "scalars": "scalar",
    "histograms": "histogram",
    "images": "image",
    "tensors": "tensor",
    "graph": "graph",
    "dataset graph": "data graph",
    "loss landscape": "loss analysis",
}
_LOADED = ("scalar", "histogram", "image", "tensor", "graph", "optimized_graph", "loss_landscape")


@pytest.fixture(scope="module")
def python() -> str:
    python = os.environ.get(PYTHON_VARIABLE)
    if not python:
        pytest.skip(f"{PYTHON_VARIABLE} names no Python with MindInsight 2.3.1; `nox -s mindinsight` makes one")
    return python


@pytest.fixture(scope="module")
def first_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The save_dir that the script of docs/first-run.md leaves when it is run as the page says."""
    folder = tmp_path_factory.mktemp("first_run")
    (script,) = (block.code for block in blocks((ROOT / "docs/first-run.md").read_text()) if block.language == "python")
    for text in (script, script.replace(*_SECOND)):
        (folder / "first_run.py").write_text(text)
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, "first_run.py"], cwd=folder, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr[-3000:]
    return folder / "runs"


@dataclass(frozen=True)
class _Seen:
    """A directory as the command shows it.

    Attributes:
        train_ids: the runs in it.
    """

    view: View
    browser: Browser
    train_ids: tuple[str, ...]


@pytest.fixture(scope="module", params=["the first run's save_dir", "MindSpore's runs", "a single run"])
def seen(
    request: pytest.FixtureRequest, python: str, first_runs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[_Seen]:
    pytest.importorskip("selenium")
    if find_chromium() is None:
        pytest.skip("chromium and chromedriver are not on the PATH (Debian: apt-get install chromium chromium-driver)")
    folder = tmp_path_factory.mktemp("view")
    directory, train_ids = {
        "the first run's save_dir": (first_runs, ("./version_0", "./version_1")),
        "MindSpore's runs": (folder / "mindspore", ("./momentum_0.01", "./momentum_0.05")),
        "a single run": (first_runs / "digits" / "version_0", ("./",)),
    }[request.param]
    if not directory.exists():
        shutil.copytree(_MINDSPORE_RUNS, directory)  # as a user has it: below a directory of his own
    with viewing(directory, python, folder / "cache") as view:
        for train_id in train_ids:
            _wait_until_loaded(MindInsight(view.address, folder), train_id)
        with running_browser(view.address, folder / "profile") as browser:
            yield _Seen(view, browser, train_ids)
        assert (view.end(signal.SIGINT), view.processes()) == (0, {})


def _wait_until_loaded(server: MindInsight, train_id: str) -> None:
    server.wait_cached(train_id)
    server.wait_lineage(train_id)
    wait_until(
        lambda: all(server.plugins(train_id).get(kind) for kind in _LOADED),
        lambda: f"something of each of {_LOADED} in {train_id}; there is {server.plugins(train_id)}",
    )


@pytest.mark.parametrize("page", PAGES)
def test_every_page_is_drawn_with_its_data(page: str, seen: _Seen) -> None:
    is_of_a_run = bool(PAGES[page].run_parameter)

    seen.browser.open(page, seen.train_ids[0] if is_of_a_run else None)
    for card in DASHBOARD_CARDS.values() if page == "dashboard" else ():
        seen.browser.wait_drawn(card)

    shown = seen.browser.text()
    assert seen.browser.placeholders() == []
    assert is_of_a_run or [train_id for train_id in seen.train_ids if train_id not in shown] == []


def test_the_printed_addresses_are_those_of_the_pages(seen: _Seen) -> None:
    def address(page: str) -> str:
        run = f"?{PAGES[page].run_parameter}={seen.train_ids[0].replace('/', '%2F')}"
        return f"{seen.view.address}/#{PAGES[page].route}{run if PAGES[page].run_parameter else ''}"

    # With several runs it cannot know which one is meant.
    is_single = len(seen.train_ids) == 1
    expected = {name: address(page) for name, page in _PRINTED.items() if is_single or not PAGES[page].run_parameter}
    assert seen.view.addresses == expected


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_view_ends_well_and_leaves_nothing(number: signal.Signals, tmp_path: Path, python: str) -> None:
    write_demo_run(tmp_path / "version_0")
    with viewing(tmp_path, python, tmp_path / "cache") as view:
        assert len(view.processes()) > 2  # the command, the server, its worker

        code = view.end(number)

        assert (code, view.processes()) == (0, {})
        assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []


def test_a_proxy_and_a_python_path_do_not_reach_mindinsight(tmp_path: Path, python: str) -> None:
    write_demo_run(tmp_path / "runs" / "version_0")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "gunicorn.py").write_text("raise SystemExit('not the gunicorn that MindInsight needs')")
    path = os.pathsep.join([str(tmp_path / "elsewhere"), os.environ.get("PYTHONPATH", "")])
    variables = {"http_proxy": "http://127.0.0.1:9", "no_proxy": "", "PYTHONPATH": path}

    with viewing(tmp_path / "runs", python, tmp_path / "cache", variables) as view:
        assert set(MindInsight(view.address, tmp_path).train_jobs()) == {"./version_0"}


def test_a_view_is_stopped_from_another_terminal(
    tmp_path: Path, python: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_demo_run(tmp_path / "version_0")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with viewing(tmp_path, python, tmp_path / "cache") as view:
        status = mindsummary(capsys, "view", "--status")
        stop = mindsummary(capsys, "view", "--stop")

        assert status.out == f"{view.address} shows {tmp_path}\n"
        assert stop.out == f"{view.address} stopped {tmp_path}\n"
        assert view.process.wait(60) == 0
        assert view.processes() == {}
    assert running_servers() == []


def test_the_doctor_finds_nothing_broken(python: str, capsys: pytest.CaptureFixture[str]) -> None:
    answer = mindsummary(capsys, "doctor", python)

    assert (answer.code, "every page works" in answer.out) == (0, True)
