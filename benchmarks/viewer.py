"""Time the page server beside the original: start, lists, curves, lineage, memory, rest, clients;
tables and reports.

``python benchmarks/viewer.py [SCALARS]``, 1,000,000 by default. The original MindInsight takes part
if ``MINDINSIGHT_PYTHON`` names a Python that holds MindInsight 2.3.1; it needs minutes to read a
long run, so what it is asked for is bounded by ``PEER_LIMIT_S``. Both servers run as commands of
their own and are asked over HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, os.path.join(os.path.dirname(__file__), os.pardir))  # for the tests' Chromium
sys.path.insert(0, os.path.dirname(__file__))

import aiohttp
import lineage_query
import numpy as np
import paired
import psutil
import pytest

from mindsummary_lightning import SummaryRecord

SCALARS = 1_000_000
TAGS = 4
LONG_RUNS = 15
MANY_RUNS = 10_000
FEW_RUNS = 10
STARTS = 5
LINEAGE_RUNS = 999  # as many as the original lists
REPORTS = {
    "16 histograms": (1, 16),
    "88 histograms": (1, 88),
    "374 histograms": (1, 374),
    "19 runs": (19, 16),
}
HISTOGRAM_STEPS, CURVES, CURVE_STEPS = 12, 12, 6_000  # of each run of a report
REST_S = 10.0
LOOK_AFTER_S = 5.0  # what a person needs to open a page
PEER_LIMIT_S = 300.0
CLIENTS, LOAD_S, LOAD_ROUNDS = (1, 20, 200), 2.5, 3
LOAD_RUNS, LOAD_STEPS, LOAD_TAGS = 5, 2_000, 4  # the original sends 1,000 points of a curve
OVERLAID = 20
_OURS = "import sys; from mindsummary_lightning.cli import main; sys.exit(main())"


@dataclass(frozen=True)
class Server:
    """A running server."""

    name: str
    process: psutil.Process
    port: int
    started_s: float  # from the start of the command to its first answer

    def ask(self, path: str, body: Any = None) -> Any:
        """The parsed answer of a GET, or of a POST with a body."""
        address = f"http://127.0.0.1:{self.port}/v1/mindinsight/{path}"
        return json.loads(_answer(address, body))

    def received(self, path: str, body: Any = None) -> bytes:
        """The answer as a browser receives it, which takes gzip."""
        return _answer(
            f"http://127.0.0.1:{self.port}/v1/mindinsight/{path}", body, {"Accept-Encoding": "gzip"}
        )

    def timed(self, path: str, body: Any = None) -> float:
        """Seconds from a browser's request to the last byte of its answer."""
        start = time.perf_counter()
        self.received(path, body)
        return time.perf_counter() - start

    def curve(self, run: str, tag: str, last_step: int) -> float:
        """Seconds until a curve reaches its last step, from the request that loads the run."""
        start = time.perf_counter()
        self.ask(f"datavisual/plugins?train_id={run}&manual_update=true")
        while time.perf_counter() - start < PEER_LIMIT_S:
            with contextlib.suppress(urllib.error.HTTPError):
                points = self.ask(f"datavisual/scalar/metadata?train_id={run}&tag={tag}")[
                    "metadatas"
                ]
                if points and points[-1]["step"] == last_step:
                    return time.perf_counter() - start
            time.sleep(0.05)
        return float("nan")

    def _all(self) -> list[psutil.Process]:
        return [self.process, *self.process.children(recursive=True)]

    def memory_mb(self) -> float:
        """Resident memory of the server's processes, what they share counted once each."""
        return sum(process.memory_info().rss for process in self._all()) / 1e6

    def processor_s(self) -> float:
        """Processor time that it has used."""
        return sum(sum(process.cpu_times()[:2]) for process in self._all())

    def busy(self) -> float:
        """Share of one core that is used while nobody asks."""
        before = self.processor_s()
        time.sleep(REST_S)
        return (self.processor_s() - before) / REST_S


def _answer(address: str, body: Any, headers: Mapping[str, str] | None = None) -> bytes:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        address, data, {"Content-Type": "application/json", **(headers or {})}
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=PEER_LIMIT_S) as answer:
        content: bytes = answer.read()
        return content


