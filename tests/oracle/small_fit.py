"""A small but real training with the logger and the collector, and witnesses that say what happened
in it.

The witnesses are Lightning's own CSV logger, which is handed the same metrics, and a callback that
notes the loss of each step. Nothing they keep has passed through this package.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import torch
from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from mindsummary_lightning import MindInsightLogger, SummaryCollector
from tests.oracle.mindinsight_server import publish
from tests.trainer.support import trainer

BATCH_SIZE, BATCHES, VALIDATION_BATCHES = 16, 10, 3
EPOCHS, COLLECT_FREQ = 2, 6


class Digits(L.LightningModule):
    """A convolution and a linear layer: four parameters."""

    def __init__(self, learning_rate: float, channels: int = 4) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.convolution = nn.Conv2d(1, channels, 3)
        self.classifier = nn.Linear(channels * 36, 10)
        self.criterion = nn.CrossEntropyLoss()

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.classifier(self.convolution(images).relu().flatten(1))
        return scores

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        images, labels = batch
        loss: Tensor = self.criterion(self(images), labels)
        self.log("train/loss", loss)
        return loss

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        images, labels = batch
        scores = self(images)
        self.log("val/loss", self.criterion(scores, labels))
        self.log("val/accuracy", (scores.argmax(1) == labels).float().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=self.hparams["learning_rate"], momentum=0.9)


@dataclass
class _Notes(L.Callback):
    losses: list[float] = field(default_factory=list)

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self.losses.append(float(outputs["loss"]))


@dataclass(frozen=True)
class Fit:
    """What the witnesses of a training saw.

    Attributes:
        train_id: how MindInsight names its run.
        losses: loss of each step, the first one is step 1.
        logged: metric -> (step, value) as the CSV logger has them.
        metrics: the metrics of the last validation.
        checkpoint_bytes: size of the last checkpoint.
        images: the first training batch, shape ``(16, 1, 8, 8)``, in 0..1.
    """

    train_id: str
    losses: list[float]
    logged: dict[str, list[tuple[int, float]]]
    metrics: dict[str, float]
    checkpoint_bytes: int
    images: NDArray[np.float32]


def fit_digits(runs: Path, name: str, scratch: Path, *, learning_rate: float, note: str) -> Fit:
    """Train for two epochs, recording into a run that lies below ``runs`` when it is finished."""
    L.seed_everything(7, verbose=False)
    digits = load_digits()
    images = torch.tensor(digits.images[:, None] / 16, dtype=torch.float32)
    labels = torch.tensor(digits.target)
    train_size, validation_size = BATCH_SIZE * BATCHES, BATCH_SIZE * VALIDATION_BATCHES
    train = TensorDataset(images[:train_size], labels[:train_size])
    validation = TensorDataset(images[-validation_size:], labels[-validation_size:])

    notes = _Notes()
    logger = MindInsightLogger(scratch / "mindinsight", name="", version=name)
    witness = CSVLogger(scratch / "csv", name="", version=name)
    collector = SummaryCollector(
        collect_freq=COLLECT_FREQ, custom_lineage_data={"note": note, "fold": 3, "dropout": 0.25}
    )
    checkpoint = ModelCheckpoint(scratch / "checkpoints" / name)
    running = trainer(
        max_epochs=EPOCHS,
        log_every_n_steps=4,
        logger=[logger, witness],
        callbacks=[notes, collector, checkpoint, LearningRateMonitor("step")],
        enable_checkpointing=True,
    )
    running.fit(
        Digits(learning_rate), DataLoader(train, BATCH_SIZE), DataLoader(validation, BATCH_SIZE)
    )
    return Fit(
        train_id=publish(Path(logger.log_dir), runs),
        losses=notes.losses,
        logged=_read_csv(Path(witness.log_dir, "metrics.csv")),
        metrics={key: float(running.callback_metrics[key]) for key in ("val/loss", "val/accuracy")},
        checkpoint_bytes=Path(checkpoint.best_model_path).stat().st_size,
        images=train[:BATCH_SIZE][0].numpy(),
    )


def _read_csv(path: Path) -> dict[str, list[tuple[int, float]]]:
    logged: dict[str, list[tuple[int, float]]] = {}
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            step = int(row.pop("step"))
            for metric, value in row.items():
                if value:
                    logged.setdefault(metric, []).append((step, float(value)))
    return logged
