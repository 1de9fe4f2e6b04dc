"""Names in a run's directory by what somebody else put there: nothing waits, nothing is followed or
lost.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.processes import open_python

pytestmark = [
    pytest.mark.faults,
    pytest.mark.slow,
    pytest.mark.skipif(os.name == "nt", reason="makes FIFOs"),
]

SHORT = ("FIFO", "link to a file", "no rights", "read-only")
LONG = (
    "socket",
    "device",
    "directory",
    "dangling link",
    "link to a directory",
    "empty",
    "sparse",
    "disappearing",
)
ROOTS = (
    "another user's",
    "full disk",
    "read-only mount",
)  # who is root puts them, in a name space of mounts of its own


@pytest.mark.parametrize(
    "kind", [*SHORT, *ROOTS, *(pytest.param(kind, marks=pytest.mark.long) for kind in LONG)]
)
def test_a_name_that_is_taken_by_something_else_costs_nothing_but_itself(
    kind: str, figure: Callable[[int, str], None]
) -> None:
    apart = ["unshare", "--mount"] if kind in ROOTS else []
    if apart and not shutil.which("unshare"):
        pytest.skip("unshare is not on the PATH: it makes what only the test sees")
    if (
        apart
        and subprocess.run([*apart, "mount", "-t", "tmpfs", "none", "/mnt"], check=False).returncode
    ):
        pytest.skip("takes root, and the right to mount")
    program = Path(__file__).with_name("names_and_faults.py")
    # not pytest's, which another user cannot enter
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o777)
        with open_python() as python:
            command = [*apart, python.program, str(program), f"{directory}/base", kind]
            variables = {**os.environ, **python.variables, "HOME": directory}
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, env=variables, timeout=280,
                pass_fds=python.directories,
            )  # fmt: skip

    assert (done.returncode, json.loads(done.stdout.splitlines()[-1])) == (0, []), done.stderr[
        -2000:
    ]
    figure(
        46, f"{kind}: 14 names, recorded and read by 13 verbs: 0 hang, 0 followed, 0 records lost"
    )
