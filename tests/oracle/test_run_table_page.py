"""The table of runs in a real browser: 10,000 runs (in the short form 1,000), few, none, and names
with markup.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from csv import reader as csv_rows
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from mindsummary_lightning.values import EvaluationInfo, TrainInfo, UserDefinedInfo
from mindsummary_lightning.viewer.notebook import Shown
from tests.cli.command import mindsummary
from tests.lineage.sixty_runs import Run as SweepRun
from tests.lineage.sixty_runs import by_best, by_last, write_sixty_runs
from tests.oracle.browser import Browser, running_browser, wait_for_download
from tests.reading.runs import values_at, write_lineage, write_summary
from tests.viewer.many_runs import STEPS, write_sweep
from tests.viewer.small_frontend import SMALL_WHEEL

Serve = Callable[[Path], str]

_NAMES = "return [...document.querySelectorAll('td.name > a')].map(link => link.textContent)"
_COUNT = "return document.getElementById('count').textContent"
_DRAWN = (
    "document.querySelectorAll('polyline').length === "
    "document.querySelectorAll('#grid tbody tr').length"
)
_READ = "!/being read/.test(document.getElementById('count').textContent)"
_CONDITIONS = (
    "metric/val/accuracy>0.5", "metric_val/accuracy<=0.5", "learning_rate=0.1",
    "learning_rate >= 0.01", "epoch==3",
    "optimizer=SGD", "optimizer != SGD", "network='ViT-B/16'", "user_defined/seed=3",
    "user_defined/seed!=3",
    "user_defined/note='run 7'", "user_defined/precision=16-mixed", "metric/a_rare_metric>0",
    "summary_dir=./sweep/version_4", "batch_size<64", "user_defined/note>5",
    "learning_rate!=0.1", "user_defined/optim/momentum=0.9", "user_defined/status=failed",
    "optimizer=sgd", "network=vit*", "epoch>2.5", "learning_rate!=NaN", "seed=3 OR seed=5",
    "resnet", "-resnet",
    "min:loss<1", "last:loss>0",
)  # fmt: skip
_CELLS = """
const rows = [...document.querySelectorAll('#grid tbody tr')];
return rows.map(row => [...row.cells].slice(1).map(one => one.innerText));
"""
_COLOURED = """
const canvas = document.querySelector('#plot canvas');
const bytes = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
let count = 0;
for (let i = 0; i < bytes.length; i += 4) {
  const colours = bytes.slice(i, i + 3);
  count += bytes[i + 3] > 0 && Math.max(...colours) - Math.min(...colours) > 60;
}
return count;
"""
# Type a text and say after how many milliseconds the page has been laid out with what the server
# found.
_SEARCH = """
const box = document.getElementById('search'), begin = performance.now(), [text, done] = arguments;
box.value = text;
box.dispatchEvent(new Event('input'));
const wait = () => {
  if (document.getElementById('grid').ariaBusy === 'true') return setTimeout(wait, 1);
  document.body.getBoundingClientRect();
  done(performance.now() - begin);
};
wait();
"""
_LEGEND = "[...document.querySelectorAll('#legend label > span')].map(one => one.textContent)"
_FOUND = "document.getElementById('grid')?.ariaBusy !== 'true'"


@pytest.fixture(scope="module")
def serve() -> Iterator[Serve]:
    """A function that serves a directory and answers the address of its table."""
    servers: list[Shown] = []

    def start(directory: Path) -> str:
        servers.append(Shown(str(directory), SMALL_WHEEL, 400))
        return f"{servers[-1].address}runs"

    yield start
    for server in servers:
        server.close()


@pytest.fixture(scope="module")
def browser(serve: Serve, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with running_browser(
        serve(tmp_path_factory.mktemp("nothing")), tmp_path_factory.mktemp("profile")
    ) as chromium:
        yield chromium


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("thirty")
    write_sweep(base, 30)
    return base


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory, serve: Serve) -> str:
    base = tmp_path_factory.mktemp("three")
    write_sweep(base, 3)
    return serve(base)


def _open(browser: Browser, address: str) -> None:
    browser.driver.get("about:blank")  # an address that differs behind # only would not load
    browser.errors()
    browser.driver.get(address)
    browser.wait(f"{_COUNT.removeprefix('return ')}.length > 0")
    browser.wait(_READ)


def _run(browser: Browser, script: str, *arguments: Any) -> Any:
    """What a script returns, once nothing is searched for any more."""
    browser.wait(_FOUND)
    return browser.driver.execute_script(script, *arguments)


def _search(browser: Browser, query: str) -> float:
    milliseconds: float = browser.driver.execute_async_script(_SEARCH, query)
    return milliseconds


def _cdp(browser: Browser, command: str, parameters: dict[str, Any]) -> Any:
    return browser.driver.execute("executeCdpCommand", {"cmd": command, "params": parameters})[
        "value"
    ]


def test_without_the_front_end_the_page_says_so_and_links_no_page_of_it(
    sweep: Path, browser: Browser
) -> None:
    server = Shown(str(sweep), None, 400)
    try:
        for address in (f"{server.address}runs", server.address):
            _open(browser, address)
            browser.wait("document.querySelectorAll('tbody tr').length === 30")
            _run(
                browser,
                (
                    "document.querySelectorAll('tbody input').forEach((box, i) => i < 2 && "
                    "box.click())"
                ),
            )

            assert "--wheel mindinsight-2.3.1" in _run(
                browser, "return document.getElementById('missing').innerText"
            )
            links = _run(
                browser,
                (
                    "return [...document.links].filter(one => one.checkVisibility()).map(one => "
                    "one.text)"
                ),
            )
            assert links == ["where they differ"]
            _run(browser, "document.querySelector('td.name > span').focus()")
            assert _run(browser, "return document.activeElement.textContent").startswith(
                "sweep/version_"
            )
            assert browser.errors() == []
    finally:
        server.close()


@pytest.mark.slow
def test_thousands_of_runs_are_searched_sorted_and_paged(
    browser: Browser, serve: Serve, tmp_path: Path, times: Callable[[int, int], int]
) -> None:
    many = times(1_000, 10_000)
    write_sweep(tmp_path, many)
    _open(browser, serve(tmp_path))
    assert _run(browser, _COUNT) == f"{many} of {many} runs"
    assert len(_run(browser, _NAMES)) == 50
    browser.wait("document.querySelectorAll('polyline').length === 50")

    for query, check in (
        ("version_99", lambda names: all("version_99" in name for name in names)),
        ("metric/val/accuracy>0.9", lambda names: len(names) == 50),
        ("optimizer=SGD resnet learning_rate<=0.01", lambda names: len(names) == 50),
    ):
        assert _search(browser, query) < 1500  # milliseconds; 100 on a quiet machine
        assert 0 < int(_run(browser, _COUNT).split()[0]) < many
        assert check(_run(browser, _NAMES))

    _search(browser, "")
    _run(browser, "document.querySelector('th button[title=\"metric/val/accuracy\"]').click()")
    _run(browser, "document.getElementById('after').click()")
    column = (
        "[...document.querySelectorAll('#grid thead tr > *')].findIndex(head => "
        "head.textContent.startsWith('val/accuracy'))"
    )
    cells = (
        "[...document.querySelectorAll('tbody tr')].map(row => Number(row.cells[at].textContent))"
    )
    shown = _run(browser, f"const at = {column}; return {cells}")
    assert shown == sorted(shown, reverse=True)
    assert shown[0] < 1.0
    assert f"page 2 of {many // 50}" in browser.text()
    assert browser.errors() == []


def test_steps_are_sorted_by_once_every_run_has_been_read(
    browser: Browser, serve: Serve, tmp_path: Path
) -> None:
    write_sweep(tmp_path, 3)
    write_summary(
        tmp_path / "longest",
        [values_at(step, {"loss": 1.0}) for step in range(1, STEPS + 50)],
        1_600_000_000,
    )

    _open(browser, f"{serve(tmp_path)}#sort=steps&desc=1&size=20")

    assert _run(browser, _NAMES)[0] == "longest"


def test_the_address_holds_what_is_seen(browser: Browser, serve: Serve, sweep: Path) -> None:
    _open(browser, serve(sweep))
    _search(browser, "version_1 metric/val/accuracy>0.2")
    _run(browser, "document.querySelector('th button[title=loss]').click()")
    _run(browser, "document.querySelectorAll('tbody input')[1].click()")
    _run(browser, "document.querySelector('#chooser summary').click()")
    labels = "[...document.querySelectorAll('#chooser label')]"
    _run(browser, f"{labels}.find(one => /a_rare/.test(one.textContent)).firstChild.click()")
    browser.wait(_DRAWN)
    state = (
        "return [location.href, ...['table', '#ticked'].map(part => "
        "document.querySelector(part).innerText)]"
    )
    address, table, ticked = _run(browser, state)
    assert "a_rare_metric" in table

    _open(browser, address)

    browser.wait(_DRAWN)
    assert _run(browser, state)[1:] == [table, ticked]
    assert "1 ticked:" in ticked


def test_conditions_find_what_the_command_finds(
    browser: Browser, serve: Serve, sweep: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _open(browser, f"{serve(sweep)}#size=100")
    found, expected = {}, {}
    for condition in _CONDITIONS:
        answer = mindsummary(
            capsys, "lineage", sweep, "--json", "--limit", 999, f"--where={condition}"
        )
        expected[condition] = sorted(
            run["summary_dir"].removeprefix("./") for run in json.loads(answer.out)["object"]
        )
        _search(browser, condition)
        found[condition] = sorted(_run(browser, _NAMES))

    assert found == expected


def test_what_cells_show_in_chinese_is_found(
    browser: Browser, serve: Serve, tmp_path: Path
) -> None:
    _record(tmp_path / "live", loss=[1.0, 0.5])
    _record(tmp_path / "lost", loss=[1.0, float("nan")])
    write_lineage(tmp_path / "lost", [TrainInfo(learning_rate=0.1)])
    for file in (tmp_path / "lost").iterdir():
        os.utime(file, (1_700_000_000, 1_700_000_000))
    _open(browser, serve(tmp_path))
    _run(browser, "document.getElementById('language').click()")
    for query, name in (
        ("状态=运行中", "live"),
        ("运行中", "live"),
        ("学习率=0.1", "lost"),
        ("损失曲线=NaN", "lost"),
        ("curve!=NaN", "live"),
        ("loss<1", "live"),
    ):
        _search(browser, query)
        assert _run(browser, _NAMES) == [name], query
    _run(browser, "document.getElementById('language').click()")


def test_short_names_and_settings_that_all_runs_share_are_found(
    browser: Browser, three: str
) -> None:
    _open(browser, three)
    for query in (
        "16-mixed",
        "precision=16-mixed",
        "momentum=0.9",
        "accuracy>0",
        "user_defined/status!=unknown",
    ):
        _search(browser, query)
        assert _run(browser, _COUNT) == "3 of 3 runs", query


def test_a_name_that_comes_back_as_another_is_not_asked_for_without_end(
    browser: Browser, serve: Serve, tmp_path: Path
) -> None:
    # pages get names with this mark, and it is taken out of requests
    for name in ("a", "b<\u2060c"):
        write_summary(tmp_path / name, [values_at(1, {"loss": 1.0})])
        write_lineage(tmp_path / name, [TrainInfo(), EvaluationInfo('{"accuracy": 0.5}')])

    _open(browser, serve(tmp_path))

    assert _run(browser, "return document.querySelectorAll('polyline').length") == 1
    assert "accuracy" in browser.text()  # the only result, although the runs agree in it


def test_a_page_of_what_is_still_to_be_read_stays_in_the_address(
    browser: Browser, serve: Serve, sweep: Path
) -> None:
    _open(browser, f"{serve(sweep)}#q=steps%3E1&page=2&size=20")

    assert "page 2 of 2" in browser.text()


def test_what_is_focused_stays_so_and_read_curves_stay_while_a_run_grows(
    browser: Browser, serve: Serve, tmp_path: Path
) -> None:
    file = write_summary(tmp_path / "a", [values_at(1, {"loss": 1.0})])
    hurried = "const every = setInterval; window.setInterval = (call, ms) => every(call, ms / 20)"
    added = _cdp(browser, "Page.addScriptToEvaluateOnNewDocument", {"source": hurried})
    _open(browser, serve(tmp_path))
    _cdp(browser, "Page.removeScriptToEvaluateOnNewDocument", added)
    _run(browser, "document.querySelector('tbody input').focus()")
    steps, focused = (
        "document.querySelector('tbody tr').cells[5].textContent",
        "document.activeElement.ariaLabel",
    )
    script = f"return [{steps}, {focused}]"
    assert _run(browser, script) == ["1", "a"]

    with file.open("ab") as grown:
        grown.write(values_at(1_234_567, {"loss": 1.0}))

    seen = [_run(browser, script)]
    deadline = time.monotonic() + 20
    while seen[-1] != ["1234567", "a"]:
        assert time.monotonic() < deadline, seen[-1]
        seen.append(_run(browser, script))
    assert set(map(tuple, seen)) == {("1", "a"), ("1234567", "a")}


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("metric/nothing>0.5", "no run has metric/nothing"),
        ("version_1 nowhere", "no run has “nowhere” in its name or settings"),
    ],
)
def test_a_condition_or_a_word_that_finds_nothing_is_said(
    browser: Browser, serve: Serve, sweep: Path, query: str, said: str
) -> None:
    _open(browser, f"{serve(sweep)}#q={quote(query)}")

    assert (_run(browser, _COUNT), _run(browser, _NAMES)) == (said, [])


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("version_1 -version_1*", []),
        ("version_10 OR version_11", ["version_10", "version_11"]),
        ("v*n_12 OR version_13 -nothing", ["version_12", "version_13"]),
        ("written>=2020-01-01 version_14", ["version_14"]),
        ("written<2020-01-01", []),
    ],
)
def test_words_are_alternatives_excluded_and_have_gaps(
    browser: Browser, serve: Serve, sweep: Path, query: str, names: list[str]
) -> None:
    _open(browser, f"{serve(sweep)}#q={quote(query)}")

    assert sorted(name.rpartition("/")[2] for name in _run(browser, _NAMES)) == names


def test_ranges_and_all_that_is_found_are_ticked(
    browser: Browser, serve: Serve, sweep: Path
) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    ticked = "return document.getElementById('ticked').textContent.split(' ')[0]"
    _open(browser, f"{serve(sweep)}#q=version_1&size=20")
    boxes = browser.driver.find_elements(By.CSS_SELECTOR, "tbody input")
    boxes[1].click()
    ActionChains(browser.driver).key_down(Keys.SHIFT).click(boxes[4]).key_up(Keys.SHIFT).perform()
    assert _run(browser, ticked) == "4"

    browser.driver.find_element(By.CSS_SELECTOR, "thead input").click()
    assert _run(browser, ticked) == _run(browser, _COUNT).split()[0] == "11"
    assert "compare loss landscapes" not in browser.text()  # no run of the sweep has one
    browser.driver.find_element(By.CSS_SELECTOR, "thead input").click()
    assert _run(browser, "return document.getElementById('ticked').hidden")


def _record(run: Path, **scalars: list[float]) -> None:
    steps = range(1, 1 + max(map(len, scalars.values())))
    events = [
        values_at(step, {tag: one[step - 1] for tag, one in scalars.items()}, 100.0 + 2 * step)
        for step in steps
    ]
    write_summary(run, events)


def test_columns_of_any_scalar_are_sorted_by_and_stay_in_the_address(
    browser: Browser, serve: Serve, tmp_path: Path
) -> None:
    for name, loss in {"a": [3.0, 1.0, 2.0], "b": [5.0, 0.5, 4.0]}.items():
        _record(tmp_path / name, loss=loss, accuracy=[0.1, 0.9, 0.2])
    _record(tmp_path / "c", accuracy=[0.5])

    _open(
        browser,
        f"{serve(tmp_path)}#sort=min:loss&col=min:loss&col=max:accuracy&col=last:loss&col=duration&col=pace",
    )

    assert _run(browser, _CELLS) == [
        ["b", "0.5", "0.9", "4", "4", "2"],
        ["a", "1", "0.9", "2", "4", "2"],
        ["c", "–", "0.5", "–", "0", "–"],
    ]
    _search(browser, "min:loss<0.7")
    assert _run(browser, _NAMES) == ["b"]
    assert browser.errors() == []


def test_curves_of_ticked_runs_share_one_plot(
    browser: Browser, serve: Serve, tmp_path: Path
) -> None:
    for name in "abc":
        _record(tmp_path / name, loss=[4.0, 2.0, 1.0], other=[1.0, 2.0, 3.0])

    _open(browser, f"{serve(tmp_path)}#tick=./a&tick=./c&over=other&log=1")

    browser.wait(f"{_LEGEND}.length === 2")
    assert sorted(_run(browser, f"return {_LEGEND}")) == ["a", "c"]
    assert _run(browser, _COLOURED) > 100
    _run(browser, "location.hash = '#tick=./a&over=nothing'")
    browser.wait("document.getElementById('notice').textContent === 'no ticked run has this tag'")
    assert browser.errors() == []


@pytest.fixture(scope="module")
def sixty(tmp_path_factory: pytest.TempPathFactory, serve: Serve) -> tuple[str, list[SweepRun]]:
    base = tmp_path_factory.mktemp("sixty")
    runs = write_sixty_runs(base)
    return serve(base), runs


def test_all_of_sixty_runs_are_one_table_with_their_ends(
    browser: Browser, sixty: tuple[str, list[SweepRun]]
) -> None:
    address, runs = sixty
    _open(browser, f"{address}#size=100&sort=run&col=status&col=lr&col=seed&col=diverged")
    browser.wait(_READ)

    rows = _run(browser, _CELLS)
    assert [row[0].split("\n")[0] for row in rows] == [run.name for run in runs]
    assert [row[1] for row in rows] == [
        run.status + (" diverged" if run.is_diverged else "") for run in runs
    ]
    assert [row[2:4] for row in rows] == [[str(run.lr), str(run.seed)] for run in runs]
    for query, is_found in (
        ("status=killed", lambda run: run.is_killed),
        ("diverged=true", lambda run: run.is_diverged),
        ("val/loss<0.3", lambda run: not run.is_diverged and run.last < 0.3),
    ):
        _search(browser, query)
        assert _run(browser, _NAMES) == [run.name for run in runs if is_found(run)], query


@pytest.mark.parametrize(
    ("column", "in_order"), [("last:val/loss", by_last), ("min:val/loss", by_best)]
)
def test_the_best_of_sixty_runs_is_the_one_computed_by_hand(
    browser: Browser,
    sixty: tuple[str, list[SweepRun]],
    column: str,
    in_order: Callable[[list[SweepRun]], list[SweepRun]],
) -> None:
    address, runs = sixty
    _open(browser, f"{address}#size=100&col=status&col={column}")
    _run(browser, f"document.querySelector('th button[title=\"{column}\"]').click()")
    best = [run.name for run in in_order(runs)]
    browser.wait(f"document.querySelector('td.name > a')?.textContent === '{best[0]}'")
    browser.wait(_READ)

    assert _run(browser, _NAMES)[: len(best)] == best


def test_the_curves_of_the_five_best_runs_share_one_plot(
    browser: Browser, sixty: tuple[str, list[SweepRun]]
) -> None:
    address, runs = sixty
    _open(browser, f"{address}#size=100&sort=min:val/loss&col=min:val/loss&over=val/loss")
    best = [run.name for run in by_best(runs)[:5]]
    browser.wait(f"document.querySelector('td.name > a')?.textContent === '{best[0]}'")
    browser.wait(_READ)
    for name in best:
        _run(browser, f"document.querySelector('input[aria-label=\"{name}\"]').click()")

    browser.wait(f"{_LEGEND}.length === 5")
    assert sorted(_run(browser, f"return {_LEGEND}")) == sorted(best)
    assert browser.errors() == []


def test_beside_open_curves_rows_are_ticked_sorted_and_searched(
    browser: Browser, serve: Serve, tmp_path: Path
) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    for number, name in enumerate("abc"):
        _record(tmp_path / name, loss=[4.0, float(number)])
    _open(browser, f"{serve(tmp_path)}#tick=./a&over=loss&sort=run")
    browser.wait(f"{_LEGEND}.length === 1")

    browser.driver.find_element(By.CSS_SELECTOR, "input[aria-label='c']").click()
    browser.wait(f"{_LEGEND}.length === 2")
    browser.driver.find_element(By.CSS_SELECTOR, "th button[title=run]").click()
    assert _run(browser, _NAMES) == ["c", "b", "a"]
    ActionChains(browser.driver).send_keys("/./b").perform()
    assert _run(browser, _NAMES) == ["b"]
    browser.driver.find_element(By.ID, "smooth").send_keys(Keys.ARROW_UP)
    assert _run(browser, "return document.activeElement.value") != "0"
    assert browser.errors() == []


def test_what_is_shown_is_saved_as_csv_without_formulas(
    browser: Browser, serve: Serve, tmp_path: Path
) -> None:
    for name, note, loss in [
        ("a", "=1+cmd|'x'", -1.5),
        ("b", '"two", said', -0.5),
        ("c", "-", 2.5),
    ]:
        _record(tmp_path / "runs" / name, loss=[loss])
        write_lineage(
            tmp_path / "runs" / name, [TrainInfo(loss=loss), UserDefinedInfo({"note": note})]
        )
    saved = tmp_path / "runs.csv"
    _cdp(
        browser, "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )

    def csv(state: str) -> list[list[str]]:
        saved.unlink(missing_ok=True)
        _open(
            browser,
            f"{serve(tmp_path / 'runs')}#tick=./a&over=loss&sort=run&col=loss&col=note{state}",
        )
        browser.wait(f"{_LEGEND}.length === 1")
        _run(browser, "document.getElementById('csv').click()")
        wait_for_download(saved)
        return list(csv_rows(saved.read_text("utf-8-sig").splitlines()))

    names, *rows = csv("")
    assert names == ["run", "loss", "note"]
    assert rows == [["a", "-1.5", "'=1+cmd|'x'"], ["b", "-0.5", '"two", said'], ["c", "2.5", "-"]]
    assert [row[:3] for row in csv("&group=note")[1:]] == [
        ["-", "1", "2.5 ± –"],
        ['"two", said', "1", "-0.5 ± –"],
        ["'=1+cmd|'x'", "1", "-1.5 ± –"],
    ]


def test_runs_are_grouped_by_a_setting(browser: Browser, serve: Serve, tmp_path: Path) -> None:
    for seed, (network, accuracy) in enumerate([("A", 0.5), ("A", 0.7), ("B", 0.9)]):
        write_summary(tmp_path / str(seed), [values_at(1, {"loss": 1.0})])
        write_lineage(
            tmp_path / str(seed),
            [TrainInfo(network=network), EvaluationInfo(json.dumps({"acc": accuracy}))],
        )

    _open(browser, f"{serve(tmp_path)}#group=network&col=metric/acc")

    assert _run(browser, _CELLS) == [
        ["A", "2", "0.6 ± 0.14", "0.5 … 0.7"],
        ["B", "1", "0.9 ± –", "0.9 … 0.9"],
    ]
    # as if an address that was sent is opened in the same tab
    _run(browser, "location.hash = '#q='")
    browser.wait("document.querySelectorAll('tbody tr').length === 3")
    assert _run(browser, "return document.getElementById('group').value") == ""


def test_a_nested_setting_that_repeats_another_is_not_shown_twice(
    browser: Browser, serve: Serve, tmp_path: Path
) -> None:
    for rate in (0.1, 0.2):
        groups = {"0": {"lr": rate, "momentum": 1 - rate}}
        settings = UserDefinedInfo(
            {"seed": rate, "optim": {"momentum": rate}, "optimizer_groups": groups}
        )
        values = [TrainInfo(learning_rate=rate), settings]
        write_summary(tmp_path / str(rate), [values_at(1, {"loss": 1.0})])
        write_lineage(tmp_path / str(rate), values)

    _open(browser, serve(tmp_path))

    heads = _run(
        browser, "return [...document.querySelectorAll('th button')].map(one => one.textContent)"
    )
    assert heads[5:] == ["learning_rate", "seed", "optimizer_groups/0/momentum"]
    _search(browser, "momentum=0.1")  # the user's, not that of the group
    assert _run(browser, _NAMES) == ["0.1"]


def test_a_long_name_is_shortened_in_its_middle(
    browser: Browser, serve: Serve, tmp_path: Path
) -> None:
    name = "a" * 120 + "b" * 100
    write_summary(tmp_path / name, [values_at(1, {"loss": 1.0})])

    _open(browser, serve(tmp_path))

    (shown,) = _run(browser, _NAMES)
    assert shown.startswith("aaa")
    assert shown.endswith("bbb")
    assert len(shown) < 65
    assert _run(browser, "return document.querySelector('td.name > a').title") == f"{name}"


def test_ticked_runs_have_addresses_of_pages_about_them(
    browser: Browser, serve: Serve, sweep: Path
) -> None:
    address = serve(sweep)
    _open(browser, address)
    _run(
        browser,
        "for (const box of [...document.querySelectorAll('tbody input')].slice(0, 2)) box.click()",
    )

    names = _run(browser, _NAMES)[:2]
    links = _run(browser, "return [...document.querySelectorAll('#ticked a')].map(one => one.href)")
    compare = links[-1]  # of the links it is the last: our own plot stands beside the list
    listed = f"{compare.partition('#')[0]}v1/mindinsight/datavisual/train-jobs?limit=999"
    answer = _run(browser, "return fetch(arguments[0]).then(answer => answer.json())", listed)

    assert compare.endswith("#/compare-analysis/scalar")
    assert sorted(row["train_id"].removeprefix("./") for row in answer["train_jobs"]) == sorted(
        names
    )


def test_a_click_on_the_comparison_of_two_of_three_runs_leads_to_it(
    browser: Browser, three: str
) -> None:
    from selenium.webdriver.common.by import By

    _open(browser, three)
    assert _run(browser, _COUNT) == "3 of 3 runs"
    names = _run(browser, _NAMES)
    boxes = browser.driver.find_elements(By.CSS_SELECTOR, "tbody input")
    for box in boxes:
        box.click()
    assert "where they differ" not in browser.text()  # of three runs there is no page about a pair
    boxes[1].click()

    browser.driver.find_element(By.LINK_TEXT, "where they differ").click()

    browser.wait("location.pathname.endsWith('/v1/mindinsight/comparison')")
    assert [name.rpartition("/")[2] in browser.text() for name in names] == [True, False, True]
    browser.driver.back()
    browser.wait(f"{_COUNT.removeprefix('return ')}.length > 0")
    assert "2 ticked:" in browser.text()
    assert browser.errors() == []


def test_a_link_on_the_pages_of_chosen_runs_leads_back_to_the_table_of_all(
    browser: Browser, three: str
) -> None:
    from selenium.webdriver.common.by import By

    _open(browser, three)
    for box in browser.driver.find_elements(By.CSS_SELECTOR, "tbody input")[:2]:
        box.click()
    browser.driver.find_element(By.LINK_TEXT, "MindInsight's comparison").click()
    link = "document.body?.lastElementChild?.shadowRoot?.querySelector('a')"
    browser.wait(f"Boolean({link})")

    browser.driver.execute_script(f"{link}.click()")

    browser.wait("location.pathname.endsWith('/runs')")
    browser.wait(f"{_COUNT.removeprefix('return ')}.length > 0")
    assert _run(browser, _COUNT) == "3 of 3 runs"


def test_the_keyboard_searches_moves_and_opens(browser: Browser, serve: Serve, sweep: Path) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    _open(browser, serve(sweep))

    def press(*keys: str) -> None:
        for key in keys:
            ActionChains(browser.driver).send_keys(key).perform()

    press("/", "version_2")
    assert _run(browser, "return document.activeElement.id") == "search"
    assert all("version_2" in name for name in _run(browser, _NAMES))
    press(Keys.ENTER)
    assert _run(browser, "return document.activeElement.textContent") == _run(browser, _NAMES)[0]
    press(Keys.ARROW_DOWN, " ")
    assert _run(browser, "return document.activeElement.textContent") == _run(browser, _NAMES)[1]
    ticked = "return [...document.querySelectorAll('tbody tr.on')].map(row => row.dataset.id)"
    assert _run(browser, ticked) == [f"./{name}" for name in _run(browser, _NAMES)[1:2]]
    press(Keys.ENTER)
    browser.wait("location.hash.startsWith('#/train-manage/training-dashboard?id=')")


def test_chinese_is_spoken_and_kept(browser: Browser, serve: Serve, sweep: Path) -> None:
    address = serve(sweep)
    _open(browser, address)
    _run(browser, "document.getElementById('language').click()")
    assert "最近写入" in browser.text()
    for word in ("学习率", "网络", "优化器", "个训练，符合条件"):
        assert word in browser.text()
    # punctuation of full width
    assert not re.search(r"[\u4e00-\u9fff][,:;]|[,:;][\u4e00-\u9fff]", browser.text())
    _open(browser, address)
    assert "最近写入" in browser.text()
    _run(browser, "document.getElementById('language').click()")


def test_names_and_settings_cannot_become_markup(
    browser: Browser, serve: Serve, tmp_path: Path
) -> None:
    hostile = "<img src=x onerror=document.title='hacked'>&quot;'#?%2e"
    run = tmp_path / hostile
    write_summary(run, [values_at(1, {f"loss{hostile}": 1.0})])
    custom = UserDefinedInfo({hostile: hostile, "__proto__": "x", "run": 5, "<b>": 1.0})
    write_lineage(
        run, [TrainInfo(network=hostile), EvaluationInfo(json.dumps({"constructor": 0.5})), custom]
    )
    write_summary(tmp_path / "b", [values_at(1, {"loss": float("nan")})])
    write_lineage(tmp_path / "b", [TrainInfo(), EvaluationInfo('{"constructor": NaN}')])
    (tmp_path / "b").rename(os.fsdecode(os.fsencode(tmp_path) + b"/not \xff UTF-8"))

    _open(browser, serve(tmp_path))

    assert _run(browser, "return document.querySelectorAll('td img, td b').length") == 0
    assert "hacked" not in browser.driver.title
    assert sorted(_run(browser, _NAMES)) == [f"{hostile}", r"not \udcff UTF-8"]
    rows = _run(browser, "return document.querySelector('tbody').innerText")
    assert rows.count("NaN") == 2  # the loss and the metric
    for query in ("onerror", f'network="{hostile}"', "constructor<1"):
        _search(browser, query)
        assert _run(browser, _NAMES) == [f"{hostile}"]
    _search(browser, "toString=1")
    assert _run(browser, _COUNT) == "no run has toString"
    assert browser.errors() == []


@pytest.fixture
def screen(browser: Browser) -> Iterator[Callable[[int, str], None]]:
    """A function that sets the browser's screen, which the tests behind this one do not have."""
    yield browser.screen
    browser.screen(1400)


