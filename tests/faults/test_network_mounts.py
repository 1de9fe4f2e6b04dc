"""Rows 38 and 39: a mount without locks, whose calls fail with the errors of quotas and of
forgotten handles.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.network_mount import build_mount
from tests.faults.processes import run_victim
from tests.support import lineage_paths, read_lineage, read_scalars

pytestmark = [pytest.mark.slow, pytest.mark.faults]

Times = Callable[[int, int], int]
Figure = Callable[[int, str], None]
NEVER = 1_000_000


@pytest.fixture
def mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Subprocesses can let calls on their files fail."""
    monkeypatch.setenv("LD_PRELOAD", build_mount(tmp_path))


FAULTS = [(kind, errno.EDQUOT) for kind in ("write", "sync", "close")]
FAULTS += [(kind, errno.ESTALE) for kind in ("write", "look", "close")]


def test_training_ends_well_whichever_call_of_a_mount_fails(
    tmp_path: Path, mounted: None, times: Times, figure: Figure
) -> None:
    pytest.importorskip("lightning")
    afters = [0, 1, 2, 5, 10, 14, 20, 30, 60, NEVER] if times(0, 1) else [12]
    faults = [(kind, error, after) for kind, error in FAULTS for after in afters]
    if NEVER not in afters:
        faults.append((*FAULTS[0], NEVER))
    done = run_victim(
        "train_on_a_mount", tmp_path, *(",".join(map(str, fault)) for fault in faults)
    )
    assert not done.returncode, done.stderr

    failures = refused = 0
    for number, (kind, error, after) in enumerate(faults):
        work = tmp_path / str(number)
        told, log, run = (
            json.loads((work / "told").read_text(encoding="utf-8")),
            (work / "log").read_text(encoding="utf-8"),
            work / "mount" / "run",
        )
        steps = [step for step, _ in read_scalars(run, "mine")]
        is_failing = told["calls"] > after
        where = f"{kind} {errno.errorcode[error]} after {after}: {log}"

        assert told["steps"] == 20, where
        assert set(told["written"]) <= set(steps), where
        assert not lineage_paths(run) or read_lineage(run)
        assert "Traceback" not in log, where
        assert log.count("could not be recorded in") <= is_failing, where
        # the total at the end
        assert ("could not be recorded in" in log) == ("records of" in log), where
        if error == errno.ESTALE or not is_failing:
            # one file is lost, and the next one works
            assert len(told["written"]) >= 20 - is_failing, where
        failures += is_failing
        refused += 20 - len(told["written"])
    figure(38, f"{failures} places of a Trainer.fit at which write, fsync, close or fstat fails "
        "with EDQUOT or ESTALE, "
               f"and no locks: all end with 0; {refused} of {20 * len(faults)} values "
                   "refused, 0 that returned lost, "
               "one error and a total each")  # fmt: skip


# Each with the calls between two failures of the short form; the long form lets each call of each
# kind fail.
WORKS = {
    "verify": 1,
    "list": 1,
    "show": 20,
    "lineage": 1,
    "repair": 20,
    "export csv": 20,
    "export npy": 50,
    "export parquet": 100,
    "export tensorboard": 150,
    "import": 200,
}


@pytest.mark.parametrize("work", WORKS)
def test_a_verb_on_a_mount_that_fails_says_so_in_one_line(
    tmp_path: Path, mounted: None, times: Times, figure: Figure, work: str
) -> None:
    for package in ("tensorboard", "pyarrow", "pandas"):
        pytest.importorskip(package)
    done = run_victim("fail_at_calls", work, tmp_path, times(WORKS[work], 1), times(2, 1))
    assert not done.returncode, done.stderr

    told = json.loads(done.stdout)
    assert told["failures"] > 1
    figure(
        39,
        (
            f"{work}: {told['failures']} calls fail, {told['refused']} times one line and code "
            "1, 0 incomplete files"
        ),
    )
