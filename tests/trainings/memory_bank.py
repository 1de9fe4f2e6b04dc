"""Anomaly detection without training: features are stored in ``training_step``, which returns
nothing.
"""

from __future__ import annotations

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader

from tests.trainings.training import Training


class MemoryBank(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).eval().requires_grad_(False)
        self.stored: list[torch.Tensor] = []
        self.register_buffer("bank", torch.empty(0))

    def configure_optimizers(self):
        return None

    def training_step(self, batch, batch_idx):
        self.stored.append(self.features(batch["image"]).flatten(1))

    def on_validation_start(self):
        if self.stored:
            self.bank = torch.vstack(self.stored)

    def validation_step(self, batch, batch_idx):
        found = self.features(batch["image"]).flatten(1)
        score = torch.cdist(found, self.bank).min(1).values if len(self.bank) else found.sum(1)
        self.log("image_score", score.mean(), batch_size=len(score))


def _data():
    images = [
        {"image": image, "image_path": f"{number}.png"}
        for number, image in enumerate(torch.rand(24, 3, 8, 8))
    ]
    return {"train_dataloaders": DataLoader(images, 6), "val_dataloaders": DataLoader(images, 6)}


TRAINING = Training(MemoryBank, _data, {"max_epochs": 1, "num_sanity_val_steps": 0})
