"""What people do all day with curves, in a real browser, in as few clicks as are counted here."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from csv import reader as csv_rows
from pathlib import Path
from typing import Any

import pytest

from mindsummary_lightning.values import TrainInfo
from mindsummary_lightning.viewer.notebook import Shown
from tests.oracle.browser import Browser, running_browser, wait_for_download
from tests.reading.runs import values_at, write_lineage, write_parameter_run, write_summary
from tests.viewer.small_frontend import SMALL_WHEEL

_STEPS = 30
_LEGEND = "[...document.querySelectorAll('#legend label > span')].map(one => one.textContent)"
_VALUES = "[...document.querySelectorAll('#legend tbody tr')].map(row => row.cells[2].textContent)"
_ROWS = "[...document.querySelectorAll('#grid td.name > a')].map(link => link.textContent)"
_RANGE = "JSON.parse(document.getElementById('plot').dataset.range)"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six runs, and ``wrong`` and ``wrong_deep``, whose gradients are lost.

    The loss of ``d`` ends at 1e37, that of ``e`` is NaN in the end, and ``a`` has 300 tags.
    """
    base = tmp_path_factory.mktemp("twenty")
    write_parameter_run(base / "wrong", has_loss=False)
    write_parameter_run(base / "wrong_deep", tuple(f"layers.{at}.weight" for at in range(80)))
    for number, name in enumerate("abcdef"):
        events = [_event(name, number, step) for step in range(1, _STEPS + 1)]
        write_summary(base / name, events, 1_700_000_000 + number)
        rate = 0.1 / (number + 1)
        write_lineage(base / name, [TrainInfo(network="Net", learning_rate=rate, loss=rate)])
    return base


def _event(name: str, number: int, step: int) -> bytes:
    loss = 1 / step + number / 10
    if name == "d" and step > 25:
        loss = 10.0 ** (step + 7)
    if name == "e" and step > 20:
        loss = math.nan
    values = {"loss": loss}
    if name == "a" and step < 3:
        values |= {f"layer_{tag}/weight_norm": 1.0 * tag for tag in range(300)} | {"accuracy": 0.5}
    return values_at(step, values, 1_700_000_000 + 60.0 * step)


@pytest.fixture(scope="module")
def address(runs: Path) -> Iterator[str]:
    server = Shown(str(runs), SMALL_WHEEL, 400)
    yield f"{server.address}runs"
    server.close()


