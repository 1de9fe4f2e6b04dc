"""Every page of a single run, passed to ``mindsummary view`` directly, as Chromium draws it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mindsummary_lightning.viewer.base_directory import find_base
from mindsummary_lightning.viewer.server import pick_port, running_server
from tests.cli.demo_run import write_demo_run

if TYPE_CHECKING:
    from tests.oracle.browser import Browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    pytest.importorskip("selenium")
    from tests.oracle.browser import find_chromium, running_browser

    python = os.environ.get("MINDINSIGHT_PYTHON")
    if not python or find_chromium() is None:
        pytest.skip("needs MINDINSIGHT_PYTHON, chromium and chromedriver")
    folder = tmp_path_factory.mktemp("view")
    write_demo_run(folder / "version_0")
    base = find_base(str(folder / "version_0"))
    assert base.train_ids == ("./",)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        with (
            running_server(python, base.path, "127.0.0.1", pick_port("127.0.0.1", 0)) as (server, _),
            running_browser(server.address, folder / "profile") as chromium,
        ):
            yield chromium


@pytest.mark.parametrize(
    "page",
    [
        "summary list",
        "dashboard",
        "scalar",
        "histogram",
        "image",
        "tensor",
        "graph",
        "data graph",
        "loss analysis",
        "model lineage",
        "data lineage",
    ],
)
def test_a_page_of_a_single_run_is_drawn_with_its_data(page: str, browser: Browser, tmp_path: Path) -> None:
    from tests.oracle.browser import PAGES

    browser.open(page, "./" if PAGES[page].run_parameter else None)
