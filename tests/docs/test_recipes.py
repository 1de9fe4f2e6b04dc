"""The recipes that need a cluster: their scripts, with what the cluster would give them, on this
machine.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from mindsummary_lightning import SummaryReader
from tests.docs.page_code import FIRST_RUN, runnable
from tests.docs.pages import ROOT, blocks
from tests.warm_processes import as_script, environment, free_port, start_warm

pytestmark = pytest.mark.slow

_PAGE = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
_LIMIT_S = 200
_SLURM = {
    "SLURM_NTASKS": "1", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0",
    "SLURM_JOB_NAME": "train",
    "SLURM_NTASKS_PER_NODE": "1", "SLURM_ARRAY_JOB_ID": "7",
}  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What is beside a reader's script: that of the first run, and an ``scontrol`` that leaves a
    file.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PL_TRAINER_ENABLE_PROGRESS_BAR", "False")
    monkeypatch.setenv("PL_TRAINER_ACCELERATOR", "'cpu'")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    _save("first_run.py", blocks((ROOT / FIRST_RUN).read_text(encoding="utf-8"))[0].code)
    _save("scontrol", '#!/bin/sh\necho "$@" >> requeued\n').chmod(0o755)
    return tmp_path


def _save(name: str, code: str) -> Path:
    path = Path(name).resolve()
    path.write_text(code, encoding="utf-8")
    return path


def _script(name: str) -> Path:
    (code,) = (block.code for block in runnable(_PAGE) if block.code.startswith(f"# {name}\n"))
    return _save(name, code)


def _start(task: int, output: int) -> BaseProcess:
    variables = {**_SLURM, "SLURM_ARRAY_TASK_ID": str(task), "SLURM_JOB_ID": str(7 + task)}
    return start_warm(
        as_script, _script("slurm_array.py"), stdout=output, stderr=output, variables=variables
    )


def _wait_until(is_so: Callable[[], bool], process: BaseProcess) -> None:
    while not is_so():
        assert process.is_alive()
        time.sleep(0.01)


@pytest.mark.skipif(os.name == "nt", reason="SLURM's signals are Unix's")
@pytest.mark.parametrize("is_requeued_by_lightning", [False, True], ids=["preempted", "requeued"])
def test_a_task_of_an_array_that_is_started_again_continues_its_own_run(
    folder: Path, is_requeued_by_lightning: bool
) -> None:
    run, other = folder / "runs" / "array_7" / "task_3", folder / "runs" / "array_7" / "task_4"
    with (folder / "output").open("w", encoding="utf-8") as output:
        first = _start(3, output.fileno())
        _wait_until((run / "checkpoints" / "last.ckpt").exists, first)
        if is_requeued_by_lightning:
            os.kill(first.pid or 0, signal.SIGUSR1)
            _wait_until((folder / "requeued").exists, first)
        first.terminate()
        first.join(_LIMIT_S)
        for task in (3, 4):
            again = _start(task, output.fileno())
            again.join(_LIMIT_S)
            assert again.exitcode == 0, (folder / "output").read_text(encoding="utf-8")

    said = (folder / "output").read_text(encoding="utf-8")
    assert said.count("`max_epochs=20` reached") == 2  # the first one was cut short
    assert (
        ("requeue 7_3" in (folder / "requeued").read_text(encoding="utf-8"))
        if is_requeued_by_lightning
        else True
    )
    assert said.count("Restored all states") == 1
    for task, files in ((run, 2), (other, 1)):
        assert len(list(task.glob("*_MS"))) == files
        assert list(SummaryReader(task).scalars("loss/auto").steps) == [1, *range(10, 881, 10)]
        assert SummaryReader(task).lineage().custom.values["status"] == "success"
    assert sorted(path.name for path in (folder / "runs" / "array_7").iterdir()) == [
        "task_3",
        "task_4",
    ]


@pytest.mark.skipif(os.name == "nt", reason="the recipe's line is a shell's of Unix")
def test_two_machines_that_torchrun_starts_leave_one_run_in_the_shared_directory(
    folder: Path,
) -> None:
    (line,) = re.findall(r"^torchrun .*$", _PAGE, re.MULTILINE)
    _script("two_machines.py")
    group = {**environment(), "GPUS": "1", "HOST": "127.0.0.1", "PORT": str(free_port())}
    machines = [
        subprocess.Popen(line, shell=True, env={**group, "RANK": str(rank)}) for rank in range(2)
    ]
    try:
        assert [machine.wait(_LIMIT_S) for machine in machines] == [0, 0]
    finally:
        for machine in machines:
            machine.kill()

    (run,) = (folder / "runs" / "two_machines").iterdir()
    lineage = SummaryReader(run).lineage()
    assert len(list(run.glob("*_MS"))) == 1
    assert (lineage.train.parallel_mode, lineage.train.device_num) == ("ddp", 2)
    assert SummaryReader(run).scalars("loss/auto").steps[-1] == 22  # of 44 batches
