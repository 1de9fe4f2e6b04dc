"""A real MindInsight, started for the tests, and a client of its REST interface.

``running_mindinsight`` starts the server of another Python environment on a free loopback port and
ends its whole process group, whatever happens to the test. ``MindInsight`` asks it; paths,
parameters and answers are MindInsight 2.3.1's. The judge shares nothing with what it judges.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.warm_processes import free_port

# the python executable of an environment that holds MindInsight 2.3.1
PYTHON_VARIABLE = "MINDINSIGHT_PYTHON"

_LIMIT_S = 60.0  # for everything that is waited for
_POLL_S = 0.1


class RefusedError(Exception):
    """MindInsight answered with an error.

    Attributes:
        status: HTTP status.
        code: MindInsight's own code, such as ``5054500E``; empty if the answer is not its JSON.
    """

    def __init__(self, url: str, status: int, body: bytes) -> None:
        try:
            answer = json.loads(body)
        except ValueError:
            answer = {}
        self.status = status
        self.code: str = answer.get("error_code", "")
        super().__init__(
            f"{url} answered {status} {self.code}: {answer.get('error_msg', body[:500])}"
        )


Query = Mapping[str, "str | int | Sequence[str]"]


@dataclass(frozen=True)
class MindInsight:
    """A running server.

    Attributes:
        address: ``http://127.0.0.1:<port>``, where the pages are.
        logs: folder of the server's own logs; load errors are in ``datavisual``, lineage ones in
            ``lineage``.
    """

    address: str
    logs: Path

    def get(self, path: str, query: Query | None = None) -> Any:
        """The parsed answer of ``GET <path>?<query>``; a sequence in the query is a repeated
        parameter.

        Raises:
            RefusedError: the answer is an error.
        """
        return _parsed(self.get_bytes(path, query))

    def get_bytes(self, path: str, query: Query | None = None) -> bytes:
        """The raw answer of ``GET <path>?<query>``."""
        return _fetch(urllib.request.Request(self._url(path, query)))

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The parsed answer of ``POST <path>`` with a JSON body."""
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(
            self._url(path), json.dumps(body).encode(), headers, method="POST"
        )
        return _parsed(_fetch(request))

    def _url(self, path: str, query: Query | None = None) -> str:
        url = f"{self.address}/v1/mindinsight/{path}"
        return f"{url}?{urllib.parse.urlencode(query, doseq=True)}" if query else url

    def train_jobs(self) -> dict[str, dict[str, Any]]:
        """Every run listed: train id (``./<folder>``) -> its row."""
        jobs = self.get("datavisual/train-jobs", {"offset": 0, "limit": 999})["train_jobs"]
        return {job["train_id"]: job for job in jobs}

    def wait_cached(self, train_id: str, **expected: Any) -> dict[str, Any]:
        """The row of a run, once it is listed, cached and whole, and its fields are as expected.

        A run that still grew when the server read it is "cached" as well, with what it had then:
        ``publish`` a finished run, or wait for what was recorded last.

        Args:
            train_id: ``./<folder>``.
            **expected: fields of the row and what they must be before it is returned, such as
                ``lineage_files=1``.

        Raises:
            TimeoutError: that was not so in time; says what the row was last.
        """
        wanted = {"cache_status": "CACHED", "is_integrity": True, **expected}
        row: dict[str, Any] | None = None

        def ready() -> bool:
            nonlocal row
            # Runs beyond the fifteenth are loaded only when asked for.
            with contextlib.suppress(RefusedError):
                self.plugins(train_id)
            row = self.train_jobs().get(train_id)
            return row is not None and all(
                row.get(field) == value for field, value in wanted.items()
            )

        wait_until(
            ready, lambda: f"{train_id} with {wanted}; the server lists {row}; logs in {self.logs}"
        )
        assert row is not None
        return row

    def plugins(self, train_id: str) -> dict[str, list[str]]:
        """Plugin -> tags of a run; asks for the run to be loaded if it is not."""
        answer: dict[str, dict[str, list[str]]] = self.get(
            "datavisual/plugins", {"train_id": train_id, "manual_update": "true"}
        )
        return answer["plugins"]

    def scalars(self, train_id: str, tag: str) -> list[tuple[int, float | None]]:
        """(step, value) of a scalar tag (``<name>/scalar``); None stands for NaN and infinities."""
        metadatas = self.get("datavisual/scalar/metadata", {"train_id": train_id, "tag": tag})[
            "metadatas"
        ]
        return [(point["step"], point["value"]) for point in metadatas]

    def histograms(self, train_id: str, tag: str) -> list[tuple[int, list[list[float]]]]:
        """(step, buckets as [left, width, count]) of a histogram tag, re-sampled by the server to
        its own buckets.
        """
        answer = self.get("datavisual/histograms", {"train_id": train_id, "tag": tag})
        return [(sample["step"], sample["buckets"]) for sample in answer["histograms"]]

    def images(self, train_id: str, tag: str) -> list[dict[str, Any]]:
        """Height, width, step and wall time of each picture of an image tag."""
        answer: dict[str, list[dict[str, Any]]] = self.get(
            "datavisual/image/metadata", {"train_id": train_id, "tag": tag}
        )
        return answer["metadatas"]

    def image(self, train_id: str, tag: str, step: int) -> bytes:
        """The encoded picture of one step."""
        return self.get_bytes(
            "datavisual/image/single-image", {"train_id": train_id, "tag": tag, "step": step}
        )

    def tensors(self, train_id: str, tag: str) -> list[tuple[int, dict[str, Any]]]:
        """(step, ``{"dims", "data_type", "statistics"}``) of a tensor tag."""
        answer = self.get(
            "datavisual/tensors", {"train_id": train_id, "tag": tag, "detail": "stats"}
        )
        return [(sample["step"], sample["value"]) for sample in answer["tensors"][0]["values"]]

    def tensor_slice(self, train_id: str, tag: str, step: int, dims: str) -> Any:
        """The elements of a slice such as ``[0,:,1:3]``, nested; NaN and infinities are ``NAN``,
        ``INF``, ``-INF``.
        """
        query: Query = {
            "train_id": train_id,
            "tag": tag,
            "detail": "data",
            "step": step,
            "dims": dims,
        }
        answer = self.get("datavisual/tensors", query)
        return answer["tensors"][0]["values"][0]["value"]["data"]

    def lineages(self, condition: Mapping[str, Any] | None = None) -> dict[str, dict[str, Any]]:
        """Rows of the model lineage that meet a search condition: train id -> its
        ``model_lineage``.
        """
        rows = self.post("lineagemgr/lineages", condition or {})["object"]
        return {row["summary_dir"]: row["model_lineage"] for row in rows}

    def wait_lineage(self, train_id: str) -> dict[str, Any]:
        """The lineage row of a run, once there is one.

        Raises:
            TimeoutError: there is none in time.
        """
        wait_until(lambda: train_id in self.lineages(), lambda: f"a lineage row of {train_id}")
        row: dict[str, Any] = self.lineages()[train_id]
        return row

    def dataset_graph(self, train_id: str) -> dict[str, Any]:
        """The data pipeline of a run; empty if it has none."""
        answer: dict[str, dict[str, Any]] = self.get(
            "datasets/dataset_graph", {"train_id": train_id}
        )
        return answer.get("dataset_graph", {})

    def graph_nodes(
        self, train_id: str, scope: str = "", mode: str = "normal"
    ) -> list[dict[str, Any]]:
        """The nodes of a scope of the computational graph; the root by default; mode ``normal`` or
        ``optimize``.
        """
        query = {"train_id": train_id, "mode": mode, **({"name": scope} if scope else {})}
        answer: dict[str, list[dict[str, Any]]] = self.get("datavisual/graphs/nodes", query)
        return answer["nodes"]

    def intervals(self, train_id: str) -> list[dict[str, Any]]:
        """Loss landscape intervals of a run: ``{"id", "value": [first, last]}``."""
        answer: dict[str, list[dict[str, Any]]] = self.get(
            "datavisual/landscape/intervals", {"train_id": train_id}
        )
        return answer["intervals"]


