"""The viewer under requests that no page sends, over runs that are damaged, and with many clients
at a time.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import shutil
import subprocess
import sys
import sysconfig
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import pytest

import mindsummary_lightning
from mindsummary_lightning import SummaryReader
from mindsummary_lightning.viewer.access import Access
from mindsummary_lightning.viewer.app import API_PREFIX, create_app
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from mindsummary_lightning.viewer.pages import page_handlers
from tests.cli.demo_run import write_demo_run
from tests.faults.damaged_runs import MINDSPORE_RUNS, page_requests, write_damaged_run
from tests.faults.fuzz_requests import Asked, random_request
from tests.faults.processes import victim_command
from tests.viewer.serving import serving
from tests.viewer.small_frontend import SMALL_WHEEL
from tests.warm_processes import ROOT, environment

pytestmark = [pytest.mark.faults, pytest.mark.slow]

_TOKEN = "a-token"
_ANSWER_LIMIT_S = 600  # of a machine that does much else


@contextmanager
def _serving(runs: Path) -> Iterator[int]:
    """The whole site in a thread; gives its port."""
    app = create_app(LoadedRuns(str(runs)), SMALL_WHEEL, Access(_TOKEN))
    with serving(app) as port:
        yield port


def _watched_server(runs: Path, folder: Path) -> subprocess.Popen[str]:
    command = victim_command("serve_and_watch", runs, folder, _TOKEN)
    with (folder / "log").open("w", encoding="utf-8") as log:
        return subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )


def _status(port: int, asked: Asked) -> int:
    """The status of the answer; 0 if the connection was closed instead, as for bytes that are no
    request.
    """
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_ANSWER_LIMIT_S)
    try:
        connection.putrequest(asked.method, _below_token(asked.target), skip_accept_encoding=True)
        for name, text in asked.headers.items():
            connection.putheader(name, text)
        connection.putheader("Content-Length", str(len(asked.body)))
        connection.endheaders(asked.body)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    except (ConnectionError, http.client.RemoteDisconnected, http.client.BadStatusLine):
        return 0
    finally:
        connection.close()


def _below_token(target: str) -> str:
    return f"/{_TOKEN}/{target.removeprefix('/')}" if not target.startswith("*") else target


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    shutil.copytree(MINDSPORE_RUNS, tmp_path / "runs", ignore=shutil.ignore_patterns("*.py"))
    write_demo_run(tmp_path / "runs" / "deeper" / "version_0")
    return tmp_path / "runs"


def _values(runs: Path) -> dict[str, list[str]]:
    """Parameters with values that mean something for these runs."""
    train_ids = ["./momentum_0.01", "./momentum_0.05", "./deeper/version_0"]
    kinds = [SummaryReader(str(runs / train_id)).tags() for train_id in train_ids]
    return {
        "train_id": train_ids,
        "tag": [f"{tag}/{kind}" for tags in kinds for kind, names in tags.items() for tag in names],
        "step": ["1", "-1", "5", "60"],
        "dims": ["[:]", "[:,:]", "[0,:]", "[0,0]", "[0,0,:,:]"],
        "detail": ["stats", "data", "histogram"],
        "plugin_name": ["scalar", "image", "graph"],
    }


def test_no_request_ends_in_an_error_of_ours_or_opens_a_file_outside(
    runs: Path, tmp_path: Path, times: Callable[[int, int], int], figure: Callable[[int, str], None]
) -> None:
    count = times(400, 10_000)
    source = random.Random(24)
    endpoints = [("GET", "/"), ("GET", "/static/js/app.01234567.js")]
    endpoints += [
        (method, API_PREFIX + path)
        for method, path in (endpoint.split() for endpoint in page_handlers())
    ]
    values = _values(runs)
    statuses: Counter[int] = Counter()
    failed = []
    with _watched_server(runs, tmp_path) as server:
        port = int(server.stdout.readline())
        for _ in range(count):
            asked = random_request(source, endpoints, values)
            status = _status(port, asked)
            statuses[status] += 1
            if status >= 500:
                failed.append((status, asked))
        opened = json.loads(server.communicate()[0])

    assert failed == [], (tmp_path / "log").read_text(encoding="utf-8")[-3000:]
    assert statuses[200] > count / 10  # it reaches what it is aimed at
    libraries = [
        sysconfig.get_path("stdlib"),
        sysconfig.get_path("purelib"),
        sysconfig.get_path("platlib"),
    ]
    package = os.path.dirname(mindsummary_lightning.__file__)
    inside = tuple(
        os.path.realpath(root) + os.sep for root in (tmp_path, package, sys.base_prefix, *libraries)
    )
    outside = {path for path in opened if not (os.path.realpath(path) + os.sep).startswith(inside)}
    assert outside == set()
    figure(
        41, f"{count} requests: {dict(sorted(statuses.items()))}; {len(opened)} opens, none outside"
    )


@pytest.mark.skipif(os.name == "nt", reason="makes FIFOs")
def test_a_damaged_run_is_shown_as_far_as_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    times: Callable[[int, int], int], figure: Callable[[int, str], None],
) -> None:  # fmt: skip
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    runs, secret, source = tmp_path / "runs", tmp_path / "secret", random.Random(42)
    secret.write_text("secret")
    runs.mkdir()
    for number in range(times(100, 1000)):
        write_damaged_run(runs / f"damaged_{number}", source)
    loaded = LoadedRuns(str(runs))
    listed = loaded.listing()
    assert len(listed) > times(100, 1000) / 2
    targets = [target for run in listed for target in _page_targets(loaded, run.train_id)]
    with _serving(runs) as port:
        answered = [(_status(port, Asked("GET", target)), target) for target in targets]
        for path in ("lineagemgr/lineages", "optimizer/targets/search"):
            assert _status(port, Asked("POST", API_PREFIX + path, body=b"{}")) == 200

    assert [(status, target) for status, target in answered if status not in (200, 400)] == [], (
        caplog.text[-3000:]
    )
    assert secret.read_text(encoding="utf-8") == "secret"
    figure(42, f"{len(listed)} damaged runs, {len(targets)} requests: none failed, none hung")


def _page_targets(runs: LoadedRuns, train_id: str) -> list[str]:
    return [
        f"{API_PREFIX}{path}?{urlencode(query, doseq=True)}"
        for path, query in page_requests(runs, train_id)
    ]


def test_fifty_clients_are_answered_at_the_same_time(runs: Path) -> None:
    loaded = LoadedRuns(str(runs))
    loaded.listing()
    targets = _page_targets(loaded, "./momentum_0.01")[::4]
    statuses: list[int] = []
    with _serving(runs) as port:

        def look() -> None:
            statuses.extend(_status(port, Asked("GET", target)) for target in targets)

        clients = [threading.Thread(target=look) for _ in range(50)]
        for client in clients:
            client.start()
        for client in clients:
            client.join(_ANSWER_LIMIT_S)
        assert not any(client.is_alive() for client in clients)

    assert len(statuses) == 50 * len(targets)
    assert set(statuses) <= {200, 400}
