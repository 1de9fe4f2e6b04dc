"""``mindsummary view``: what it refuses, prints and warns of, with a front end that is already in
the cache.
"""

from __future__ import annotations

import atexit
import gc
import io
import os
import re
import signal
import socket
import stat
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("psutil")

import psutil

from mindsummary_lightning.lineage import search
from mindsummary_lightning.values import TrainInfo
from mindsummary_lightning.viewer import browser, frontend, loaded_runs, serve
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from mindsummary_lightning.viewer.pages import run_table
from tests.cli.command import mindsummary
from tests.cli.demo_run import write_demo_run
from tests.lineage.lineage_tree import write_run
from tests.reading.runs import values_at, write_summary
from tests.viewer.small_frontend import SMALL_SHA256, put_into_cache
from tests.viewer.view_process import viewing

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the cache is placed by XDG_CACHE_HOME"
)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cache = tmp_path / "cache"
    put_into_cache(cache)
    monkeypatch.setattr(frontend, "WHEEL_SHA256", SMALL_SHA256)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    return cache


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    write_demo_run(tmp_path / "runs" / "version_0")
    return tmp_path / "runs"


@dataclass
class _Visit:
    """What a command printed, and what a visitor of its address was answered."""

    code: int
    lines: list[str]
    errors: list[str]
    address: str
    answers: list[bytes]


@pytest.fixture
def visit(
    cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., _Visit]]:
    """Run ``view`` in this process, ask for paths below the address that it prints, and end it."""
    monkeypatch.setattr(gc, "set_threshold", lambda threshold: None)  # of this process
    interval = sys.getswitchinterval()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = [signal.signal(number, signal.default_int_handler) for number in numbers]

    def run(*words: object, paths: Sequence[str] = ("",)) -> _Visit:
        printed, answers = io.StringIO(), list[bytes]()
        is_ended = threading.Event()

        def look_around() -> None:
            while "Ctrl-C" not in printed.getvalue():
                if is_ended.wait(0.005):
                    return
            try:
                for path in paths:
                    with _opener().open(f"{_address_in(printed.getvalue())}/{path}") as answer:
                        answers.append(answer.read())
            finally:
                os.kill(os.getpid(), signal.SIGTERM)

        visitor = threading.Thread(target=look_around)
        visitor.start()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", printed)
            said = mindsummary(capsys, "view", "--port", 0, *words)
        is_ended.set()
        visitor.join()
        lines = printed.getvalue().splitlines()
        address = _address_in(printed.getvalue())
        return _Visit(said.code, lines, said.err.splitlines(), address, answers)

    yield run
    sys.setswitchinterval(interval)
    for number, handler in zip(numbers, handlers, strict=True):
        signal.signal(number, handler)
    atexit.unregister(gc.freeze)


def _address_in(printed: str) -> str:
    """The address that is printed for the table of runs, up to the token if there is one."""
    (table,) = re.findall(r"^  table of runs   (\S+)/runs$", printed, re.MULTILINE)
    return str(table)


def _opener() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(urllib.request.ProxyHandler({}))


def test_the_pages_of_a_directory_are_printed_and_served_until_the_end(
    runs: Path, visit: Callable[..., _Visit]
) -> None:
    found = visit(runs, "--no-browser", paths=("", "v1/mindinsight/run-table"))

    token = found.address.rpartition("/")[2]
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{32}", found.address)
    assert (found.code, found.errors) == (0, ["the viewer has ended"])
    assert found.lines == [
        f"runs in {runs}",
        f"  runs            {found.address}/#/summary-manage",
        f"  model lineage   {found.address}/#/model-traceback",
        f"  data lineage    {found.address}/#/data-traceback",
        f"  table of runs   {found.address}/runs",
        "Ctrl-C ends the viewer",
    ]
    assert b"MindInsight" in found.answers[0]
    assert b'"./version_0"' in found.answers[1]
    again = visit(runs, "--no-browser")
    assert token not in again.address
    with pytest.raises(urllib.error.URLError, match="refused"):
        _opener().open(found.address)


