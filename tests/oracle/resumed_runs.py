"""Trainings that are killed at random points and resumed: ``python -m tests.oracle.resumed_runs
DIRECTORY COUNT``.

Each part of a training is a forked process of its own, so that a part can be killed for good. What
a part did is noted by a witness, line by line, in ``DIRECTORY/<run>.witness``.

Lightning saves a step's checkpoint first and gives that step's metrics to the logger after it. Who
dies in between resumes behind metrics that no logger was ever given. So a lock keeps the kill out
from the moment the checkpoint is begun, as no hook tells when it is in place, until the metrics are
given; it may come at any other.
"""

from __future__ import annotations

import fcntl
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

from mindsummary_lightning import MindInsightLogger, SummaryCollector
from tests.trainer.support import Net, loader, trainer

EPOCHS, BATCHES = 2, 20
LAST_STEP = EPOCHS * BATCHES


class _Spared:
    """The time from the beginning of a step's checkpoint to its metrics, in which the parent does
    not kill.
    """

    def __init__(self, path: Path) -> None:
        # by each process anew: a lock belongs to one opening
        self._descriptor = os.open(path, os.O_CREAT | os.O_RDWR)

    def begin(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def end(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)


class _Logger(MindInsightLogger):
    def __init__(self, directory: Path, name: str, spared: _Spared) -> None:
        super().__init__(directory, name="", version=name)
        self._spared = spared

    def log_metrics(self, metrics: Any, step: int | None = None) -> None:
        super().log_metrics(metrics, step)
        self._spared.end()


class _Witness(L.Callback):
    """Notes each step before anything of it is recorded, and tells the parent."""

    def __init__(self, path: Path, told: int, spared: _Spared) -> None:
        self._path, self._told, self._spared = path, told, spared

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(f"{trainer.global_step} {float(outputs['loss'])!r}\n")
        os.write(self._told, b".")

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        self._spared.begin()


def _train(directory: Path, name: str, told: int) -> None:
    checkpoints = directory / "checkpoints" / name
    torch.manual_seed(len(list(checkpoints.glob("*.ckpt"))))
    saved = sorted(checkpoints.glob("*.ckpt"), key=lambda path: int(path.stem))
    spared = _Spared(directory / f"{name}.spared")
    trainer(
        max_epochs=EPOCHS,
        logger=_Logger(directory / "runs", name, spared),
        callbacks=[
            _Witness(directory / f"{name}.witness", told, spared),
            SummaryCollector(collect_freq=1),
            ModelCheckpoint(
                checkpoints,
                "{step}",
                auto_insert_metric_name=False,
                every_n_train_steps=3,
                save_top_k=-1,
            ),
        ],
        enable_checkpointing=True,
    ).fit(Net(), loader(BATCHES, 2), ckpt_path=saved[-1] if saved else None)


def _part(directory: Path, name: str, kill_after: int | None) -> None:
    """One process of a training, killed once it has told of that many steps."""
    heard, told = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _train(directory, name, told)
        finally:
            os._exit(0)
    os.close(told)
    steps = 0
    while os.read(heard, 1):
        steps += 1
        if steps == kill_after:
            spared = _Spared(directory / f"{name}.spared")
            spared.begin()
            os.kill(child, signal.SIGKILL)
            spared.end()
            break
    os.waitpid(child, 0)
    os.close(heard)


def main(directory: Path, count: int) -> None:
    """Leave that many runs below ``DIRECTORY/runs``, each killed once and resumed to its end."""
    places = random.Random(11)
    for number in range(count):
        name = f"resumed_{number}"
        _part(directory, name, places.randint(1, LAST_STEP - 1))
        _part(directory, name, None)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