def publish(run: Path, base_dir: Path) -> str:
    """Move a finished run below the base directory in one step, so that the server never sees half
    of it.

    Returns:
        Its train id, ``./<folder>``.
    """
    run.rename(base_dir / run.name)
    return f"./{run.name}"


def wait_until(done: Callable[[], bool], awaited: Callable[[], str]) -> None:
    """Ask again and again until it is so.

    Raises:
        TimeoutError: it was not in a minute; says what was awaited.
    """
    deadline = time.monotonic() + _LIMIT_S
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {_LIMIT_S:.0f} s in vain for {awaited()}")
        time.sleep(_POLL_S)


def needed_python() -> str:
    """The Python of an environment that holds MindInsight; without one the test is skipped."""
    python = os.environ.get(PYTHON_VARIABLE)
    if not python:
        pytest.skip(
            f"{PYTHON_VARIABLE} names no Python with MindInsight 2.3.1; `nox -s mindinsight` "
            "makes one"
        )
    return python


@contextlib.contextmanager
def running_mindinsight(base_dir: Path, workspace: Path) -> Iterator[MindInsight]:
    """Start MindInsight over a directory of runs; it has answered once when the body begins, and is
    gone after it.

    Args:
        base_dir: its direct subdirectories are the runs.
        workspace: where the server keeps its logs.

    Raises:
        RuntimeError: the server ended before it answered; holds the end of its output.
        TimeoutError: it did not answer in time.
    """
    workspace.mkdir(parents=True, exist_ok=True)
    port = free_port()
    server = MindInsight(f"http://127.0.0.1:{port}", workspace / "log")
    environment = {
        **{
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "COVERAGE", "COV_"))
        },
        "MINDINSIGHT_PORT": str(port),
        "MINDINSIGHT_SUMMARY_BASE_DIR": str(base_dir),
        "MINDINSIGHT_WORKSPACE": str(workspace),
        "MINDINSIGHT_RELOAD_INTERVAL": "1",
    }
    output = workspace / "output.txt"
    with open(output, "wb") as sink:
        process = subprocess.Popen(
            _command(needed_python(), port),
            cwd=workspace,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a process group of its own: workers and parsers end with it
        )
        try:
            _wait_until_it_answers(server, process, output)
            yield server
        finally:
            _end_group(process)


