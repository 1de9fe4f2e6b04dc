"""Semi-supervised learning on two loaders at once, in a DataModule, with a module that switches by
the data.
"""

from __future__ import annotations

import lightning as L
import torch
from lightning.pytorch.utilities import CombinedLoader
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from tests.trainings.training import Training


class TwoSources(L.LightningDataModule):
    def __init__(self, batch_size: int = 4) -> None:
        super().__init__()
        self.save_hyperparameters()

    def setup(self, stage):
        self.labelled = TensorDataset(torch.rand(12, 1, 6, 6), torch.arange(12) % 3)
        self.unlabelled = TensorDataset(torch.rand(32, 1, 6, 6))

    def train_dataloader(self):
        size = self.hparams.batch_size
        loaders = {
            "labelled": DataLoader(self.labelled, size),
            "unlabelled": DataLoader(self.unlabelled, 2 * size),
        }
        return CombinedLoader(loaders, "max_size_cycle")

    def val_dataloader(self):
        return DataLoader(self.labelled, 6)


class PseudoLabels(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(36, 12), nn.ReLU())
        self.rare = nn.Linear(12, 12)
        self.head = nn.Linear(12, 3)

    def forward(self, images):
        hidden = self.body(images)
        if hidden.mean() > 0.12:  # depends on the data
            hidden = self.rare(hidden).relu()
        return self.head(hidden)

    def training_step(self, batch, batch_idx):
        images, labels = batch["labelled"]
        loss = F.cross_entropy(self(images), labels)
        scores = self(batch["unlabelled"][0])
        loss = loss + 0.1 * F.cross_entropy(scores, scores.argmax(1))
        self.log("loss/total", loss, batch_size=len(images))
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val/loss", F.cross_entropy(self(batch[0]), batch[1]))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.05, nesterov=True, momentum=0.9)


TRAINING = Training(
    PseudoLabels, lambda: {"datamodule": TwoSources()}, {"max_epochs": 3, "val_check_interval": 0.5}
)