def test_the_pages_of_a_single_run_are_printed_too(
    runs: Path, visit: Callable[..., _Visit]
) -> None:
    found = visit(runs / "version_0", "--no-browser", "--no-token", paths=())

    assert found.address.count("/") == 2
    assert found.lines[0] == f"runs in {runs / 'version_0'}"
    pages = f"{found.address}/#/train-manage"
    assert found.lines[4:7] == [
        f"  table of runs   {found.address}/runs",
        f"  dashboard       {pages}/training-dashboard?id=.%2F&summaryPath=.%2F",
        f"  scalars         {pages}/scalar?train_id=.%2F&summaryPath=.%2F",
    ]
    assert len(found.lines) == 14


def test_a_run_of_values_alone_or_of_lineage_alone_has_its_pages(
    tmp_path: Path, visit: Callable[..., _Visit]
) -> None:
    write_summary(tmp_path / "values", [values_at(1, {"loss": 1.0})])
    write_run(tmp_path / "lineage", TrainInfo(epoch=1))

    for name in ("values", "lineage"):
        found = visit(tmp_path / name, "--no-browser", paths=())
        assert any(line.startswith("  dashboard ") for line in found.lines), name


def test_a_directory_without_runs_is_watched_for_some(
    tmp_path: Path, visit: Callable[..., _Visit]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "link").symlink_to(tmp_path / "empty")

    said = "yet; the pages will show a run when it begins"
    empty, linked = (
        visit(tmp_path / name, "--no-browser", paths=()) for name in ("empty", "linked")
    )

    assert empty.errors[0] == f"no run in {tmp_path / 'empty'} {said}"
    assert empty.lines[0] == f"runs in {tmp_path / 'empty'}"
    assert linked.errors[0].startswith(f"no run in {tmp_path / 'linked'} {said}; symbolic links")


@pytest.mark.parametrize(
    ("options", "warning"),
    [
        (("--host", "localhost"), None),
        (("--host", "0.0.0.0"), "of 0.0.0.0 and knows the token can read"),
        (("--host", "0.0.0.0", "--no-token"), "of 0.0.0.0 can read"),
    ],
)
def test_whoever_reaches_the_port_from_elsewhere_is_warned_of(
    options: tuple[str, ...], warning: str | None, runs: Path, visit: Callable[..., _Visit]
) -> None:
    found = visit(runs, "--no-browser", *options)

    port = found.address.split(":")[2].partition("/")[0]
    said = "the runs, and the connections are not encrypted"
    warned = (
        [] if warning is None else [f"warning: anyone who reaches port {port} {warning} {said}"]
    )
    assert found.errors == [*warned, "the viewer has ended"]
    assert b"MindInsight" in found.answers[0]


def test_the_table_of_runs_is_served_where_the_front_end_is_missing(
    runs: Path, cache: Path, visit: Callable[..., _Visit], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache / "empty"))
    monkeypatch.setattr(frontend, "find_pip", lambda: None)

    found = visit(runs / "version_0", "--no-browser")

    assert found.lines == [
        f"runs in {runs / 'version_0'}",
        f"  table of runs   {found.address}/runs",
        "Ctrl-C ends the viewer",
    ]
    assert any("only the table of runs is shown" in line for line in found.errors)
    assert b'src="runs.js"' in found.answers[0]