@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_the_screen_in_both_schemes(
    browser: Browser, screen: Callable[[int, str], None], serve: Serve, sweep: Path, width: int,
    scheme: str,
) -> None:  # fmt: skip
    screen(width, scheme)

    _open(browser, serve(sweep))

    _run(browser, "document.querySelector('#chooser summary').click()")
    assert _run(browser, "return document.documentElement.scrollWidth") <= width
    brightness = (
        "return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0]"
    )
    assert (_run(browser, brightness) > 128) == (scheme == "light")
    assert browser.errors() == []


def test_the_comparison_of_runs_with_long_names_fits_the_screen(
    browser: Browser, serve: Serve, tmp_path: Path
) -> None:
    names = [character * 250 for character in "ab"]
    for name in names:
        write_summary(tmp_path / name, [values_at(1, {"loss": 1.0})])
    address = serve(tmp_path).removesuffix("runs")

    browser.driver.get(f"{address}v1/mindinsight/comparison?a=./{names[0]}&b=./{names[1]}")

    assert names[0] in browser.text()
    assert _run(browser, "return document.documentElement.scrollWidth <= innerWidth")


def test_an_empty_directory_says_so(browser: Browser, serve: Serve, tmp_path: Path) -> None:
    _open(browser, serve(tmp_path))

    assert _run(browser, _COUNT) == "There is no run below this directory yet."
    assert browser.errors() == []
