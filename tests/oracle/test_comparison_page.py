"""The pages that compare two runs, and that check a port, in a real browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from mindsummary_lightning import StepRecorder
from mindsummary_lightning.viewer.notebook import Shown
from tests.oracle.browser import Browser, running_browser
from tests.porting.comparison.test_output_statistics import ORIGINAL, PORT, train
from tests.porting.comparison.test_verdict import write_run
from tests.porting.port_check.test_report_page import report
from tests.viewer.small_frontend import SMALL_WHEEL

_LONG = "of_a_much_longer_name_than_fits_into_a_line_of_a_phone_lr0.001_bs64"
_PAIRS = {"histograms": ("a", _LONG), "shapes": ("w16", "w32"), "port": ("original", "ported")}

# The least contrast of lines and chips with the background, by WCAG.
_CONTRASTS = """
const plane = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
const light = colour => {
  plane.fillStyle = colour;
  plane.fillRect(0, 0, 1, 1);
  const parts = [...plane.getImageData(0, 0, 1, 1).data].slice(0, 3).map(part => part / 255);
  const linear = parts.map(part => part <= .04045 ? part / 12.92 : ((part + .055) / 1.055) ** 2.4);
  return .2126 * linear[0] + .7152 * linear[1] + .0722 * linear[2];
};
const page = light(getComputedStyle(document.body).backgroundColor);
return [...document.querySelectorAll('.key')].map(key => {
  const line = light(getComputedStyle(key, '::before').borderTopColor);
  return (Math.max(page, line) + .05) / (Math.min(page, line) + .05);
});
"""


def _change(step: int, name: str, tensor: np.ndarray) -> np.ndarray:
    changed = tensor * (1.01 if step > 6 else 1.0)
    is_lost = step >= 9 and name == "fc.bias"
    return np.where(np.arange(tensor.size) == 3, np.nan, changed) if is_lost else changed


def _write_net(directory: Path, width: int) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 4))
    with StepRecorder(directory).step(net, torch.optim.SGD(net.parameters())) as loss_is:
        loss_is(net(torch.ones(2, 8)).sum())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    base = tmp_path_factory.mktemp("pairs")
    write_run(base / "a")
    write_run(base / _LONG, _change, loss=lambda step: float("inf") if step == 10 else 2.0 / step)
    for width in (16, 32):
        _write_net(base / f"w{width}", width)
    train(base / "original", ORIGINAL)
    train(base / "ported", PORT, {"hidden": lambda x: x * (1 + 1e-5)})
    server = Shown(str(base), SMALL_WHEEL, 400)
    yield server
    server.close()


@pytest.fixture(scope="module")
def browser(server: Shown, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with running_browser(server.address, tmp_path_factory.mktemp("profile")) as chromium:
        yield chromium


@pytest.fixture
def port_page(tmp_path: Path) -> str:
    report().to_html(tmp_path / "port.html")
    return (tmp_path / "port.html").as_uri()


def _open(browser: Browser, server: Shown, pair: str, language: str = "en") -> None:
    a, b = _PAIRS[pair]
    path = f"v1/mindinsight/comparison?a=./{a}&b=./{b}&language={language}"
    browser.errors()  # of the page before
    browser.driver.get(f"{server.address}{path}")


def _get(browser: Browser, expression: str) -> Any:
    return browser.driver.execute_script(f"return {expression}")


def _violations(browser: Browser) -> str:
    package = pytest.importorskip("axe_core_python", reason="axe-core-python is not installed")
    browser.driver.execute_script((Path(package.__file__).parent / "axe.min.js").read_text("utf-8"))
    found = browser.driver.execute_async_script("axe.run().then(arguments[0])")["violations"]
    told = [(one["id"], [node["html"][:200] for node in one["nodes"]][:3]) for one in found]
    return json.dumps(told, indent=1) if told else ""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("pair", _PAIRS)
def test_axe_finds_nothing_in_a_comparison(
    browser: Browser, server: Shown, pair: str, language: str, scheme: str
) -> None:
    browser.screen(1400, scheme)
    _open(browser, server, pair, language)

    assert _violations(browser) == ""
    assert browser.errors() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_the_check_of_a_port(
    browser: Browser, port_page: str, scheme: str
) -> None:
    browser.screen(1400, scheme)
    browser.driver.get(port_page)

    assert _violations(browser) == ""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_lines_of_the_keys_stand_out(browser: Browser, server: Shown, scheme: str) -> None:
    browser.screen(1400, scheme)
    _open(browser, server, "histograms")

    contrasts = browser.driver.execute_script(_CONTRASTS)
    assert len(contrasts) == 3
    assert min(contrasts) >= 4.5
    styles = "[...document.querySelectorAll('.key')].map(key => getComputedStyle(key, '::before')"
    assert _get(browser, f"{styles}.borderTopStyle)") == ["solid", "dashed", "solid"]


_SCROLLED = """[...document.querySelectorAll('.scroll')].map(one => [
  one.tabIndex, getComputedStyle(one).backgroundImage.split('linear-gradient').length - 1])"""


def test_tables_cast_shadows_where_they_scroll_and_keys_reach_them(
    browser: Browser, server: Shown, port_page: str
) -> None:
    browser.screen(390)
    _open(browser, server, "port")
    scrolled = _get(browser, _SCROLLED)
    browser.driver.get(port_page)
    scrolled += _get(browser, _SCROLLED)

    assert len(scrolled) >= 2
    assert {tuple(one) for one in scrolled} == {(0, 4)}


@pytest.mark.parametrize("pair", _PAIRS)
def test_a_comparison_is_not_cut_on_a_phone(browser: Browser, server: Shown, pair: str) -> None:
    browser.screen(390)
    _open(browser, server, pair)

    assert _get(browser, "document.documentElement.scrollWidth") <= 390
    rights = (
        "[...document.querySelectorAll('.chart, .chart *')].map(one => one.checkVisibility() ? "
    )
    assert _get(browser, f"Math.max(...{rights}one.getBoundingClientRect().right : 0))") <= 391
    sizes = "[...document.querySelectorAll('.chart span')].map(one => getComputedStyle(one)"
    assert set(_get(browser, f"{sizes}.fontSize)")) <= {"11px", "14px", "18px"}


def test_a_value_is_under_the_pointer(browser: Browser, server: Shown) -> None:
    browser.screen(390)
    _open(browser, server, "histograms")

    under = """(() => {
      const map = document.querySelector('.map svg'), box = map.getBoundingClientRect();
      scrollTo(0, box.top + scrollY - 100);
      const { left, top, width } = map.getBoundingClientRect();
      const at = share => document.elementFromPoint(left + width * share, top + 20).textContent;
      return [at(6.5 / 12), at(0.99)];
    })()"""
    assert _get(browser, under) == ["fc.bias\nstep 7: 9.4e-03", "fc.bias\nstep 12: inf"]


def test_what_is_not_finite_has_a_sign_beside_its_colour(browser: Browser, server: Shown) -> None:
    browser.screen(390)
    _open(browser, server, "histograms")

    marks = "[...document.querySelectorAll('.lost')].map(one => one.className)"
    assert _get(browser, marks) == ["lost b", "lost in"]
    row = "document.querySelector('.lost.in').getBoundingClientRect()"
    name = "document.querySelectorAll('.names div')[1].getBoundingClientRect()"
    assert abs(_get(browser, f"{row}.top + {row}.height / 2 - {name}.top - 7")) < 2


def test_states_of_modules_have_signs(browser: Browser, server: Shown) -> None:
    browser.screen(1400)
    _open(browser, server, "port")

    for state, sign in (("first", "\u00d7"), ("apart", "\u2013")):
        before = f"getComputedStyle(document.querySelector('.{state}'), '::before').content"
        assert _get(browser, before).strip('"').strip() == sign


def test_a_comparison_leads_back_to_its_ticked_runs(browser: Browser, server: Shown) -> None:
    _open(browser, server, "shapes")

    browser.driver.execute_script("document.querySelector('nav.back a').click()")
    browser.wait("document.querySelectorAll('#grid tr.on').length === 2")