@pytest.mark.parametrize(("names", "page"), [(["a"], "#/summary-manage"), (["a", "b"], "runs")])
def test_a_browser_is_opened_at_the_page_that_suits_the_runs(
    names: list[str], page: str, tmp_path: Path, cache: Path, visit: Callable[..., _Visit],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    for name in names:
        write_run(tmp_path / "runs" / name, TrainInfo(epoch=1))
    opened: list[str] = []

    def start(command: list[str], **_: object) -> None:
        place = urllib.parse.urlsplit(command[-1]).path
        opened.append(Path(urllib.request.url2pathname(place)).read_text(encoding="utf-8"))

    monkeypatch.setattr(browser.subprocess, "Popen", start)
    monkeypatch.setattr(browser.webbrowser, "_tryorder", None)  # read the variable again
    monkeypatch.setenv("BROWSER", "a-browser")

    found = visit(tmp_path / "runs")

    (text,) = opened
    assert f'content="0; url={found.address}/{page}"' in text
    assert list(cache.rglob("*.html")) == []


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("--port", -1), 2, "--port must be between 0 and 65535, not -1"),
        (("--port", 65536), 2, "--port must be between 0 and 65535, not 65536"),
        (("--memory", 0), 2, "--memory must be at least 1 MB, not 0"),
        (("--memory", 1, "--port", 65535, "--host", "no.such.host.invalid"), 1, "cannot listen on"),
    ],
)
def test_what_cannot_be_served_is_refused(
    words: tuple[object, ...], code: int, told: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(gc, "set_threshold", lambda threshold: None)  # of this process

    answer = mindsummary(capsys, "view", tmp_path, "--no-browser", *words)

    assert (answer.code, answer.out, answer.err.count("\n")) == (code, "", 1)
    assert told in answer.err
    assert mindsummary(capsys, "view", tmp_path / "none", *words[:2]).err == (
        f"mindsummary: {tmp_path / 'none'} is not a directory\n"
    )


def test_without_aiohttp_it_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)

    answer = mindsummary(capsys, "view", tmp_path, "--no-browser")

    assert answer.code == 1
    assert "the viewer needs aiohttp: pip install aiohttp" in answer.err
    assert answer.err.count("\n") == 1


