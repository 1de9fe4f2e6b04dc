"""Two machines compute one landscape: two processes on this one that have what torchrun gives them.

In the long form two real torchrun launchers, with two processes each.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mindsummary_lightning import SummaryLandscape, SummaryReader
from tests.landscape import nets
from tests.warm_processes import as_script, environment, free_port, run_two_ranks

pytestmark = pytest.mark.slow

SCRIPT = """
import os, signal, sys
import torch
from mindsummary_lightning import SummaryLandscape
from mindsummary_lightning.landscape.checkpoints import RowStore
from tests.landscape import nets

torch.set_num_threads(1)
write, rows = RowStore.write, []

def write_and_die(self, index, losses):
    write(self, index, losses)
    rows.append(index)
    if len(rows) == int(os.environ["ROWS_UNTIL_DEATH"]) and os.environ["GROUP_RANK"] == "1":
        os.kill(os.getpid(), signal.SIGKILL)

RowStore.write = write_and_die
net = nets.Mlp()
found = SummaryLandscape(sys.argv[1]).generate(
    net, nets.loader(net), nets.LOSS, accelerator="cpu", devices=int(sys.argv[2]), num_nodes=2
)
with open(f"computed-{os.environ['GROUP_RANK']}-{os.environ['LOCAL_RANK']}", "w") as computed:
    computed.write(str(len(rows)))
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    nets.train(nets.Mlp(), str(tmp_path / "run"))
    return tmp_path / "run"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROWS_UNTIL_DEATH", "-1")
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    return tmp_path / "script.py"


def by_torchrun(script: Path, run: Path, devices: int) -> list[tuple[int, str]]:
    """Exit status and output of the two launchers."""
    port = free_port()
    launchers = [
        subprocess.Popen(
            [
                sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--node-rank",
                str(node),
                "--nproc-per-node", str(devices), "--master-addr", "127.0.0.1",
                "--master-port", str(port),
                str(script), str(run), str(devices),
            ],
            env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        for node in range(2)
    ]  # fmt: skip
    try:
        outputs = [launcher.communicate(timeout=200)[0] for launcher in launchers]
    finally:
        for launcher in launchers:
            launcher.kill()
    return [
        (launcher.returncode, output) for launcher, output in zip(launchers, outputs, strict=True)
    ]


def rows_computed(tmp_path: Path) -> list[int]:
    """Rows of each machine, from files: what its two processes print to one pipe could be cut into
    each other.
    """
    return [
        sum(int(path.read_text(encoding="utf-8")) for path in tmp_path.glob(f"computed-{node}-*"))
        for node in range(2)
    ]


def expected(tmp_path: Path) -> dict[str, Any]:
    torch.manual_seed(0)
    net = nets.Mlp()
    nets.train(net, str(tmp_path / "alone"))
    return SummaryLandscape(tmp_path / "alone").generate(
        net, nets.loader(net), nets.LOSS, accelerator="cpu", devices=1
    )


def assert_recorded(run: Path, landscapes: dict[str, Any]) -> None:
    found = {landscape.tag: landscape for landscape in SummaryReader(run).landscapes()}
    assert found.keys() == landscapes.keys()
    for tag, landscape in found.items():
        np.testing.assert_allclose(landscape.z, landscapes[tag].surface.z, rtol=1e-6)


def test_two_machines_divide_a_landscape_and_one_of_them_writes_it(
    tmp_path: Path, script: Path, run: Path
) -> None:
    done = run_two_ranks(as_script, script, run, 1, are_machines=True)
    assert done.returncode == 0, done.stderr
    assert_divided(tmp_path, run)


@pytest.mark.long
def test_torchrun_starts_several_processes_on_each_machine(
    tmp_path: Path, script: Path, run: Path
) -> None:
    outputs = by_torchrun(script, run, 2)
    assert [status for status, _ in outputs] == [0, 0], outputs
    assert_divided(tmp_path, run)


def assert_divided(tmp_path: Path, run: Path) -> None:
    rows = rows_computed(tmp_path)
    assert sum(rows) == 5 + 1 + 5  # an interval with its path, and the last checkpoint
    assert min(rows) > 0
    assert_recorded(run, expected(tmp_path))
    assert not list((run / "ckpt_dir").glob("rows_*"))


@pytest.mark.long
def test_after_one_machine_dies_the_same_call_computes_the_missing_rows(
    tmp_path: Path, script: Path, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROWS_UNTIL_DEATH", "1")
    outputs = by_torchrun(script, run, 2)
    assert all(status != 0 for status, _ in outputs)
    kept = len(list((run / "ckpt_dir").glob("rows_*/*.row")))
    assert kept > 0
    monkeypatch.setenv("ROWS_UNTIL_DEATH", "-1")
    outputs = by_torchrun(script, run, 2)
    assert [status for status, _ in outputs] == [0, 0], outputs
    assert sum(rows_computed(tmp_path)) == 11 - kept
    assert_recorded(run, expected(tmp_path))