@pytest.fixture(scope="module")
def browser(address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with running_browser(address, tmp_path_factory.mktemp("profile")) as chromium:
        chromium.screen(1400)
        yield chromium


def _open(browser: Browser, address: str, state: str = "", curves: int = 0) -> None:
    browser.driver.get("about:blank")
    browser.errors()
    browser.driver.get(f"{address}#sort=run{state}")
    browser.wait(f"{_ROWS}.length > 0")
    browser.wait("document.querySelectorAll('polyline').length > 0")
    browser.wait(f"{_LEGEND}.length === {curves}")


def _ticked(names: str) -> str:
    return "".join(f"&tick=./{name}" for name in names)


def _click(browser: Browser, selector: str) -> None:
    from selenium.webdriver.common.by import By

    browser.driver.find_element(By.CSS_SELECTOR, selector).click()


def _get(browser: Browser, expression: str) -> Any:
    return browser.driver.execute_script(f"return {expression}")


def test_five_ticks_draw_five_curves_in_the_lines_of_their_rows(
    browser: Browser, address: str
) -> None:
    _open(browser, address)
    for name in "abcdf":
        _click(browser, f"input[aria-label='{name}']")
    browser.wait(f"{_LEGEND}.length === 5")

    line = "querySelector('.chip line').outerHTML"
    lines = f".map(row => [row.dataset.id, row.{line}])"
    of_rows = f"[...document.querySelectorAll('#grid tbody tr.on')]{lines}"
    of_legend = f"[...document.querySelectorAll('#legend tbody tr')]{lines}"
    assert sorted(_get(browser, of_rows)) == sorted(_get(browser, of_legend))
    before = dict(_get(browser, of_rows))
    _click(browser, "input[aria-label='a']")
    browser.wait(f"{_LEGEND}.length === 4")
    assert dict(_get(browser, of_legend)).items() <= before.items()
    # beside the list, and of the same height on the screen
    boxes = _get(
        browser,
        "['list', 'panel'].map(id => document.getElementById(id).getBoundingClientRect().toJSON())",
    )
    assert boxes[1]["left"] > boxes[0]["right"]
    assert browser.errors() == []


def test_one_diverged_run_does_not_flatten_the_others_and_is_hidden_by_one_click(
    browser: Browser, address: str
) -> None:
    _open(browser, address, _ticked("abcde"), 5)

    browser.wait("document.getElementById('notice').textContent.includes('scale (▲ ▼): 1')")
    assert _get(browser, f"{_RANGE}.y[1]") < 10
    assert "not finite from step 21" in browser.text()
    _click(browser, "#all")
    browser.wait(f"{_RANGE}.y[1] > 1e36")
    _click(browser, "#all")
    browser.wait("document.getElementById('hide').textContent === 'diverged: 1, hide'")
    _click(browser, "#hide")
    browser.wait("document.querySelectorAll('#legend input:checked').length === 4")
    assert "hide=1" in browser.driver.current_url


def test_smoothing_keeps_the_raw_curve_and_log_scales_end_at_whole_decades(
    browser: Browser, address: str
) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    _open(browser, address, _ticked("ab"), 2)
    canvas = _get(browser, "document.querySelector('#plot canvas').isConnected")
    browser.driver.execute_script("window.kept = document.querySelector('#plot canvas')")
    browser.driver.find_element(By.ID, "smooth").send_keys(Keys.END)
    browser.wait("document.querySelectorAll('#legend thead th').length === 4")
    assert len(_get(browser, "Plot.series()")) == 4  # raw and smoothed of both
    cells = "[...document.querySelector('#legend tbody tr').cells]"
    raw, smoothed = _get(browser, f"{cells}.slice(2).map(one => one.textContent)")
    assert raw != smoothed
    _click(browser, "#log")
    browser.wait(f"{_RANGE}.y.every(Number.isInteger)")
    assert canvas
    assert _get(browser, "window.kept === document.querySelector('#plot canvas')")


def test_zooming_takes_one_drag_and_one_click_leads_back_and_the_address_holds_it(
    browser: Browser, address: str
) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By

    _open(browser, address, _ticked("ab"), 2)
    whole = _get(browser, _RANGE)
    over = browser.driver.find_element(By.CSS_SELECTOR, "#plot .u-over")
    drag = ActionChains(browser.driver).move_to_element_with_offset(over, -80, -60).click_and_hold()
    drag.move_by_offset(140, 120).release().perform()
    browser.wait("!document.getElementById('reset').hidden")
    zoomed = _get(browser, _RANGE)
    for axis in "xy":
        assert whole[axis][0] < zoomed[axis][0] < zoomed[axis][1] < whole[axis][1]

    _click(browser, "input[aria-label='c']")
    browser.wait(f"{_LEGEND}.length === 3")
    _click(browser, "#legend input[aria-label='b']")
    browser.wait("document.querySelectorAll('#legend input:checked').length === 2")
    assert _get(browser, _RANGE) == zoomed

    link = browser.driver.current_url
    browser.driver.get("about:blank")
    browser.driver.get(link)
    browser.wait(f"{_LEGEND}.length === 3")
    assert all(_get(browser, _RANGE)[axis] == pytest.approx(zoomed[axis]) for axis in "xy")
    assert _get(browser, "document.querySelectorAll('#legend input:checked').length") == 2
    _click(browser, "#reset")
    browser.wait("document.getElementById('reset').hidden")
    assert _get(browser, f"{_RANGE}.x") == whole["x"]


def test_the_legend_says_the_values_under_the_pointer_greatest_first(
    browser: Browser, address: str
) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By

    _open(browser, address, _ticked("abc"), 3)
    over = browser.driver.find_element(By.CSS_SELECTOR, "#plot .u-over")
    ActionChains(browser.driver).move_to_element_with_offset(
        over, -over.size["width"] // 2 + 2, 0
    ).perform()
    browser.wait(f"{_VALUES}[0] === '1.2'")

    assert _get(browser, _LEGEND) == ["c", "b", "a"]
    assert _get(browser, _VALUES) == ["1.2", "1.1", "1"]


def test_a_tag_among_300_is_found_by_four_letters(browser: Browser, address: str) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    _open(browser, address, _ticked("a"), 1)
    _click(browser, "#over")
    browser.driver.find_element(By.ID, "over").send_keys("accu", Keys.ENTER)

    browser.wait(f"{_VALUES}.join() === '0.5'")
    assert "over=accuracy" in browser.driver.current_url


def test_three_time_axes(browser: Browser, address: str) -> None:
    ends = {
        "relative": [0, 60 * (_STEPS - 1)],
        "wall": [1_700_000_060, 1_700_000_000 + 60 * _STEPS],
    }
    for axis, expected in ends.items():
        _open(browser, address, f"{_ticked('a')}&axis={axis}", 1)
        assert _get(browser, f"{_RANGE}.x") == expected
    assert _get(browser, "document.getElementById('xlabel').textContent") == "time of day"


def test_curves_and_the_picture_are_saved_by_one_click_each(
    browser: Browser, address: str, tmp_path: Path
) -> None:
    parameters = {"behavior": "allow", "downloadPath": str(tmp_path)}
    command = {"cmd": "Browser.setDownloadBehavior", "params": parameters}
    browser.driver.execute("executeCdpCommand", command)
    _open(browser, address, _ticked("ae"), 2)
    for button, name in (("#plotcsv", "curves.csv"), ("#png", "curves.png")):
        _click(browser, button)
        wait_for_download(tmp_path / name)

    heads, *lines = csv_rows((tmp_path / "curves.csv").read_text("utf-8-sig").splitlines())
    assert heads == ["run", "tag", "step", "wall_time", "value", "smoothed"]
    assert lines[0] == ["a", "loss", "1", "1700000060", "1", "1"]
    assert ["e", "loss", "21", "1700001260", "NaN", "NaN"] in lines
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_metrics_sort_by_the_better_end_first(browser: Browser, address: str) -> None:
    _open(browser, address, "&col=curve&col=last:accuracy&col=min:loss")
    for column, first in (("last:accuracy", "a"), ("min:loss", "a")):
        _click(browser, f"th button[title='{column}']")
        browser.wait(f"{_ROWS}[0] === '{first}'")
        browser.wait("document.getElementById('grid').ariaBusy === 'false'")


def test_regular_expressions_are_searched_for(browser: Browser, address: str) -> None:
    from selenium.webdriver.common.by import By

    _open(browser, address)
    box = browser.driver.find_element(By.ID, "search")
    box.send_keys("/^[ac]$/")
    browser.wait(f"{_ROWS}.join() === 'a,c'")
    box.clear()
    box.send_keys("/(/")
    browser.wait("document.getElementById('count').textContent.includes('cannot be searched for')")


def test_keys_move_the_cursor_zoom_and_lead_back(browser: Browser, address: str) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    _open(browser, address, _ticked("a"), 1)
    plot = browser.driver.find_element(By.ID, "plot")
    plot.send_keys(Keys.ARROW_RIGHT)
    browser.wait(f"{_VALUES}.join() === '1'")
    plot.send_keys(Keys.ARROW_RIGHT)
    browser.wait(f"{_VALUES}.join() === '0.5'")
    plot.send_keys("+")
    browser.wait("!document.getElementById('reset').hidden")
    plot.send_keys("0")
    browser.wait("document.getElementById('reset').hidden")
    name = plot.get_attribute("aria-label")
    assert name is not None
    assert name.startswith("Curves of loss, 1 runs.")


def test_a_refresh_changes_only_what_changed(browser: Browser, runs: Path, address: str) -> None:
    hurried = "const every = setInterval; window.setInterval = (call, ms) => every(call, ms / 20)"
    command = {"cmd": "Page.addScriptToEvaluateOnNewDocument", "params": {"source": hurried}}
    added = browser.driver.execute("executeCdpCommand", command)["value"]
    _open(browser, address, f"{_ticked('af')}&x=5,9&off=./a", 2)
    remove = {"cmd": "Page.removeScriptToEvaluateOnNewDocument", "params": added}
    browser.driver.execute("executeCdpCommand", remove)
    browser.driver.execute_script("""
      const link = document.querySelector('tr[data-id="./a"] td.name > a');
      getSelection().selectAllChildren(link);
      window.kept = [link, document.querySelector('#plot canvas')];
    """)
    (file,) = (path for path in (runs / "f").iterdir() if path.name.endswith("_MS"))
    with file.open("ab") as grown:
        grown.write(values_at(1000, {"loss": 0.25}, 1_700_100_000.0))

    browser.wait("document.querySelector('tr[data-id=\"./f\"]').cells[5].textContent === '1000'")
    browser.wait(f"{_VALUES}.includes('0.25')")
    assert _get(browser, "getSelection().toString()") == "a"
    assert _get(browser, "kept[0].isConnected && kept[1].isConnected")
    assert _get(browser, f"{_RANGE}.x") == [5, 9]
    assert _get(browser, "document.querySelectorAll('#legend input:checked').length") == 1


def test_a_name_is_copied_by_one_click(browser: Browser, address: str) -> None:
    _open(browser, address)
    grant = {"cmd": "Browser.grantPermissions", "params": {"permissions": ["clipboardReadWrite"]}}
    browser.driver.execute("executeCdpCommand", grant)
    _click(browser, 'tr[data-id="./b"] button.copy')

    browser.wait("document.getElementById('said').textContent === 'copied: b'")


def test_settings_that_differ_in_what_is_found_are_columns(
    browser: Browser, tmp_path: Path
) -> None:
    for name, network, batch in (("x1", "A", 1), ("x2", "A", 2), ("y", "B", 1)):
        write_summary(tmp_path / name, [values_at(1, {"loss": 1.0})])
        write_lineage(tmp_path / name, [TrainInfo(network=network, batch_size=batch)])
    server = Shown(str(tmp_path), SMALL_WHEEL, 400)
    try:
        _open(browser, f"{server.address}runs")
        heads = "[...document.querySelectorAll('#grid th button')].slice(5).map(one => one.title)"
        assert sorted(_get(browser, heads)) == ["batch_size", "network"]
        _open(browser, f"{server.address}runs", "&q=x")
        browser.wait(f"{heads}.join() === 'batch_size'")
    finally:
        server.close()


def test_limits_are_said_where_they_are_met(browser: Browser, tmp_path: Path) -> None:
    for number in range(22):
        write_summary(tmp_path / f"r{number}", [values_at(1, {"loss": 1.0 * number})])
    server = Shown(str(tmp_path), SMALL_WHEEL, 400)
    try:
        ticks = "".join(f"&tick=./r{number}" for number in range(22))
        _open(browser, f"{server.address}runs", ticks, 20)
        browser.wait(
            "document.getElementById('notice').textContent.startsWith('The first 20 of 22')"
        )
    finally:
        server.close()


def test_the_page_about_a_run_that_is_gone_leads_back(browser: Browser, address: str) -> None:
    base = address.removesuffix("runs")
    for page in ("comparison?a=./a&b=./gone", "what-went-wrong?train_id=./gone"):
        browser.driver.get(f"{base}v1/mindinsight/{page}")
        assert "./gone is not a run of this directory." in browser.text()
        _click(browser, "nav.back a")
        browser.wait("location.pathname.endsWith('/runs')")
    browser.driver.get(f"{base}v1/mindinsight/comparison?a=./a&b=./b")
    _click(browser, "nav.back a")
    browser.wait("document.querySelectorAll('#grid tr.on').length === 2")


def test_what_went_wrong_is_one_click_from_the_row(browser: Browser, address: str) -> None:
    from selenium.webdriver.common.by import By

    _open(browser, address)
    browser.driver.find_element(By.LINK_TEXT, "what went wrong").click()

    browser.wait("document.title === 'wrong'")
    assert "First not finite: gradient of last.weight at step 30." in browser.text()
    lost = "[...document.querySelectorAll('td.lost')].map(one => one.title)"
    assert _get(browser, lost)[0] == "last.weight, 30: not finite"
    assert browser.errors() == []


@pytest.mark.parametrize("width", [1400, 390])
def test_a_heat_map_shows_that_it_scrolls_until_keys_have_scrolled_it_to_its_end(
    browser: Browser, address: str, width: int
) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    browser.screen(width)
    try:
        base = address.removesuffix("runs")
        browser.driver.get(f"{base}v1/mindinsight/what-went-wrong?train_id=./wrong_deep")
        shade = "getComputedStyle(document.querySelector('.scroll'), '::before').opacity"
        browser.wait(f"{shade} === '1'")
        browser.driver.find_element(By.CSS_SELECTOR, ".scroll").send_keys(Keys.END)
        browser.wait(f"{shade} === '0'")
        assert _get(browser, "document.activeElement.className") == "scroll"
    finally:
        browser.screen(1400)


def test_the_dashboard_of_a_run_leads_to_what_went_wrong_in_it(
    browser: Browser, address: str
) -> None:
    all_links = "[...document.body.lastElementChild.shadowRoot.querySelectorAll('a')]"
    links = f"{all_links}.filter(one => !one.hidden).map(one => one.textContent)"
    base = address.removesuffix("runs")
    for name, expected in (("wrong", 2), ("a", 1)):
        browser.driver.get("about:blank")
        browser.driver.get(f"{base}#/train-manage/training-dashboard?id=.%2F{name}")
        browser.wait("document.readyState === 'complete'")
        browser.wait(f"{links}.length === {expected}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", ["runs", "wrong", "gone"])
def test_axe_finds_nothing(
    browser: Browser, address: str, runs: Path, scheme: str, page: str
) -> None:
    axe = _axe()
    browser.screen(1400, scheme)
    try:
        if page == "runs":
            _open(browser, address, f"{_ticked('abcd')}&smooth=0.5", 4)
        else:
            base = address.removesuffix("runs")
            browser.driver.get(f"{base}v1/mindinsight/what-went-wrong?train_id=./{page}")
        browser.driver.execute_script(axe)
        found = browser.driver.execute_async_script("axe.run().then(arguments[0])")["violations"]
    finally:
        browser.screen(1400)

    told = [(one["id"], [node["html"][:200] for node in one["nodes"]][:3]) for one in found]
    assert told == [], json.dumps(told, indent=1)


def _axe() -> str:
    package = pytest.importorskip("axe_core_python", reason="axe-core-python is not installed")
    return (Path(package.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