def test_the_memory_of_loaded_runs_is_given_in_megabytes(
    runs: Path, cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = []

    def refused(directory: str, memory_bytes: int) -> None:
        given.append(memory_bytes)
        raise KeyboardInterrupt

    monkeypatch.setattr(loaded_runs, "LoadedRuns", refused)
    monkeypatch.setattr(gc, "set_threshold", lambda threshold: None)  # of this process

    answer = mindsummary(capsys, "view", runs, "--no-browser", "--port", 0, "--memory", 64)

    assert (answer.code, given) == (130, [64_000_000])


@pytest.mark.skipif(not socket.has_ipv6, reason="this system has no IPv6")
def test_a_system_that_serves_ipv6_alone_says_so(
    runs: Path, cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(directory: str, memory_bytes: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(loaded_runs, "LoadedRuns", refused)
    monkeypatch.setattr(gc, "set_threshold", lambda threshold: None)  # of this process
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)

    answers = [
        mindsummary(capsys, "view", runs, "--no-browser", "--port", 0, "--host", host)
        for host in ("::", "::1")
    ]

    assert ["accepts only IPv6 connections" in answer.err for answer in answers] == [True, False]


@pytest.mark.slow
def test_nothing_is_done_while_nobody_looks_and_nothing_grows(runs: Path, cache: Path) -> None:
    with viewing(runs, cache, "--no-token") as view:
        _opener().open(
            f"{view.server}/v1/mindinsight/datavisual/plugins?train_id=.%2Fversion_0"
        ).close()
        process = psutil.Process(view.process.pid)
        _wait_until_at_rest(process)
        before = process.cpu_times()
        time.sleep(3)
        after = process.cpu_times()

    # a tick of the clock
    assert (after.user, after.system) == pytest.approx((before.user, before.system), abs=0.011)


def _wait_until_at_rest(process: psutil.Process) -> None:
    """Wait for what the viewer still does after its answer, on a busy machine."""
    for _ in range(20):
        before = process.cpu_times()
        time.sleep(0.5)
        if process.cpu_times() == before:
            return


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_view_ends_well_and_leaves_nothing(
    number: signal.Signals, runs: Path, cache: Path
) -> None:
    before = sorted(cache.rglob("*"))
    with viewing(runs, cache) as view:
        code = view.end(number)

        assert (code, view.is_alone()) == (0, True)
    assert sorted(cache.rglob("*")) == before


@pytest.mark.slow
def test_the_printed_addresses_open_the_pages_and_nothing_else_does(
    runs: Path, cache: Path
) -> None:
    with viewing(runs, cache) as view:
        assert set(view.addresses) == {"runs", "model lineage", "data lineage"}
        with pytest.raises(urllib.error.HTTPError, match="403"):
            _opener().open(os.path.dirname(view.server))

        assert b"MindInsight" in _opener().open(view.addresses["runs"].split("#")[0]).read()


@pytest.mark.slow
def test_without_a_token_everyone_is_answered(runs: Path, cache: Path) -> None:
    with viewing(runs, cache, "--no-token") as view:
        assert f"{view.server}/#/summary-manage" in "".join(view.printed)
        assert view.server.count("/") == 2
        assert b"MindInsight" in _opener().open(view.server).read()


@pytest.mark.slow
def test_a_single_run_has_the_addresses_of_its_pages(runs: Path, cache: Path) -> None:
    with viewing(runs / "version_0", cache) as view:
        assert view.addresses["scalars"].endswith(
            "#/train-manage/scalar?train_id=.%2F&summaryPath=.%2F"
        )


@pytest.mark.slow
def test_an_empty_directory_may_be_watched(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "empty").mkdir()
    with viewing(tmp_path / "empty", cache) as view:
        assert "runs" in view.addresses
        assert (
            f"no run in {tmp_path / 'empty'} yet; the pages will show a run when it begins\n"
            in view.printed
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "warning"),
    [
        ((), None),
        (("--host", "localhost"), None),
        (
            ("--host", "0.0.0.0"),
            (
                "of 0.0.0.0 and knows the token can read the runs, and the connections are not "
                "encrypted"
            ),
        ),
        (
            ("--host", "0.0.0.0", "--no-token"),
            "of 0.0.0.0 can read the runs, and the connections are not encrypted",
        ),
    ],
)
def test_an_interface_that_others_reach_is_warned_of(
    options: tuple[str, ...], warning: str | None, runs: Path, cache: Path
) -> None:
    with viewing(runs, cache, *options) as view:
        printed = "".join(view.printed)

    assert ("warning" in printed) == (warning is not None)
    assert warning is None or warning in printed


@pytest.mark.slow
def test_code_beside_the_runs_is_not_run(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pip", "venv", "mindinsight", "gunicorn", "aiohttp", "json", "sitecustomize"):
        (runs / f"{name}.py").write_text(
            f"open({str(tmp_path / 'was_run')!r}, 'w')", encoding="utf-8"
        )
    variables = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(runs)}

    with viewing(runs, tmp_path / "empty_cache", variables=variables, cwd=runs) as view:
        assert "only the table of runs is shown" in "".join(view.printed)

    assert not (tmp_path / "was_run").exists()


@pytest.mark.slow
def test_without_the_front_end_the_table_of_runs_is_served(runs: Path, tmp_path: Path) -> None:
    variables = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(runs)}
    with viewing(runs, tmp_path / "empty_cache", variables=variables) as view:
        assert view.addresses == {}
        assert "--wheel mindinsight-2.3.1-py3-none-any.whl" in "".join(view.printed)
        for address in (view.table, f"{view.server}/"):
            assert b'src="runs.js"' in _opener().open(address).read()
        assert b"version_0" in _opener().open(f"{view.server}/v1/mindinsight/run-table").read()