def _command(python: str, port: int) -> list[str]:
    locate = (
        "import importlib.util as u; "
        "print(u.find_spec('mindinsight').submodule_search_locations[0])"
    )
    package = subprocess.run(
        [python, "-c", locate], check=True, capture_output=True, text=True
    ).stdout.strip()
    config = str(Path(package, "backend", "config", "gunicorn_conf.py"))
    application = "mindinsight.backend.application:APP"
    logger = "mindinsight.backend.run.GunicornLogger"
    return [
        python,
        "-m",
        "gunicorn",
        "-b",
        f"127.0.0.1:{port}",
        application,
        "-c",
        config,
        "--logger-class",
        logger,
    ]


def _wait_until_it_answers(
    server: MindInsight, process: subprocess.Popen[bytes], output: Path
) -> None:
    def answers() -> bool:
        if process.poll() is not None:
            said = output.read_text(encoding="utf-8", errors="replace")[-3000:]
            raise RuntimeError(
                f"MindInsight ended with status {process.returncode} before it answered: {said}"
            )
        try:
            server.train_jobs()
        except (OSError, RefusedError):
            return False
        return True

    wait_until(answers, lambda: f"an answer at {server.address}; output in {output}")


def _end_group(process: subprocess.Popen[bytes]) -> None:
    # Its parser processes may outlive a polite end, and nothing here is worth keeping.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=10)


def _fetch(request: urllib.request.Request) -> bytes:
    # loopback: a proxy must not take part
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=30) as answer:
            content: bytes = answer.read()
            return content
    except urllib.error.HTTPError as error:
        raise RefusedError(request.full_url, error.code, error.read()) from None


def _parsed(content: bytes) -> Any:
    # A bare NaN is no JSON: Python would read it, a browser does not.
    return json.loads(content, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"the answer holds a bare {name}, which is no JSON")
