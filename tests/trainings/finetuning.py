"""Fine-tuning: a frozen backbone that thaws after an epoch, stochastic weight averaging, images in
a namedtuple.
"""

from __future__ import annotations

from typing import NamedTuple

import lightning as L
import torch
from lightning.pytorch.callbacks import (
    BackboneFinetuning,
    LearningRateMonitor,
    StochasticWeightAveraging,
)
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from tests.trainings.training import Training


class Sample(NamedTuple):
    name: str
    label: torch.Tensor
    image: torch.Tensor


class Photos(Dataset):
    def __len__(self) -> int:
        return 24

    def __getitem__(self, index):
        return Sample(f"{index}.jpg", torch.tensor(index % 3), torch.rand(3, 8, 8))


class Classifier(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten()
        )
        self.head = nn.Linear(216, 3)

    def forward(self, image):
        return self.head(self.backbone(image))

    def training_step(self, batch, batch_idx):
        loss = F.cross_entropy(self(batch.image), batch.label, label_smoothing=0.1)
        self.log("loss", loss, on_step=True, on_epoch=True)
        return loss

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        self.log("accuracy", (self(batch.image).argmax(1) == batch.label).float().mean())

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(filter(lambda p: p.requires_grad, self.parameters()), 0.05)
        return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)]


def _data():
    loaders = [DataLoader(Photos(), 8), DataLoader(Photos(), 12)]
    return {"train_dataloaders": DataLoader(Photos(), 8, shuffle=True), "val_dataloaders": loaders}


def _callbacks():
    averaging = StochasticWeightAveraging(0.02, swa_epoch_start=2, annealing_epochs=1)
    return [
        BackboneFinetuning(unfreeze_backbone_at_epoch=1, verbose=False),
        averaging,
        LearningRateMonitor(),
    ]


TRAINING = Training(Classifier, _data, {"max_epochs": 4}, _callbacks)