def _commands(
    base: Path, port: int, workspace: Path
) -> dict[str, tuple[list[str], dict[str, str]]]:
    view = ["view", str(base), "--no-browser", "--no-token", "--port", str(port)]
    commands = {"ours": ([sys.executable, "-c", _OURS, *view], dict(os.environ))}
    python = os.environ.get("MINDINSIGHT_PYTHON")
    if python:
        server = [
            "-m",
            "gunicorn",
            "-b",
            f"127.0.0.1:{port}",
            "-c",
            "python:mindinsight.backend.config.gunicorn_conf",
        ]
        logger = [
            "--logger-class",
            "mindinsight.backend.run.GunicornLogger",
            "mindinsight.backend.application:APP",
        ]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        settings = {"PORT": str(port), "SUMMARY_BASE_DIR": str(base), "WORKSPACE": str(workspace)}
        variables = kept | {f"MINDINSIGHT_{name}": value for name, value in settings.items()}
        commands["MindInsight"] = ([python, *server, *logger], variables)
    return commands


@contextlib.contextmanager
def serving(name: str, base: Path) -> Iterator[Server]:
    """Start a server and wait for its first answer."""
    port = paired.free_port()
    with tempfile.TemporaryDirectory() as workspace:
        command, variables = _commands(base, port, Path(workspace))[name]
        start = time.perf_counter()
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(
            command, env=variables, cwd=workspace, stdout=quiet, stderr=quiet
        )
        server = Server(name, psutil.Process(process.pid), port, 0.0)
        try:
            while True:
                with contextlib.suppress(urllib.error.URLError, ConnectionError):
                    server.ask("datavisual/train-jobs?offset=0&limit=20")
                    break
                assert process.poll() is None, f"{command} ended with {process.returncode}"
                time.sleep(0.01)
            yield Server(name, server.process, port, time.perf_counter() - start)
        finally:
            processes = [server.process]
            with contextlib.suppress(psutil.NoSuchProcess):  # a measure may have ended it
                processes += server.process.children(recursive=True)
                process.terminate()
            _, alive = psutil.wait_procs(processes, timeout=5)
            for left in alive:
                left.kill()
            process.wait()


