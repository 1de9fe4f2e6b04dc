"""Which run a call belongs to: every row of the table, through a logger, a collector and both, in one process and more."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from mindsummary_lightning import SummaryReader
from mindsummary_lightning.trainer.run_ownership import PLACES, Call, Holds
from tests.trainer.ownership_flows import FLOWS, Expected, run_flow, run_in_process
from tests.trainer.support import points
from tests.warm_processes import run_two_ranks, run_warm

_NO_SPAWN = ("same_trainer_after_failure",)  # Lightning: a Trainer that launches processes fits once


def _judge_points(directory: str, tag: str) -> list[tuple[int, float]]:
    events = EventAccumulator(directory, {"scalars": 0})
    events.Reload()
    known = events.Tags()["scalars"]
    return [(event.step, event.value) for event in events.Scalars(tag)] if tag in known else []


def _check(run: Path, kind: str, expected: Expected) -> None:
    if kind != "C":
        assert [step for step, _ in points(run, "train/loss")] == expected.train, run
        tags = SummaryReader(run).tags()["scalar"]
        validated = points(run, "val/loss") if "val/loss" in tags else []
        assert len(validated) == expected.validations, run
        if expected.judge:
            assert points(run, "train/loss") == _judge_points(expected.judge, "train/loss")
            assert validated[:1] == _judge_points(expected.judge, "val/loss")[:1]
    if kind != "L":
        assert [step for step, _ in points(run, "loss/auto")] == expected.losses, run
    custom: Any = SummaryReader(run).lineage().custom.values  # type: ignore[union-attr]
    assert custom.get("status") == expected.status, run
    assert custom.get("width") == expected.width, run
    if kind != "C":
        assert custom.get("fold") == expected.fold
    if expected.has_checkpoint:
        saved = os.listdir(run / "checkpoints")
        assert saved, run
        if kind == "B":
            path = json.loads(SummaryReader(run).lineage().train.model_path)["ckpt"]  # type: ignore[union-attr]
            assert path == str(run / "checkpoints" / saved[0])
    elif (run / "checkpoints").exists():
        raise AssertionError(f"{run} has checkpoints of another fit")


def _check_all(directory: Path, kind: str, runs: dict[str, Expected]) -> None:
    assert sorted(path.name for path in (directory / "runs").iterdir()) == sorted(runs)
    for name, expected in runs.items():
        _check(directory / "runs" / name, kind, expected)


def _check_processes(directory: Path, kind: str) -> None:
    found = json.loads((directory / "expected.json").read_text())
    _check_all(directory, kind, {name: Expected(**facts) for name, facts in found.items()})


_UNEXPECTED = ("log_graph", "earlier fit", "draws one curve")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["L", "C", "B"])
@pytest.mark.parametrize("flow", FLOWS)
def test_every_run_holds_what_its_fit_recorded(
    tmp_path: Path, flow: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    runs = run_flow(flow, kind, "one process", tmp_path, None)

    _check_all(tmp_path, kind, runs)
    ours = [record for record in caplog.records if record.name.startswith("mindsummary_lightning")]
    said = [record.getMessage() for record in ours if record.levelname == "WARNING"]
    if kind == "C":  # its directory is fixed
        said = [message for message in said if "already contains an earlier fit" not in message]
    assert said == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["L", "B"])
@pytest.mark.parametrize("flow", ["two_fits", "fit_after_failure", "fit_after_failed_test", "resumed_fit"])
def test_in_a_fixed_version_the_newest_fit_replaces_the_others(tmp_path: Path, flow: str, kind: str) -> None:
    runs = run_flow(flow, kind, "one process", tmp_path, 0)

    _check_all(tmp_path, kind, runs)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["L", "C", "B"])
@pytest.mark.parametrize("flow", FLOWS)
def test_on_two_ranks_the_runs_are_those_of_one_process(tmp_path: Path, flow: str, kind: str) -> None:
    done = run_two_ranks(run_in_process, flow, kind, "ddp", str(tmp_path), None)
    assert done.returncode == 0, done.stderr[-3000:]

    _check_processes(tmp_path, kind)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("processes", ["ddp_spawn", "ddp_fork"])
@pytest.mark.parametrize("kind", ["L", "C", "B"])
@pytest.mark.parametrize("flow", [name for name in FLOWS if name not in _NO_SPAWN])
def test_launched_copies_record_where_the_process_that_launches_them_says(
    tmp_path: Path, flow: str, kind: str, processes: str
) -> None:
    done = run_warm(run_in_process, flow, kind, processes, str(tmp_path), None)
    assert done.returncode == 0, done.stderr[-3000:]

    _check_processes(tmp_path, kind)


def test_the_table_has_a_place_for_every_call_and_state() -> None:
    assert set(PLACES) == set(Call)
    assert {len(row) for row in PLACES.values()} == {len(Holds)}
