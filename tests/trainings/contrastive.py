"""SimCLR: several views of each image, a momentum copy of the backbone, accumulated gradients."""

from __future__ import annotations

import copy

import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from tests.trainings.training import Training


class Views(Dataset):
    def __init__(self) -> None:
        self.images = torch.rand(32, 3, 8, 8)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index):
        image = self.images[index]
        return [image, image.flip(-1), image + 0.1 * torch.randn_like(image)], index, f"image{index}.png"


class SimCLR(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
        self.projection_head = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
        self.backbone_momentum = copy.deepcopy(self.backbone).requires_grad_(False)

    def training_step(self, batch, batch_idx):
        views, _, _ = batch
        with torch.no_grad():
            for ours, theirs in zip(self.backbone.parameters(), self.backbone_momentum.parameters(), strict=True):
                theirs.mul_(0.9).add_(ours, alpha=0.1)
        z0, z1 = (F.normalize(self.projection_head(self.backbone(view).flatten(1))) for view in views[:2])
        similarity = z0 @ z1.T / 0.5
        loss = F.cross_entropy(similarity, torch.arange(len(z0)))
        self.log("train_loss_ssl", loss)
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(
            [p for p in self.parameters() if p.requires_grad], lr=0.1, momentum=0.9, weight_decay=1e-4
        )
        return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)]


def _data():
    return {"train_dataloaders": DataLoader(Views(), batch_size=8, shuffle=True, drop_last=True)}


TRAINING = Training(SimCLR, _data, {"max_epochs": 3, "accumulate_grad_batches": 2})