def write_long_run(run: Path, scalars: int) -> None:
    """A run whose events hold four scalars each."""
    with SummaryRecord(str(run)) as record:
        for step in range(1, scalars // TAGS + 1):
            for tag in range(TAGS):
                record.add_value("scalar", f"metric_{tag}", 1 / (step + tag))
            record.record(step)


def write_many_runs(base: Path, count: int) -> None:
    """Runs of one small file each, three levels deep as Hydra leaves them."""
    with SummaryRecord(str(base / "template")) as record:
        record.add_value("scalar", "loss", 1.0)
        record.record(1)
    (file,) = (base / "template").iterdir()
    for number in range(count):
        run = base / f"day_{number // 100}" / f"job_{number}"
        run.mkdir(parents=True)
        os.link(file, run / file.name)
    shutil.rmtree(base / "template")


def measure_starts(few: Path, many: Path, name: str) -> dict[str, float]:
    """Medians of the start to the first list, with few and with many runs in turn."""
    found: dict[str, list[float]] = {}
    for _, (runs, base) in itertools.product(range(STARTS), ((FEW_RUNS, few), (MANY_RUNS, many))):
        with serving(name, base) as server:
            found.setdefault(f"start to first answer, {runs} runs", []).append(server.started_s)
            found.setdefault(f"processor time of it, {runs} runs", []).append(server.processor_s())
    return {measure: statistics.median(times) for measure, times in found.items()}


def measure_lists(base: Path, name: str) -> dict[str, float]:
    """The list of many runs."""
    with serving(name, base) as server:
        first = server.timed("datavisual/train-jobs?offset=0&limit=999")
        grown = next(path for path in base.rglob("*summary*") if path.is_file())
        time.sleep(1.5)  # longer than a listing is kept
        with open(grown, "ab") as file:
            file.write(b"")
        os.utime(grown)
        again = server.timed("datavisual/train-jobs?offset=0&limit=20")
        end = time.perf_counter()
        server.process.terminate()
        server.process.wait()
        end = time.perf_counter() - end
        return {"list of 999": first, "list after one grew": again, "end after SIGTERM": end}


def measure_curves(base: Path, name: str, scalars: int) -> dict[str, float]:
    """Curves of long runs, memory, and the load at rest."""
    last, runs = scalars // TAGS, sorted(path.name for path in base.iterdir())
    with serving(name, base) as server:
        found = {
            "first curve": server.curve(f"./{runs[0]}", "metric_0/scalar", last),
            "curve again": server.timed(
                f"datavisual/scalar/metadata?train_id=./{runs[0]}&tag=metric_0/scalar"
            ),
        }
        if name == "ours":
            for run, tag in itertools.product(runs, range(TAGS)):
                server.curve(f"./{run}", f"metric_{tag}/scalar", last)
            found[f"memory with {len(runs)} such runs, MB"] = server.memory_mb()
        found["memory, MB"] = server.memory_mb()
        found["share of a core at rest"] = server.busy()
        return found


def measure_lineage(base: Path, name: str) -> dict[str, float]:
    """The model lineage page of many runs."""
    body = {"lineage_type": {"in": ["model"]}}
    with serving(name, base) as server:
        time.sleep(LOOK_AFTER_S)
        later = server.timed("lineagemgr/lineages", body)
    with serving(name, base) as server:
        return {
            f"model lineage, first asked {LOOK_AFTER_S:.0f} s after the first answer": later,
            "model lineage, asked at once": server.timed("lineagemgr/lineages", body),
            "model lineage again": server.timed("lineagemgr/lineages", body),
            "importance": server.timed("optimizer/targets/search", body),
            "model lineage as sent to a browser, MB": len(
                server.received("lineagemgr/lineages", body)
            )
            / 1e6,
        }


def measure_table(base: Path, name: str) -> dict[str, float]:
    """The table of runs: asked later and at once, its first rows, all rows, all again, and the
    curves of a screen.
    """
    with serving(name, base) as server:
        time.sleep(LOOK_AFTER_S)
        later = server.timed("run-table")
    with serving(name, base) as server:
        begin = time.perf_counter()
        answer = server.ask("run-table")
        found = {
            f"table of runs, first asked {LOOK_AFTER_S:.0f} s after the first answer": later,
            "table of runs, asked at once, first rows": time.perf_counter() - begin,
        }
        while answer["unread"]:
            answer = server.ask("run-table")
        found["table of runs, all rows"] = time.perf_counter() - begin
        found["table of runs again"] = server.timed("run-table")
        found["memory with the table, MB"] = server.memory_mb()
        found["table of runs as sent to a browser, MB"] = len(server.received("run-table")) / 1e6
        found["steps and curves of 50 rows"] = server.timed(
            "run-table/curves", {"train_ids": answer["train_ids"][:50]}
        )
    with contextlib.suppress(pytest.skip.Exception):  # without selenium or Chromium
        found |= measure_page(base, name)
    return found


def measure_page(base: Path, name: str) -> dict[str, float]:
    """The page of the table in Chromium: until its rows stand, and a search among all of them."""
    from tests.oracle.browser import running_browser

    search = (
        "const box = document.getElementById('search'), begin = performance.now(); box.value "
        "= 'metric/accuracy>0.9';"
        "box.dispatchEvent(new Event('input')); document.body.getBoundingClientRect(); "
        "return performance.now() - begin"
    )
    with serving(name, base) as server, tempfile.TemporaryDirectory() as profile:
        address = f"http://127.0.0.1:{server.port}"
        with running_browser(address, Path(profile)) as browser:
            begin = time.perf_counter()
            browser.driver.get(f"{address}/runs")
            while not browser.driver.execute_script(
                "return document.querySelector('td.name') !== null"
            ):
                time.sleep(0.01)
            opened = time.perf_counter() - begin
            while "being read" in browser.text():
                time.sleep(0.1)
            return {
                "its page opened": opened,
                "a search in it": browser.driver.execute_script(search) / 1e3,
            }


def write_report_runs(base: Path, runs: int, histograms: int) -> None:
    """Runs with curves and histograms."""
    chance = np.random.default_rng(0)
    tensors = [chance.normal(size=1_000).astype(np.float32) for _ in range(20)]
    for number in range(runs):
        with SummaryRecord(str(base / f"run_{number}")) as record:
            for step in range(1, CURVE_STEPS + 1):
                for tag in range(CURVES):
                    record.add_value("scalar", f"metric_{tag}", 1 / (step + tag))
                if step % (CURVE_STEPS // HISTOGRAM_STEPS) == 1:
                    for tag in range(histograms):
                        record.add_value("histogram", f"layer_{tag}", tensors[(step + tag) % 20])
                record.record(step)


def measure_report(base: Path) -> dict[str, float]:
    """``mindsummary report`` as a command of its own, and the size of its page."""
    out = base.with_suffix(".html")
    begin = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", _OURS, "report", str(base), "-o", str(out)],
        check=True,
        capture_output=True,
    )
    return {"report": time.perf_counter() - begin, "its page, MB": out.stat().st_size / 1e6}


def write_load_runs(base: Path) -> None:
    """Runs with a few curves, and histograms at as many steps as the original shows."""
    chance = np.random.default_rng(0)
    for number in range(LOAD_RUNS):
        with SummaryRecord(str(base / f"run_{number}")) as record:
            for step in range(1, LOAD_STEPS + 1):
                for tag in range(LOAD_TAGS):
                    record.add_value("scalar", f"metric_{tag}", 1 / (step + tag))
                    if step % (LOAD_STEPS // 50) == 0:
                        record.add_value(
                            "histogram",
                            f"layer_{tag}",
                            chance.normal(size=1_000).astype(np.float32),
                        )
                record.record(step)


def _load_paths() -> list[tuple[str, str]]:
    """Kinds and paths of what the clients ask for in turn."""
    paths = []
    for run, tag in itertools.product(range(LOAD_RUNS), range(LOAD_TAGS)):
        of_run = f"train_id=./run_{run}"
        paths += [
            ("list", "train-jobs?offset=0&limit=20"),
            ("tags", f"plugins?{of_run}"),
            ("curve", f"scalar/metadata?{of_run}&tag=metric_{tag}/scalar"),
            ("histograms", f"histograms?{of_run}&tag=layer_{tag}/histogram"),
        ]
    return paths


async def _load(server: Server, clients: int) -> dict[str, list[float]]:
    """Seconds of each answer, by kind, of clients that ask again as soon as they have an answer, as
    browsers do.
    """
    paths, found = _load_paths(), defaultdict(list)
    end = time.perf_counter() + LOAD_S

    async def client(number: int, session: aiohttp.ClientSession) -> None:
        for kind, path in itertools.islice(itertools.cycle(paths), number, None):
            start = time.perf_counter()
            if start > end:
                return
            address = f"http://127.0.0.1:{server.port}/v1/mindinsight/datavisual/{path}"
            async with session.get(address, headers={"Accept-Encoding": "gzip"}) as answer:
                assert answer.status == 200, (address, answer.status, await answer.text())
                await answer.read()
            found[kind].append(time.perf_counter() - start)

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await asyncio.gather(*(client(number, session) for number in range(clients)))
    return found


def measure_load(base: Path, names: list[str]) -> dict[str, dict[str, float]]:
    """Both servers on the same runs, alternating; of each measure the median of the rounds."""
    found: dict[str, dict[str, list[float]]] = {name: defaultdict(list) for name in names}
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(serving(name, base)) for name in names]
        for server in servers:
            for run, tag in itertools.product(range(LOAD_RUNS), range(LOAD_TAGS)):
                server.curve(f"./run_{run}", f"metric_{tag}/scalar", LOAD_STEPS)
        for clients, _, server in itertools.product(CLIENTS, range(LOAD_ROUNDS), servers):
            begin = time.perf_counter()
            times = asyncio.run(_load(server, clients))
            rate = sum(map(len, times.values())) / (time.perf_counter() - begin)
            measures = found[server.name]
            measures[f"requests a second, clients: {clients}"].append(rate)
            for kind, of_kind in times.items():
                measures[f"{kind}, ms, clients: {clients}"].append(statistics.median(of_kind) * 1e3)
        for server in servers:
            found[server.name]["memory, MB"].append(server.memory_mb())
    return {
        name: {key: statistics.median(all_) for key, all_ in of.items()}
        for name, of in found.items()
    }


def measure_overlay(base: Path, name: str) -> dict[str, float]:
    """The curves of one tag of many long runs, as the table's overlay asks for them, cold and
    again.
    """
    run = next(base.iterdir())
    for number in range(LONG_RUNS, OVERLAID):
        shutil.copytree(run, base / f"run_{number}", dirs_exist_ok=True)
    query = "&".join(f"train_id=./{path.name}" for path in base.iterdir())
    with serving(name, base) as server:
        path = f"datavisual/scalars?{query}&tag=metric_0/scalar"
        return {
            f"overlay of {OVERLAID} runs": server.timed(path),
            "overlay again": server.timed(path),
        }


def print_table(title: str, found: dict[str, dict[str, float]]) -> None:
    """A Markdown table: a row per measure, a column per server; seconds unless the row says
    otherwise.
    """
    lines = [
        f"### {title}",
        "",
        f"| seconds | {' | '.join(found)} |",
        "|---|" + "---:|" * len(found),
    ]
    for measure in found["ours"]:
        figures = [
            f"{figures[measure]:.3g}" if measure in figures else "-" for figures in found.values()
        ]
        lines.append(f"| {measure} | {' | '.join(figures)} |")
    print("\n".join([*lines, "", paired.machine(), ""]), flush=True)


def main() -> None:
    scalars = int(sys.argv[1]) if len(sys.argv) > 1 else SCALARS
    with tempfile.TemporaryDirectory() as temporary:
        base = Path(temporary)
        names = list(_commands(base, 0, base))
        for folder, count in (("few", FEW_RUNS), ("many", MANY_RUNS)):
            (base / folder).mkdir()
            write_many_runs(base / folder, count)
        (base / "lineage").mkdir()
        lineage_query.write_runs(base / "lineage", LINEAGE_RUNS)
        (base / "sweep").mkdir()
        lineage_query.write_runs(base / "sweep", MANY_RUNS)
        for title, (runs, histograms) in REPORTS.items():
            write_report_runs(base / "reports" / title, runs, histograms)
        write_load_runs(base / "load")
        found = measure_load(base / "load", names)
        print_table(f"Clients, median of {LOAD_ROUNDS} rounds", found)
        paired.save("viewer: clients", "clients", found)
        write_long_run(base / "long" / "run_0", scalars)
        for number in range(1, LONG_RUNS):
            shutil.copytree(base / "long" / "run_0", base / "long" / f"run_{number}")
        tables = {
            f"Start, median of {STARTS}": lambda name: measure_starts(
                base / "few", base / "many", name
            ),
            f"{MANY_RUNS} runs": lambda name: measure_lists(base / "many", name),
            f"Runs of {scalars} scalars": lambda name: measure_curves(base / "long", name, scalars),
            f"Lineage of {LINEAGE_RUNS} runs": lambda name: measure_lineage(base / "lineage", name),
        }
        ours_alone = {
            f"Lineage of {MANY_RUNS} runs": lambda name: measure_lineage(base / "sweep", name),
            f"Overlay of {OVERLAID} runs of {scalars} scalars": lambda name: measure_overlay(
                base / "long", name
            ),
            f"Table of {MANY_RUNS} runs": lambda name: measure_table(base / "sweep", name),
            **{
                f"Report of {title}": lambda _, title=title: measure_report(
                    base / "reports" / title
                )
                for title in REPORTS
            },
        }
        for title, measure in {**tables, **ours_alone}.items():
            found = {name: measure(name) for name in (names if title in tables else names[:1])}
            print_table(title, found)
            paired.save(f"viewer: {title}", title, found)


if __name__ == "__main__":
    main()
