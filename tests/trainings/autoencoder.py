"""The autoencoder of Lightning's README: no ``forward``, the images are reshaped in ``training_step``."""

from __future__ import annotations

import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from tests.trainings.training import Training


class LitAutoEncoder(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(36, 16), nn.ReLU(), nn.Linear(16, 3))
        self.decoder = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 36))

    def training_step(self, batch, batch_idx):
        x, _ = batch
        x = x.view(x.size(0), -1)
        x_hat = self.decoder(self.encoder(x))
        loss = F.mse_loss(x_hat, x)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def _data():
    images = TensorDataset(torch.rand(48, 1, 6, 6), torch.randint(0, 10, (48,)))
    return {"train_dataloaders": DataLoader(images, batch_size=8, shuffle=True)}


TRAINING = Training(LitAutoEncoder, _data, {"max_epochs": 2})