def test_a_wheel_that_is_named_and_is_another_ends_the_command(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty_cache"))
    wheel = tmp_path / "another.whl"
    wheel.write_bytes(b"another")

    answer = mindsummary(capsys, "view", runs, "--no-browser", "--port", 0, "--wheel", wheel)

    assert answer.code == 1
    assert "is not the wheel of mindinsight==2.3.1" in answer.err


# Stands in for a browser that waits until it is closed, which is not before the test has looked
# around.
_WAITING_BROWSER = """#!/bin/sh
tr '\\0' ' ' < /proc/$$/cmdline > {notes}.part
mv {notes}.part {notes}
read line < {fifo}
"""


@pytest.mark.slow
def test_a_browser_that_waits_is_given_a_file_and_keeps_nobody_waiting(
    runs: Path, cache: Path, tmp_path: Path
) -> None:
    notes, fifo, browser = (tmp_path / name for name in ("notes", "fifo", "browser"))
    os.mkfifo(fifo)
    browser.write_text(_WAITING_BROWSER.format(notes=notes, fifo=fifo), encoding="utf-8")
    browser.chmod(0o700)
    before = sorted(cache.rglob("*"))
    try:
        with viewing(runs, cache, variables={"BROWSER": str(browser)}, opens_browser=True) as view:
            _wait_until(notes.exists)
            token = view.server.rpartition("/")[2]
            assert b"MindInsight" in _opener().open(view.server + "/").read()

            path = Path(
                urllib.request.url2pathname(
                    urllib.parse.urlsplit(notes.read_text(encoding="utf-8").split()[-1]).path
                )
            )
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert f'content="0; url={view.addresses["runs"]}"' in path.read_text(encoding="utf-8")
            assert token not in "".join(
                " ".join(_arguments(process)) for process in psutil.process_iter()
            )
            assert view.end(signal.SIGTERM) == 0
        assert sorted(cache.rglob("*")) == before
    finally:
        fifo.write_text("closed\n")


def _wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _arguments(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:  # it has ended
        return []


@pytest.mark.parametrize(("count", "is_read"), [(20, False), (21, True)])
def test_lineage_of_many_runs_is_read_before_a_page_asks(
    count: int, is_read: bool, tmp_path: Path, cache: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    for number in range(count):
        write_run(tmp_path / "many" / str(number), TrainInfo(epoch=number))
    known: list[str] = []
    monkeypatch.setattr(
        search.LineageCache, "lineages", lambda _, runs: [known.append(path) for path, _ in runs]
    )
    monkeypatch.setattr(serve, "serve_until_signal", lambda app, listener, ready: ready())
    monkeypatch.setattr(run_table, "SETTLED_S", 0.0)
    monkeypatch.setattr(threading.Thread, "start", threading.Thread.run)
    monkeypatch.setattr(gc, "set_threshold", lambda threshold: None)  # of this process

    mindsummary(capsys, "view", tmp_path / "many", "--no-browser", "--port", 0)

    listed = [run.path for run in LoadedRuns(str(tmp_path / "many")).listing()]
    assert known == (2 * listed if is_read else [])  # all lineage, then the rows of the table
    assert gc.isenabled()


def test_lineage_is_not_read_ahead_while_a_page_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(tmp_path / "a", TrainInfo(epoch=1))
    known: list[str] = []
    monkeypatch.setattr(run_table, "SETTLED_S", 0.0)
    monkeypatch.setattr(
        search.LineageCache, "lineages", lambda _, runs: [known.append(path) for path, _ in runs]
    )
    runs = LoadedRuns(str(tmp_path))
    ahead = threading.Thread(target=run_table.read_lineage, args=(runs,))
    with search.reading():
        ahead.start()
        ahead.join(0.1)
        assert known == []
        write_run(tmp_path / "b", TrainInfo(epoch=1))
    ahead.join()

    assert known[0] == str(tmp_path / "a")
    # the directories were looked through again
    assert {run.train_id for run in runs.listing()} == {"./a", "./b"}
