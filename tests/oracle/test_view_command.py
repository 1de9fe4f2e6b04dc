"""``mindsummary view`` as a user runs it: every page in a browser, with data on each, and no
complaint of its scripts.

Three directories are looked at: the ``save_dir`` of the first-run page's own script, trained twice
as the page says; runs that a real MindSpore 2.7.0 wrote (``mindspore_runs/``, made by the script
there; on a CPU it wrote something for every page); and one run passed directly.
``test_side_by_side`` opens every page of MindSpore's runs beside the real one, and the pages of
single values draw alike whatever wrote them: without ``--full`` those are opened that show several
runs or several kinds.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks
from tests.oracle.browser import DASHBOARD_CARDS, PAGES, Browser, running_browser
from tests.viewer.view_process import View, viewing
from tests.warm_processes import environment

_MINDSPORE_RUNS = Path(__file__).with_name("mindspore_runs")
# the first-run page's own change
_SECOND = ("model = Digits()", "model = Digits(hidden=16, learning_rate=0.3)")
_SAVE_DIR, _MINDSPORE, _SINGLE = "the first run's save_dir", "MindSpore's runs", "a single run"
_OPENED = ("dashboard", "model lineage")
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


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's cache; the first start fetches the front end."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def first_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The save_dir that the script of docs/first-run.md leaves when it is run as the page says."""
    folder = tmp_path_factory.mktemp("first_run")
    (script,) = (
        block.code
        for block in blocks((ROOT / "docs/first-run.md").read_text(encoding="utf-8"))
        if block.language == "python"
    )
    (folder / "first_run.py").write_text(script, encoding="utf-8")
    (folder / "changed.py").write_text(script.replace(*_SECOND), encoding="utf-8")
    both = (
        "import runpy; [runpy.run_path(name, run_name='__main__') for name in ('first_run.py', "
        "'changed.py')]"
    )
    done = subprocess.run(
        [sys.executable, "-c", both], cwd=folder, env=environment(), capture_output=True, text=True
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


@pytest.fixture(
    scope="module", params=[_SAVE_DIR, pytest.param(_MINDSPORE, marks=pytest.mark.long), _SINGLE]
)
def seen(
    request: pytest.FixtureRequest, cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[_Seen]:
    folder = tmp_path_factory.mktemp("view")
    if request.param == _MINDSPORE:
        directory, train_ids = folder / "mindspore", ("./momentum_0.01", "./momentum_0.05")
        # as a user has it: below a directory of his own
        shutil.copytree(_MINDSPORE_RUNS, directory)
    else:
        first_runs: Path = request.getfixturevalue("first_runs")
        is_single = request.param == _SINGLE
        directory = first_runs / "digits" / "version_0" if is_single else first_runs
        train_ids = ("./",) if is_single else ("./digits/version_0", "./digits/version_1")
    with (
        viewing(directory, cache) as view,
        running_browser(view.server, folder / "profile", view.addresses["runs"]) as browser,
    ):
        yield _Seen(view, browser, train_ids)


@pytest.mark.parametrize(
    "seen", [_SAVE_DIR, pytest.param(_MINDSPORE, marks=pytest.mark.long), _SINGLE], indirect=True
)
@pytest.mark.parametrize(
    "page",
    [page if page in _OPENED else pytest.param(page, marks=pytest.mark.long) for page in PAGES],
)
def test_every_page_is_drawn_with_its_data_and_without_a_complaint(page: str, seen: _Seen) -> None:
    is_of_a_run = bool(PAGES[page].run_parameter)

    seen.browser.open(page, seen.train_ids[0] if is_of_a_run else None)
    for card in DASHBOARD_CARDS.values() if page == "dashboard" else ():
        seen.browser.wait_drawn(card)

    shown = seen.browser.text()
    assert seen.browser.placeholders() == []
    assert seen.browser.errors() == []
    assert seen.browser.failed_requests() == []
    assert is_of_a_run or [train_id for train_id in seen.train_ids if train_id not in shown] == []


@pytest.mark.parametrize("seen", [_SINGLE], indirect=True)
@pytest.mark.parametrize(("language", "text"), [("zh-CN", "训练列表"), ("de-DE", "Summary List")])
def test_the_first_visit_is_in_the_browsers_language_if_the_pages_have_it(
    language: str, text: str, seen: _Seen
) -> None:
    driver = seen.browser.driver
    agent = driver.execute_script("return navigator.userAgent")
    driver.execute_cdp_cmd(
        "Network.setUserAgentOverride", {"userAgent": agent, "acceptLanguage": language}
    )
    before = driver.execute_script(
        "const was = localStorage.getItem('milang'); localStorage.clear(); return was"
    )
    try:
        driver.refresh()
        seen.browser.open("summary list")
        assert text in seen.browser.text()
    finally:
        driver.execute_cdp_cmd(
            "Network.setUserAgentOverride", {"userAgent": agent, "acceptLanguage": "en-US"}
        )
        driver.execute_script("localStorage.setItem('milang', arguments[0])", before)


def test_the_printed_addresses_are_those_of_the_pages(seen: _Seen) -> None:
    def address(page: str) -> str:
        run = seen.train_ids[0].replace("/", "%2F")
        of_run = f"?{PAGES[page].run_parameter}={run}&summaryPath={run}"
        return f"#{PAGES[page].route}{of_run if PAGES[page].run_parameter else ''}"

    # With several runs it cannot know which one is meant.
    is_single = len(seen.train_ids) == 1
    expected = {
        name: address(page)
        for name, page in _PRINTED.items()
        if is_single or not PAGES[page].run_parameter
    }
    assert {
        name: f"#{printed.split('#')[1]}" for name, printed in seen.view.addresses.items()
    } == expected


def test_the_pages_below_a_selection_compare_its_runs_alone(seen: _Seen) -> None:
    page, chosen = PAGES["scalar comparison"], seen.train_ids[0]
    selection = base64.urlsafe_b64encode(json.dumps([chosen]).encode()).decode().rstrip("=")

    seen.browser.driver.get("about:blank")
    seen.browser.driver.get(f"{seen.view.server}/only/{selection}/#{page.route}")
    seen.browser.wait_drawn(*page.drawn)

    shown = seen.browser.text()
    assert [train_id for train_id in seen.train_ids if train_id in shown] == [chosen]
    assert seen.browser.errors() == []
