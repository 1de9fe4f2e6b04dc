"""Sixty runs of a sweep as a month leaves them: diverged, killed, resumed, tested and untested
ones.

Every number that a table shows of them is computed here by hand, from the curves as they were
written.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from pathlib import Path

from mindsummary_lightning.reading.run_status import STARTED
from mindsummary_lightning.values import EvaluationInfo, RunInfo, TrainInfo, UserDefinedInfo
from tests.reading.runs import values_at, write_lineage, write_summary

STEPS = 10
COUNT = 60
_LONG_AGO = 1_700_000_000


@dataclass(frozen=True)
class Run:
    """One of the runs, and what is true of it.

    Attributes:
        number: 0 to 59.
        losses: ``val/loss`` of steps 1 to 10, as every reader must show them.
    """

    number: int
    losses: tuple[float, ...]

    @property
    def name(self) -> str:
        return f"sweep/run_{self.number:02d}"

    @property
    def is_diverged(self) -> bool:
        return self.number % 10 == 3

    @property
    def is_killed(self) -> bool:
        return self.number % 10 == 4

    @property
    def is_resumed(self) -> bool:
        return self.number % 10 == 5

    @property
    def is_tested(self) -> bool:
        return self.number % 3 == 0

    @property
    def is_of_old_version(self) -> bool:
        """An old version moved the validation's metrics of a tested run to its settings."""
        return self.is_tested and self.number % 2 == 0

    @property
    def status(self) -> str:
        if self.is_killed:
            return "killed"
        return {6: "failed", 7: "interrupted"}.get(self.number % 10, "finished")

    @property
    def lr(self) -> float:
        return (0.1, 0.01, 0.001)[self.number % 3]

    @property
    def seed(self) -> int:
        return self.number % 5

    @property
    def best(self) -> float:
        return min(loss for loss in self.losses if math.isfinite(loss))

    @property
    def best_step(self) -> int:
        return 1 + self.losses.index(self.best)

    @property
    def last(self) -> float:
        return self.losses[-1]


def sixty_runs() -> list[Run]:
    """The runs, in order of their names: losses fall to a least one in the middle and
    rise again.
    """
    runs = []
    for number in range(COUNT):
        best_at = 3 + number * 7 % 6
        # so that no two runs are equally good
        floor = (10 + number * 37 % COUNT) / 100 + number / 10_000
        rise = 1 + number * 11 % 7
        losses = [
            round(floor + abs(step - best_at) * rise / 100, 4) for step in range(1, STEPS + 1)
        ]
        if number % 10 == 3:
            losses[-2:] = [math.nan, math.nan]
        runs.append(Run(number, tuple(losses)))
    return runs


def write_sixty_runs(base: Path) -> list[Run]:
    """Write them below a directory."""
    runs = sixty_runs()
    for run in runs:
        _write(base / run.name, run)
    return runs


def by_best(runs: list[Run]) -> list[Run]:
    """The runs by their best value, the least first."""
    return sorted(runs, key=lambda run: run.best)


def by_last(runs: list[Run]) -> list[Run]:
    """The runs by their last value, the least first, without those that have none."""
    return sorted((run for run in runs if not run.is_diverged), key=lambda run: run.last)


def _write(directory: Path, run: Run) -> None:
    second = _LONG_AGO + 1000 * run.number
    events = [
        values_at(step, {"val/loss": loss, "train/loss": 2 * loss}, second + 2.0 * step)
        for step, loss in enumerate(run.losses, 1)
    ]
    if run.is_resumed:  # from step 6 on; the first part got to step 8, with other values
        first = [
            *events[:5],
            *(values_at(step, {"val/loss": 0.001}, second + 2.0 * step) for step in (6, 7, 8)),
        ]
        later = [
            values_at(step, {"val/loss": run.losses[step - 1]}, second + 500.0 + 2.0 * step)
            for step in range(6, 11)
        ]
        paths = [
            write_summary(directory, first, second),
            write_summary(directory, later, second + 500),
        ]
    else:
        paths = [write_summary(directory, events, second)]
    paths.append(_write_lineage(directory, run, second))
    for path in paths:
        os.utime(path, (second, second))


def _write_lineage(directory: Path, run: Run, second: int) -> Path:
    settings: dict[str, int | float | str] = {
        "lr": run.lr,
        "seed": run.seed,
        "batch_norm": 1,
        "optim/beta": 0.9,
    }
    metrics = {} if run.is_diverged else {"val/loss": run.last}
    if run.is_tested:
        metrics["test/acc"] = round(1 - run.best, 4)
    if run.is_of_old_version and "val/loss" in metrics:
        settings["val/loss"] = metrics.pop("val/loss")
    raw = {"finished": "success", "interrupted": "finished", "killed": STARTED}.get(
        run.status, run.status
    )
    notes = RunInfo({"status": raw, "lightning_version": "2.6.0", "precision": "32-true"})
    train = TrainInfo(network="Net", optimizer="Adam", learning_rate=run.lr, batch_size=32, epoch=3)
    evaluation = [EvaluationInfo(json.dumps(metrics))] if metrics else []
    return write_lineage(directory, [train, *evaluation, UserDefinedInfo(settings), notes], second)
