"""Row 40: two users of one machine, each with a viewer of the same runs, a home, and the same
temporary directory.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import stat
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from mindsummary_lightning.viewer.app import API_PREFIX
from tests.cli.demo_run import write_demo_run
from tests.faults.processes import open_python
from tests.viewer.small_frontend import COMMAND, put_into_cache

pytestmark = [
    pytest.mark.slow,
    pytest.mark.faults,
    pytest.mark.skipif(
        not sys.platform.startswith("linux") or os.geteuid() != 0,
        reason="only root starts processes of other users",
    ),
]

USERS = (65534, 12345)
_LINEAGES = f"{API_PREFIX}lineagemgr/lineages"


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory that every user reaches; those of pytest are root's alone."""
    with tempfile.TemporaryDirectory(prefix="mindsummary-users-") as directory:
        os.chmod(directory, 0o755)
        yield Path(directory)


def command_of(user: int, home: Path, temporary: Path, *arguments: str) -> subprocess.Popen[str]:
    """Python as another user, who reaches its files through open directories: the way to them may
    be closed.
    """
    with open_python() as python:
        variables = {
            **python.variables,
            "HOME": str(home),
            "TMPDIR": str(temporary),
            "PATH": os.defpath,
        }
        return subprocess.Popen(
            [python.program, *arguments], user=user, group=user, extra_groups=[],
            pass_fds=python.directories,
            env=variables, cwd="/", text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip


def run_as(user: int, home: Path, temporary: Path, program: str) -> str:
    with command_of(user, home, temporary, "-c", program) as process:
        return process.communicate(timeout=120)[0].strip()


@dataclass(frozen=True)
class Viewer:
    user: int
    home: Path
    process: subprocess.Popen[str]
    address: str
    """As printed, with the token."""

    @property
    def server(self) -> str:
        return self.address.rsplit("/", 3)[0]

    @property
    def token(self) -> str:
        return self.address.rsplit("/", 3)[1]


def printed_by(process: subprocess.Popen[str]) -> tuple[list[str], str]:
    """What a viewer says until it answers, and the address in it."""
    assert process.stdout is not None
    printed = []
    for line in process.stdout:
        printed.append(line)
        if line.startswith("Ctrl-C"):
            break
    addresses = [
        line.split()[-1] for line in printed if line.split()[:1] == ["runs"] and "#/" in line
    ]
    assert len(addresses) == 1, "".join(printed)
    return printed, addresses[0]


@contextlib.contextmanager
def viewing_as(user: int, runs: Path, home: Path, temporary: Path) -> Iterator[Viewer]:
    home.mkdir()
    put_into_cache(home / ".cache")
    for path in (home, *home.rglob("*")):
        os.chown(path, user, user)
    home.chmod(0o755)  # as many systems make it; what matters is what the viewer puts there
    words = ("view", str(runs), "--no-browser", "--port", "0")
    process = command_of(user, home, temporary, "-c", COMMAND, *words)
    try:
        yield Viewer(user, home, process, printed_by(process)[1])
    finally:
        process.terminate()
        process.communicate(timeout=60)


def _open(asked: urllib.request.Request | str) -> http.client.HTTPResponse:
    answer: http.client.HTTPResponse = urllib.request.build_opener(
        urllib.request.ProxyHandler({})
    ).open(asked, timeout=60)
    return answer


def test_a_user_without_a_home_looks_from_a_temporary_directory(shared: Path) -> None:
    # As in a container that is started with --user: HOME is / or not set, and nothing is writable.
    write_demo_run(shared / "runs" / "version_0")
    wheel = put_into_cache(shared / "wheels")
    for path in (shared, *shared.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    temporary = shared / "tmp"
    temporary.mkdir()
    temporary.chmod(0o1777)

    words = ("view", str(shared / "runs"), "--no-browser", "--port", "0", "--wheel", str(wheel))
    process = command_of(54321, Path("/"), temporary, "-c", COMMAND, *words)
    printed, address = printed_by(process)
    assert status(address.partition("#")[0]) == 200
    process.terminate()
    assert process.wait(60) == 0
    process.communicate()

    (said,) = (line for line in printed if "instead" in line)
    assert said.startswith("/.cache/mindsummary-lightning is not writable; this process uses ")
    assert "Traceback" not in "".join(printed)
    assert list(temporary.iterdir()) == []


def status(address: str) -> int:
    try:
        return _open(address).status
    except urllib.error.HTTPError as error:
        return error.code


def remarks(viewer: Viewer) -> list[dict[str, object]]:
    asked = urllib.request.Request(
        f"{viewer.server}/{viewer.token}{_LINEAGES}",
        data=b"{}",
        headers={"Content-Type": "application/json"},
        method="POST",
    )
    found = json.load(_open(asked))
    return [row["added_info"] for row in found["object"]]


def test_two_users_look_at_the_same_runs_and_not_at_each_other(
    shared: Path, figure: Callable[[int, str], None]
) -> None:
    runs, temporary = shared / "runs", shared / "tmp"
    write_demo_run(runs / "version_0")
    for path in (runs, *runs.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    temporary.mkdir()
    temporary.chmod(0o1777)
    (first, second) = USERS

    with (
        viewing_as(first, runs, shared / "first", temporary) as one,
        viewing_as(second, runs, shared / "second", temporary) as other,
    ):
        assert one.process.pid != other.process.pid
        assert [os.stat(f"/proc/{viewer.process.pid}").st_uid for viewer in (one, other)] == list(
            USERS
        )
        assert one.server != other.server
        assert one.token != other.token
        for own, foreign in ((one, other), (other, one)):
            assert status(f"{own.server}/{own.token}/") == 200
            assert status(own.server) == 403
            assert status(f"{own.server}/{foreign.token}/") == 403
        added = urllib.request.Request(
            f"{one.server}/{one.token}{_LINEAGES}?train_id=./version_0",
            data=b'{"remark": "mine"}',
            headers={"Content-Type": "application/json"},
            method="PUT",
        )
        assert _open(added).status == 200
        assert remarks(one) == [{"remark": "mine"}]
        assert remarks(other) == [{}]

        state = one.home / ".local" / "state" / "mindsummary-lightning"
        modes = {stat.S_IMODE(path.stat().st_mode) for path in state.rglob("*") if path.is_file()}
        assert modes == {0o600}
        assert {stat.S_IMODE(path.stat().st_mode) for path in (state / "remarks",)} == {0o700}
        (noted,) = (state / "remarks").glob("*.json")
        look = f"import os; print(os.access({str(noted)!r}, os.R_OK), open({str(noted)!r}).read())"
        assert "PermissionError" in run_as(second, other.home, temporary, look)
        environment = f"print(open('/proc/{one.process.pid}/environ').read())"
        assert "PermissionError" in run_as(second, other.home, temporary, environment)
        end = f"import os; os.kill({one.process.pid}, 15)"
        assert "PermissionError" in run_as(second, other.home, temporary, end)
        # which every user may read
        arguments = Path(f"/proc/{one.process.pid}/cmdline").read_bytes()
        assert one.token.encode() not in arguments

        other.process.terminate()
        assert other.process.wait(60) == 0
        assert status(f"{one.server}/{one.token}/") == 200
        assert list(temporary.iterdir()) == []
    figure(40, "two users' viewers of one run directory: both answer, 0 of 5 ways into the "
        "other's viewer, state or "
               "process open, 0 files in the shared temporary directory")  # fmt: skip
