"""A small CNN learns scikit-learn's scanned digits, and MindInsight can show how.

    python examples/digits.py [--epochs 8] [--save-dir runs]

The data ship with scikit-learn: 1,797 real handwritten digits of 8x8 pixels.
"""

from __future__ import annotations

import argparse
import shlex
import sys

import lightning as L
import torch
from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

from mindsummary_lightning import (
    MindInsightLogger,
    SummaryCollector,
    SummaryLandscape,
    tensor_summary,
)


class DigitsData(L.LightningDataModule):
    """Scanned digits as images of shape (1, 8, 8) in [0, 1]."""

    def __init__(self, batch_size: int = 32) -> None:
        super().__init__()
        self.save_hyperparameters()

    def setup(self, stage: str) -> None:
        digits = load_digits()
        images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
        dataset = TensorDataset(images, torch.tensor(digits.target))
        self.train, self.val, self.test = random_split(
            dataset, [1297, 200, 300], torch.Generator().manual_seed(0)
        )

    def train_dataloader(self) -> DataLoader:
        return DataLoader(self.train, self.hparams.batch_size, shuffle=True)

    def val_dataloader(self) -> DataLoader:
        return DataLoader(self.val, 100)

    def test_dataloader(self) -> DataLoader:
        return DataLoader(self.test, 100)


class DigitsNet(L.LightningModule):
    """Two convolutions and two linear layers."""

    def __init__(
        self, channels: int = 8, dropout: float = 0.1, learning_rate: float = 0.05
    ) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.features = nn.Sequential(
            nn.Conv2d(1, channels, 3, padding=1),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(channels, 2 * channels, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Sequential(
            nn.Flatten(), nn.Dropout(dropout), nn.Linear(8 * channels, 10)
        )
        self.loss_function = nn.CrossEntropyLoss()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(images))

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        loss, accuracy = self._evaluate(batch)
        self.log_dict({"train/loss": loss, "train/accuracy": accuracy})
        return loss

    def validation_step(self, batch: list[torch.Tensor], batch_idx: int) -> None:
        loss, accuracy = self._evaluate(batch)
        self.log_dict({"val/loss": loss, "val/accuracy": accuracy})

    def test_step(self, batch: list[torch.Tensor], batch_idx: int) -> None:
        loss, accuracy = self._evaluate(batch)
        self.log_dict({"test/loss": loss, "test/accuracy": accuracy})

    def configure_optimizers(self) -> dict:
        optimizer = torch.optim.SGD(self.parameters(), self.hparams.learning_rate, momentum=0.9)
        steps = int(self.trainer.estimated_stepping_batches)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, 2 * self.hparams.learning_rate, steps, div_factor=2
        )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def _evaluate(self, batch: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        images, labels = batch
        logits = self(images)
        tensor_summary("logits", logits)
        return self.loss_function(logits, labels), (logits.argmax(1) == labels).float().mean()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--save-dir", default="runs")
    parser.add_argument("--learning-rate", type=float, default=0.05)
    arguments = parser.parse_args()

    L.seed_everything(0)
    landscape = {  # checkpoints at the end of each epoch: the path runs through the whole training
        "unit": "epoch",
        "intervals": [list(range(1, max(3, arguments.epochs) + 1))],
        "landscape_size": 20,
        "num_samples": 256,
    }
    logger = MindInsightLogger(arguments.save_dir, name="digits")
    trainer = L.Trainer(
        max_epochs=arguments.epochs,
        accelerator="cpu",
        logger=logger,
        callbacks=[
            SummaryCollector(
                collect_specified_data={
                    "histogram_regular": ".*weight",
                    "collect_landscape": landscape,
                }
            ),
            LearningRateMonitor("step"),
            ModelCheckpoint(monitor="val/accuracy", mode="max"),
        ],
        log_every_n_steps=5,
        enable_model_summary=False,
    )
    model, data = DigitsNet(learning_rate=arguments.learning_rate), DigitsData()
    trainer.fit(model, data)
    trainer.test(model, data, verbose=False)
    if arguments.epochs >= 3:  # a path needs three points
        SummaryLandscape(logger.log_dir).generate(model, data.train_dataloader(), devices=1)

    accuracy = float(trainer.callback_metrics["test/accuracy"])
    print(f"\ntest accuracy {accuracy:.3f}; recorded in {logger.log_dir}; to look at it:\n")
    print(shlex.join([sys.executable, "-m", "mindsummary_lightning", "view", logger.root_dir]))


if __name__ == "__main__":
    main()
